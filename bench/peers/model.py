"""What the variants of the PyTorch peer share: starting parameters, the plan of a batch, the constants of method §2.

Parameters are nested as in the golden files: `user` and `item` hold `rows` (one tensor per id, of its own size) and,
with a ladder, `ladder` and `norm`; `head` holds `inputNorm`, `hidden`, `hiddenNorm`, `output`.
A model without a ladder ("fixed") has one size, and its rows go straight into the head's concatenation.
"""
import math
from dataclasses import dataclass

import torch

RATE, L2, BETA1, BETA2, EPSILON = 1e-3, 1e-3, 0.9, 0.999, 1e-8
NORM_EPSILON, MOMENTUM = 1e-5, 0.1
SIDES = ("user", "item")


def draw_parameters(batch, seed=1):
    """Fresh parameters for the batch's model: rows N(0,1), linear maps U(±1/√fan_in), norms 1 and 0."""
    generator = torch.Generator().manual_seed(seed)
    sizes, hidden, top = batch["sizes"], batch["hidden"], batch["sizes"][-1]

    def linear(outputs, inputs):
        bound = 1 / math.sqrt(inputs)
        draw = lambda *shape: torch.empty(*shape).uniform_(-bound, bound, generator=generator)
        return {"weight": draw(outputs, inputs), "bias": draw(outputs)}

    norm = lambda width: {"gamma": torch.ones(width), "beta": torch.zeros(width)}
    parameters = {}
    for side in SIDES:
        rows = [torch.randn(sizes[k], generator=generator) for k in batch[side]["sizes"]]
        parameters[side] = {"rows": rows}
        if batch["model"] == "ladder":
            parameters[side]["ladder"] = [linear(sizes[k + 1], sizes[k]) for k in range(len(sizes) - 1)]
            parameters[side]["norm"] = norm(top)
    parameters["head"] = {
        "inputNorm": norm(2 * top),
        "hidden": linear(hidden, 2 * top),
        "hiddenNorm": norm(hidden),
        "output": linear(1, hidden),
    }
    return parameters


@dataclass
class Side:
    """One side of a batch: its distinct ids, smallest size first, so that a prefix is what each rung lifts."""

    ids: list  # per size class, the distinct ids of that class
    ends: list  # per size class, how many distinct ids are of that class or a smaller one
    index: torch.Tensor  # per row of the batch, the position of its id among the distinct ones
    counts: torch.Tensor  # per distinct id, how many rows have it


def plan_side(ids, classes, class_count):
    """Find the distinct ids of a column and order them by size class."""
    distinct = torch.unique(ids)
    by_class = classes[distinct]
    distinct = distinct[torch.argsort(by_class, stable=True)]
    position = torch.full((len(classes),), -1, dtype=torch.long)
    position[distinct] = torch.arange(len(distinct))
    index = position[ids]
    per_class = torch.bincount(by_class, minlength=class_count)
    return Side(
        ids=list(distinct.split(per_class.tolist())),
        ends=per_class.cumsum(0).tolist(),
        index=index,
        counts=torch.bincount(index, minlength=len(distinct)),
    )


def size_classes(parameters, side, sizes):
    """The size class of every id of a side, read off its row."""
    return torch.tensor([sizes.index(len(row)) for row in parameters[side]["rows"]])
