"""The model as people write it in PyTorch: autograd, torch.optim.Adam for the dense parameters, lazy Adam for the rows.

`split=False`: distinct ids are lifted once, then gathered to the batch; everything after that is textbook code.
`split=True`: also normalised once per distinct id, with the counts as weights, and the head's first layer is computed
per distinct id and side: h = hu[u] + hi[i].

Where oneDNN multiplies faster than torch's BLAS both use it, gradients included.
"""
import torch
import torch.nn.functional as F

from model import BETA1, BETA2, EPSILON, L2, MOMENTUM, NORM_EPSILON, RATE, SIDES, plan_side, size_classes
from product import torch_product


class Slab:
    """The rows of one side and size, with their Adam moments and step counts."""

    def __init__(self, rows):
        self.weight = rows
        self.first, self.second = torch.zeros_like(rows), torch.zeros_like(rows)
        self.steps = torch.zeros(len(rows), dtype=rows.dtype)

    def step(self, slots, gradient):
        """Adam on the rows at `slots` alone, each with its own step count."""
        weight = self.weight[slots]
        gradient = gradient.add(weight, alpha=L2)
        steps = self.steps[slots] + 1
        first = self.first[slots].mul_(BETA1).add_(gradient, alpha=1 - BETA1)
        second = self.second[slots].mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        rate = (RATE / (1 - BETA1**steps))[:, None]
        scale = (1 - BETA2**steps).sqrt()[:, None]
        self.weight[slots] = weight - rate * first / ((second.sqrt() / scale).add_(EPSILON))
        self.first[slots], self.second[slots], self.steps[slots] = first, second, steps


class Product(torch.autograd.Function):
    """a @ b by a product of our choice."""

    @staticmethod
    def forward(ctx, product, a, b):
        ctx.product = product
        ctx.save_for_backward(a, b)
        return multiply(product, a, b)

    @staticmethod
    def backward(ctx, dout):
        (a, b), dout = ctx.saved_tensors, dout.contiguous()
        return None, multiply(ctx.product, dout, b.t()), multiply(ctx.product, a.t(), dout)


def multiply(product, a, b):
    out = a.new_zeros(a.shape[0], b.shape[1])
    if out.numel() and a.shape[1]:
        product(a, b, out)
    return out


