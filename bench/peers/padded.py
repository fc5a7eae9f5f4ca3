"""Rows of a stream's ids, users first, then items, each padded with zeros to the full width: one gather for all sizes."""
import numpy as np
import torch

from model import BETA1, BETA2, EPSILON, L2, RATE, SIDES, Side
from store import MOST_STEPS, adam_moments


class LazyRows:
    """Rows that are stepped only when met, by Adam, each with its own step count."""

    def __init__(self, weight, rate=RATE):
        self.weight = weight
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)
        self.steps = torch.zeros(len(weight), dtype=torch.long)
        t = torch.arange(MOST_STEPS + 1, dtype=torch.float64).clamp_(min=1)
        scale = (1 - BETA2**t).sqrt()
        self.corrections = torch.stack([rate * scale / (1 - BETA1**t), EPSILON * scale], 1).to(weight.dtype)

    def step(self, ids, gradient):
        """One step on distinct rows; `gradient` is used up."""
        weight, first, second = (part.index_select(0, ids) for part in (self.weight, self.first, self.second))
        t = self.steps.index_select(0, ids).add_(1)
        rate, epsilon = self.corrections.index_select(0, t.clamp(max=MOST_STEPS)).split(1, 1)
        gradient.add_(weight, alpha=L2)
        adam_moments(gradient, first, second)
        torch.sqrt(second, out=gradient).add_(epsilon)
        torch.div(first, gradient, out=gradient)
        weight.addcmul_(gradient, rate, value=-1)
        self.steps.index_copy_(0, ids, t)
        for part, value in ((self.weight, weight), (self.first, first), (self.second, second)):
            part.index_copy_(0, ids, value)


class PaddedRows(LazyRows):
    """The rows of both sides with their size classes; takes the place of RowStore."""

    def __init__(self, given, sizes):
        self.sizes, self.width, self.base = sizes, sizes[-1], given.counts["user"]
        super().__init__(torch.zeros(sum(given.counts.values()), sizes[-1]))
        self.weight[: self.base, : sizes[0]] = given.rows("user", sizes[0])
        self.weight[self.base :, : sizes[0]] = given.rows("item", sizes[0])
        self.classes = {side: np.zeros(given.counts[side], dtype=np.int64) for side in SIDES}

    def plan_side(self, s, ids):
        """Distinct ids by size class, in one sort: the class is the high half of the key."""
        classes = self.classes[SIDES[s]]
        key, index, counts = np.unique(classes[ids] << 32 | ids, return_inverse=True, return_counts=True)
        per_class = np.bincount(key >> 32, minlength=len(self.sizes))
        distinct = torch.from_numpy(key & 0xFFFFFFFF)
        ends = per_class.cumsum().tolist()
        side = Side(None, ends, torch.from_numpy(index), torch.from_numpy(counts))
        side.distinct = distinct.add_(self.base) if s else distinct
        return side

    def views(self, plans, block):
        """Per side and size class, the rows of a block of all distinct ids."""
        out, at = [], 0
        for plan in plans:
            bounds = [0, *plan.ends]
            out.append([block[at + a : at + b, :size] for a, b, size in zip(bounds, plan.ends, self.sizes)])
            at += plan.ends[-1]
        return out

    def plan(self, plans):
        ids = torch.cat([plan.distinct for plan in plans])
        weight = torch.empty(len(ids), self.width)
        gradient = torch.zeros(len(ids), self.width)

        def gather():
            torch.index_select(self.weight, 0, ids, out=weight)

        return self.views(plans, weight), self.views(plans, gradient), gather, lambda: self.step(ids, gradient)

    def grow(self, side, ids, maps):
        """Warm growth of ids by one size: W·row + b with fresh moments. `maps` are weight | bias."""
        base = self.base if side == "item" else 0
        classes = self.classes[side][ids]
        for k in np.unique(classes).tolist():
            own = ids[classes == k]
            at = torch.from_numpy(own + base)
            rows = self.weight.index_select(0, at)
            small = rows[:, : self.sizes[k]].clone()
            torch.addmm(maps[k][:, -1], small, maps[k][:, :-1].t(), out=rows[:, : self.sizes[k + 1]])
            self.weight.index_copy_(0, at, rows)
            zeros = torch.zeros_like(rows)
            self.first.index_copy_(0, at, zeros)
            self.second.index_copy_(0, at, zeros)
            self.steps.index_fill_(0, at, 0)
            self.classes[side][own] = k + 1

    def mean_size(self, side, seen):
        return float(np.asarray(self.sizes)[self.classes[side][seen]].mean())
