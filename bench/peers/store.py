"""The parameters of the hand-written step: all dense ones in one flat vector, rows in one slab per size; Adam on both."""
import torch

from model import BETA1, BETA2, EPSILON, L2, RATE, SIDES, size_classes

MOST_STEPS = 100_000  # Adam's corrections are 1 to float32 accuracy long before


def adam_moments(gradient, first, second):
    first.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
    second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)


class DenseStore:
    """Parameters `p` and gradients `d` by name, views of one vector each. A gradient nobody writes stays zero."""

    def __init__(self, shapes, dtype):
        counts = [torch.Size(shape).numel() for shape in shapes.values()]
        self.flat, self.dflat, self.first, self.second, self.scratch = torch.zeros(5, sum(counts), dtype=dtype)
        self.steps = 0

        def views(flat):
            return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), flat.split(counts))}

        self.p, self.d = views(self.flat), views(self.dflat)

    def step(self):
        self.steps += 1
        scale = (1 - BETA2**self.steps) ** 0.5
        scratch = torch.add(self.dflat, self.flat, alpha=L2, out=self.scratch)
        adam_moments(scratch, self.first, self.second)
        torch.sqrt(self.second, out=scratch).add_(EPSILON * scale)
        self.flat.addcdiv_(self.first, scratch, value=-RATE * scale / (1 - BETA1**self.steps))


class RowStore:
    """Rows of both sides, one slab per size: rows × (weight, first moment, second moment) × size, in shuffled order."""

    def __init__(self, parameters, sizes, dtype):
        self.sizes, self.dtype = sizes, dtype
        self.classes = {side: size_classes(parameters, side, sizes) for side in SIDES}
        classes = torch.cat([self.classes[side] for side in SIDES])
        rows = parameters["user"]["rows"] + parameters["item"]["rows"]
        slots = torch.zeros(len(rows), dtype=torch.long)
        self.slabs = []
        for k, size in enumerate(sizes):
            ids = torch.nonzero(classes == k).flatten()
            slots[ids] = torch.randperm(len(ids))
            slab = torch.zeros(len(ids), 3, size, dtype=dtype)
            for i in ids.tolist():
                slab[slots[i], 0] = rows[i]
            self.slabs.append(slab)
        self.slots = dict(zip(SIDES, slots.split([len(self.classes[side]) for side in SIDES])))
        self.steps = torch.zeros(len(rows), dtype=torch.long)
        # by step count: rate·√(1−β2ᵗ)/(1−β1ᵗ), ε·√(1−β2ᵗ)
        t = torch.arange(MOST_STEPS + 1, dtype=torch.float64).clamp_(min=1)
        scale = (1 - BETA2**t).sqrt()
        self.corrections = torch.stack([RATE * scale / (1 - BETA1**t), EPSILON * scale], 1).to(dtype)

    def rows(self, side):
        """The rows of a side by id."""
        pairs = zip(self.classes[side].tolist(), self.slots[side].tolist())
        return [self.slabs[k][slot, 0] for k, slot in pairs]

    def plan(self, plans):
        """Plan a batch's rows: they are gathered into one flat vector per plane, so that Adam is a few calls for all.

        Returns, per side and size class, the rows' weights and the place for their gradient; then the functions
        `gather` (fills the weights) and `update` (takes the gradients, steps each row with its own count, writes back).
        """
        counts = [[len(ids) for ids in plan.ids] for plan in plans]
        pairs = list(zip(*counts))
        planes = torch.zeros(5, sum(sum(pair) * size for pair, size in zip(pairs, self.sizes)), dtype=self.dtype)
        weight, first, second, gradient, scratch = planes
        base = len(self.classes["user"])
        ids = torch.cat([x for user, item in zip(*(plan.ids for plan in plans)) for x in (user, item + base)])
        corrections = torch.zeros(len(ids), 2, dtype=self.dtype)
        weights, gradients, moves, scaled = [[], []], [[], []], [], []
        at = row = 0
        for k, (pair, size) in enumerate(zip(pairs, self.sizes)):
            n = sum(pair)
            block = planes[:, at : at + n * size].view(5, n, size)
            for s in range(2):
                weights[s].append(block[0].split(pair)[s])
                gradients[s].append(block[3].split(pair)[s])
            if n:
                slots = torch.cat([self.slots[side][plan.ids[k]] for side, plan in zip(SIDES, plans)])
                packed = torch.zeros(n, 3 * size, dtype=self.dtype)
                moves.append((self.slabs[k].flatten(1), slots, packed, packed.view(n, 3, size).transpose(0, 1), block[:3]))
                rate, epsilon = corrections[row : row + n].split(1, 1)
                scaled.append((block[0], block[4], rate, epsilon))
            at, row = at + n * size, row + n

        def gather():
            for slab, slots, packed, turned, block in moves:
                torch.index_select(slab, 0, slots, out=packed)
                block.copy_(turned)

        def update():
            t = self.steps.index_select(0, ids).add_(1)
            self.steps.index_copy_(0, ids, t)
            torch.index_select(self.corrections, 0, t.clamp_(max=MOST_STEPS), out=corrections)
            gradient.add_(weight, alpha=L2)
            adam_moments(gradient, first, second)
            torch.sqrt(second, out=scratch)
            for _, change, _, epsilon in scaled:
                change.add_(epsilon)
            torch.div(first, scratch, out=scratch)
            for x, change, rate, _ in scaled:
                x.addcmul_(change, rate, value=-1)
            for slab, slots, packed, turned, block in moves:
                turned.copy_(block)
                slab.index_put_((slots,), packed)

        return weights, gradients, gather, update