class PlainModel:
    def __init__(self, parameters, sizes, split, product=torch_product):
        self.sizes, self.split, self.ladder = sizes, split, "ladder" in parameters["user"]
        self.product = product
        self.classes = {side: size_classes(parameters, side, sizes) for side in SIDES}
        self.slots, self.slabs = {}, {}
        dtype = parameters["head"]["output"]["bias"].dtype
        for side in SIDES:
            self.slots[side] = torch.zeros(len(self.classes[side]), dtype=torch.long)
            self.slabs[side] = []
            for k, size in enumerate(sizes):
                ids = torch.nonzero(self.classes[side] == k).flatten()
                self.slots[side][ids] = torch.arange(len(ids))
                rows = [parameters[side]["rows"][i] for i in ids.tolist()]
                self.slabs[side].append(Slab(torch.stack(rows) if rows else torch.zeros(0, size, dtype=dtype)))
        self.dense = {"head": parameter_tree(parameters["head"])}
        if self.ladder:
            for side in SIDES:
                self.dense[side] = parameter_tree({k: parameters[side][k] for k in ("ladder", "norm")})
        self.optimizer = torch.optim.Adam(
            list(leaves(self.dense)), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, weight_decay=L2, foreach=True
        )
        widths = {"inputNorm": 2 * sizes[-1], "hiddenNorm": len(parameters["head"]["hidden"]["bias"])}
        if self.ladder:
            widths |= {side: sizes[-1] for side in SIDES}
        self.running = {
            name: {"mean": torch.zeros(width, dtype=dtype), "variance": torch.ones(width, dtype=dtype)}
            for name, width in widths.items()
        }

    def prepare(self, user, item, label):
        """Plan a batch; the result is what `step` takes."""
        plans = [plan_side(ids, self.classes[s], len(self.sizes)) for s, ids in zip(SIDES, (user, item))]
        slots = [[self.slots[s][ids] for ids in plan.ids] for s, plan in zip(SIDES, plans)]
        dtype = self.running["inputNorm"]["mean"].dtype
        weights = [plan.counts.to(dtype) / len(label) for plan in plans]
        return plans, slots, weights, label.to(dtype)

    def norm(self, x, name, parameters):
        """Batch norm over the rows of the batch."""
        running = self.running[name]
        gamma, beta = parameters["gamma"], parameters["beta"]
        return F.batch_norm(x, running["mean"], running["variance"], gamma, beta, True, MOMENTUM, NORM_EPSILON)

    def matmul(self, a, b):
        return a @ b if self.product is torch_product else Product.apply(self.product, a, b)

    def linear(self, x, weight, bias):
        """x·weightᵀ + bias"""
        if self.product is torch_product:
            return F.linear(x, weight, bias)
        y = self.matmul(x, weight.t())
        return y if bias is None else y + bias

    def weighted_norm(self, x, weight, name, parameters, rows, columns):
        """The same batch norm over distinct ids, each weighing as many rows as it has."""
        mean = self.matmul(weight[None], x)[0]
        centred = x - mean
        variance = self.matmul(weight[None], centred * centred)[0]
        with torch.no_grad():
            running = self.running[name]
            running["mean"][columns].lerp_(mean, MOMENTUM)
            running["variance"][columns].lerp_(variance * (rows / (rows - 1)), MOMENTUM)
        scale = torch.rsqrt(variance + NORM_EPSILON) * parameters["gamma"][columns]
        return centred * scale + parameters["beta"][columns]

    def lift(self, rows, side):
        """rows per size class, smallest first → n × s_n"""
        x = rows[0]
        for k, rung in enumerate(self.dense[side]["ladder"] if self.ladder else ()):
            x = torch.cat([self.linear(x, rung["weight"], rung["bias"]), rows[k + 1]])
        return x

    def forward(self, plans, weights, rows):
        head, top = self.dense["head"], self.sizes[-1]
        vectors = []
        for s, side in enumerate(SIDES):
            x = self.lift(rows[s], side)
            if self.split:
                count = len(plans[s].index)
                if self.ladder:
                    norm = self.dense[side]["norm"]
                    x = torch.tanh(self.weighted_norm(x, weights[s], side, norm, count, slice(None)))
                columns = slice(s * top, (s + 1) * top)
                x = self.weighted_norm(x, weights[s], "inputNorm", head["inputNorm"], count, columns)
                x = self.linear(x, head["hidden"]["weight"][:, columns], head["hidden"]["bias"] if s == 0 else None)
                vectors.append(x.index_select(0, plans[s].index))
            else:
                x = x.index_select(0, plans[s].index)
                vectors.append(torch.tanh(self.norm(x, side, self.dense[side]["norm"])) if self.ladder else x)
        if self.split:
            hidden = vectors[0] + vectors[1]
        else:
            x = self.norm(torch.cat(vectors, 1), "inputNorm", head["inputNorm"])
            hidden = self.linear(x, head["hidden"]["weight"], head["hidden"]["bias"])
        hidden = torch.tanh(self.norm(hidden, "hiddenNorm", head["hiddenNorm"]))
        return self.linear(hidden, head["output"]["weight"], head["output"]["bias"]).squeeze(1)

    def step(self, prepared):
        """One training step; returns the summed loss."""
        plans, slots, weights, label = prepared
        rows = [
            [slab.weight[at].requires_grad_() for slab, at in zip(self.slabs[side], slots[s])]
            for s, side in enumerate(SIDES)
        ]
        self.optimizer.zero_grad(set_to_none=True)
        loss = (torch.sigmoid(self.forward(plans, weights, rows)) - label).square().sum()
        loss.backward()
        with torch.no_grad():
            for parameter in leaves(self.dense):  # dense parameters step on their L2 also when no gradient reached them
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            self.optimizer.step()
            for s, side in enumerate(SIDES):
                for slab, at, x in zip(self.slabs[side], slots[s], rows[s]):
                    if len(at):
                        slab.step(at, x.grad)
        return loss.detach()

    def parameters(self):
        """All parameters, nested as they were given."""
        tree = {name: detach_tree(part) for name, part in self.dense.items()}
        for side in SIDES:
            pairs = zip(self.classes[side].tolist(), self.slots[side].tolist())
            rows = [self.slabs[side][k].weight[slot] for k, slot in pairs]
            tree[side] = {**tree.get(side, {}), "rows": rows}
        return tree


def map_tree(tree, change):
    if isinstance(tree, dict):
        return {name: map_tree(part, change) for name, part in tree.items()}
    if isinstance(tree, list):
        return [map_tree(part, change) for part in tree]
    return change(tree)


def parameter_tree(tree):
    return map_tree(tree, lambda tensor: tensor.clone().requires_grad_())


def detach_tree(tree):
    return map_tree(tree, lambda tensor: tensor.detach())


def leaves(tree):
    if isinstance(tree, (dict, list)):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(part)
    else:
        yield tree
