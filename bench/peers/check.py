"""Every variant of the peer against plain autograd (float64, and float32 more loosely) and against a golden case."""
import json

import torch

from model import SIDES, draw_parameters
from plain import PlainModel, map_tree
from product import products


def flatten(tree, name=""):
    """Dotted name → tensor."""
    if isinstance(tree, (dict, list)):
        parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, part in parts:
            yield from flatten(part, f"{name}.{key}" if name else str(key))
    else:
        yield name, tree


def difference(got, want):
    """Largest |got − want| / max(1, |want|) over all tensors, and where it is."""
    got, want = dict(flatten(got)), dict(flatten(want))
    if got.keys() != want.keys():
        raise SystemExit(f"names: expected {sorted(want)}, got {sorted(got)}")
    errors = []
    for name, tensor in want.items():
        a, b = got[name].double(), tensor.double()
        if a.shape != b.shape:
            raise SystemExit(f"{name}: expected shape {tuple(b.shape)}, got {tuple(a.shape)}")
        errors.append((((a - b).abs() / b.abs().clamp(min=1)).max().item(), name))
    return max(errors)


def tensor_tree(tree, dtype):
    """Nested lists of numbers → nested tensors; rows and ladder stay lists."""
    if isinstance(tree, dict):
        return {name: tensor_tree(part, dtype) for name, part in tree.items()}
    if isinstance(tree[0], dict) or (isinstance(tree[0], list) and len({len(row) for row in tree}) > 1):
        return [tensor_tree(part, dtype) for part in tree]
    return torch.tensor(tree, dtype=dtype)


def statistics_of(model):
    return model.running if isinstance(model, PlainModel) else model.running_statistics()


def run_steps(model, batches):
    """Train on the batches; losses."""
    columns = [[torch.tensor(batch[name]) for name in ("user", "item", "label")] for batch in batches]
    return torch.stack([model.step(model.prepare(*c)) for c in columns])


def fixed_parameters(parameters, size):
    """The golden case without its ladder: every row brought to one size, straight into the head."""
    generator = torch.Generator().manual_seed(7)
    dtype = parameters["head"]["output"]["bias"].dtype
    draw = lambda rows: [torch.randn(size, generator=generator, dtype=torch.float64).to(dtype) for _ in rows]
    return {"head": parameters["head"], **{side: {"rows": draw(parameters[side]["rows"])} for side in SIDES}}


def tiny_case(seed):
    """Parameters of a little ladder, its sizes, and batches, some of which leave rungs without an id."""
    random = torch.Generator().manual_seed(seed)
    draw = lambda bound, count: torch.randint(bound, (count,), generator=random).tolist()
    sizes = [2, 3, 5, 8]
    lowest = seed % len(sizes)  # no id below this size class
    # largest first, so that a batch of few users after one of many leaves rungs idle that were used before
    side = lambda count: {"sizes": sorted([lowest + k for k in draw(len(sizes) - lowest, count)], reverse=True)}
    batch = {"model": "ladder", "sizes": sizes, "hidden": 7, "user": side(6), "item": side(15)}
    batches = [{"user": draw(3 + k % 4, 20), "item": draw(15, 20), "label": draw(2, 20)} for k in range(6)]
    # Norms away from 1 and 0: a parameter that is zero and has a true gradient of zero is stepped by rounding alone.
    move = lambda tensor: tensor + 0.1 * torch.randn(tensor.shape, generator=random)
    return map_tree(draw_parameters(batch, seed), move), sizes, batches


class Comparison:
    """Prints one line per comparison and counts the failures."""

    def __init__(self):
        self.failed = 0

    def expect(self, what, got, want, tolerance):
        error, name = difference(got, want)
        good = error <= tolerance
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}: {error:.1e} ≤ {tolerance:.0e} ({name})")


def check_golden(golden, variants, dtype, product, expect):
    """One full step, then all ten, of every variant."""
    loose = 1e-8 if dtype == torch.float64 else 1e-3
    tolerance = 1e-8 if dtype == torch.float64 else 1e-4
    first, exact = golden["first"], torch.float64
    parameters = tensor_tree(golden["params"], dtype)
    want = {"loss": torch.tensor(golden["lossPerStep"], dtype=exact)}
    for name, make in variants(parameters, golden["sizes"], product).items():
        model = make()
        losses = run_steps(model, golden["batches"][:1])
        expect(f"{name}: first.after", model.parameters(), tensor_tree(first["after"], exact), tolerance)
        expect(f"{name}: first.running", statistics_of(model), tensor_tree(first["running"], exact), tolerance)
        losses = torch.cat([losses, run_steps(model, golden["batches"][1:])])
        expect(f"{name}: lossPerStep", {"loss": losses}, want, tolerance)
        expect(f"{name}: final.params", model.parameters(), tensor_tree(golden["final"]["params"], exact), loose)
        expect(f"{name}: final.running", statistics_of(model), tensor_tree(golden["final"]["running"], exact), loose)


def check_autograd(case, variants, dtype, product, expect):
    """Every variant against plain autograd in float64."""
    label, parameters, sizes, batches = case
    tolerance = 1e-8 if dtype == torch.float64 else 1e-3
    truth = PlainModel(map_tree(parameters, lambda x: x.double()), sizes, split=False)
    want = run_steps(truth, batches)
    for name, make in variants(map_tree(parameters, lambda x: x.to(dtype)), sizes, product).items():
        model = make()
        got = run_steps(model, batches)
        expect(f"{label} {name}: losses", {"loss": got}, {"loss": want}, tolerance)
        expect(f"{label} {name}: parameters", model.parameters(), truth.parameters(), tolerance)
        expect(f"{label} {name}: running", statistics_of(model), statistics_of(truth), tolerance)


def check(path, variants):
    """Compare everything; exits with an error when a comparison fails."""
    with open(path) as file:
        golden = json.load(file)
    start = tensor_tree(golden["params"], torch.float64)
    cases = [("fixed", fixed_parameters(start, golden["sizes"][-1]), golden["sizes"][-1:], golden["batches"])]
    for seed in range(4):
        cases.append((f"tiny {seed}", *tiny_case(seed)))
    comparison = Comparison()
    for dtype, product_name in ((torch.float64, "torch.mm"), *((torch.float32, name) for name in products)):
        print(f"# {str(dtype)[6:]}, {product_name}")
        check_golden(golden, variants, dtype, products[product_name], comparison.expect)
        for case in cases:
            check_autograd(case, variants, dtype, products[product_name], comparison.expect)
    if comparison.failed:
        raise SystemExit(f"{comparison.failed} comparisons failed")
