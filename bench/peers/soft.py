"""DARTS and AutoEmb as fast as PyTorch allows: every id holds a slice of each size; each slice has its own map to full
width, one norm is shared by all, tanh, and a softmax mixes the results. Distinct ids only, backward by hand."""
import torch

from contexts import Contexts
from controller import Controller
from hard import Fixed, StreamModel
from index import Index
from model import MOMENTUM, NORM_EPSILON, SIDES
from padded import LazyRows, PaddedRows

MIXTURE_RATE = 1e-4


class MixtureModel(StreamModel):
    def __init__(self, given, product, sizes):
        self.slices = sizes
        super().__init__(given, product, [sizes[-1]], "mixture", PaddedRows(given, [sum(sizes)]))
        self.mixtures = LazyRows(torch.zeros(sum(given.counts.values()), len(sizes)), MIXTURE_RATE)
        top = sizes[-1]
        self.side_running = torch.stack([torch.zeros(2, top), torch.ones(2, top)])  # mean, variance × side

    def more_shapes(self, parameters):
        top = self.slices[-1]
        shapes = {"sideNorm": (2, 2, top)}
        for side in SIDES:
            shapes |= {(side, k): (top, size + 1) for k, size in enumerate(self.slices)}  # weight | bias
        return shapes

    def named_views(self):
        yield from super().named_views()
        for s, side in enumerate(SIDES):
            for k, name in enumerate(("gamma", "beta")):
                yield (side, "norm", name), self.dense.p["sideNorm"][k, s]
            for k in range(len(self.slices)):
                yield (side, "slices", k, "weight"), self.dense.p[side, k][:, :-1]
                yield (side, "slices", k, "bias"), self.dense.p[side, k][:, -1]

    def transform(self, side, rows, out):
        """Slices → parts × n × top"""
        for k, own in enumerate(rows.split(self.slices, 1)):
            weight = self.dense.p[side, k]
            torch.addmm(weight[:, -1], own, weight[:, :-1].t(), out=out[k])
        return out

    def plan_ladder(self, plans, weights, gradients, vectors, dvectors):
        """Rows → mixed vectors, and back to rows, maps, norm and mixtures."""
        p, d, parts, top = self.dense.p, self.dense.d, len(self.slices), self.slices[-1]
        counts = [plan.ends[-1] for plan in plans]
        kept, self.dmixtures = [None, None], [None, None]
        outs, douts = vectors.split(counts), dvectors.split(counts)
        totals = [int(plan.counts.sum()) for plan in plans]

        def lift():
            for s, (side, plan) in enumerate(zip(SIDES, plans)):
                n, total = counts[s], parts * totals[s]
                weight = (plan.counts.float() / total).repeat(parts)
                x = self.transform(side, weights[s][0], torch.empty(parts, n, top)).view(-1, top)
                mean = torch.mv(x.t(), weight)
                x.sub_(mean)
                variance = torch.mv((x * x).t(), weight)
                r = torch.rsqrt(variance + NORM_EPSILON)
                factor = 2 * p["sideNorm"][0, s] * r
                active = torch.addcmul(2 * p["sideNorm"][1, s], x, factor).sigmoid_()
                shares = torch.softmax(self.mixtures.weight.index_select(0, plan.distinct), 1)
                mixed = torch.bmm(shares[:, None], active.view(parts, n, top).transpose(0, 1))[:, 0]
                torch.mul(mixed, 2, out=outs[s]).sub_(1)
                self.side_running[0, s].lerp_(mean, MOMENTUM)
                self.side_running[1, s].lerp_(variance * (total / (total - 1)), MOMENTUM)
                kept[s] = x, weight, r, factor, active, shares

        def lower():
            for s, side in enumerate(SIDES):
                x, weight, r, factor, active, shares = kept[s]
                n, dout = counts[s], douts[s]
                blocks = active.view(parts, n, top)
                dshares = torch.bmm(blocks.transpose(0, 1), dout[:, :, None])[:, :, 0].mul_(2)
                self.dmixtures[s] = shares * (dshares - (shares * dshares).sum(1, keepdim=True))
                dy = (blocks * (1 - blocks)).mul_(dout).mul_(shares.t()[:, :, None]).mul_(2).view(-1, top)
                plain, product = dy.sum(0), (dy * x).sum(0).mul_(r)
                torch.mul(product, 2, out=d["sideNorm"][0, s])
                torch.mul(plain, 2, out=d["sideNorm"][1, s])
                dx = dy.sub_(weight[:, None] * plain).sub_(weight[:, None] * (x * (r * product))).mul_(factor)
                for k, (own, down) in enumerate(zip(weights[s][0].split(self.slices, 1), gradients[s][0].split(self.slices, 1))):
                    block, dmap = dx.view(parts, n, top)[k], d[side, k]
                    torch.mm(block.t(), own, out=dmap[:, :-1])
                    torch.sum(block, 0, out=dmap[:, -1])
                    down.copy_(block @ p[side, k][:, :-1])

        return lift, lower

    def lifted(self, plans):
        """Mixed vectors of the distinct ids, by running statistics."""
        weights, _, gather, _ = self.rows.plan(plans)
        gather()
        out, p, top = [], self.dense.p, self.slices[-1]
        for s, (side, plan) in enumerate(zip(SIDES, plans)):
            n = plan.ends[-1]
            x = self.transform(side, weights[s][0], torch.empty(len(self.slices), n, top))
            factor = 2 * p["sideNorm"][0, s] * torch.rsqrt(self.side_running[1, s] + NORM_EPSILON)
            shift = 2 * p["sideNorm"][1, s] - self.side_running[0, s] * factor
            active = torch.addcmul(shift, x, factor).sigmoid_()
            shares = torch.softmax(self.mixtures.weight.index_select(0, plan.distinct), 1)
            out.append(torch.bmm(shares[:, None], active.transpose(0, 1))[:, 0].mul_(2).sub_(1))
        return out

    def mixture_gradients(self, plans, label):
        """d loss / d mixture numbers of the distinct ids, by a training pass that leaves no trace."""
        statistics = (self.running, self.hidden_mean, self.hidden_variance, self.side_running)
        saved = [part.clone() for part in statistics]
        gather, lift, train, lower, _ = self.plan_passes(plans, Index(plans), torch.from_numpy(label))
        gather()
        lift()
        train()
        lower()
        for part, value in zip(statistics, saved):
            part.copy_(value)
        return self.dmixtures


class Darts(Fixed):
    def __init__(self, given, product, sizes):
        self.model, self.cut, self.last = MixtureModel(given, product, sizes), given.meta["train"], None

    def search(self, user, item, label):
        if self.last:
            *columns, last_label = self.last
            plans = self.model.plan_sides(*columns)
            for plan, gradient in zip(plans, self.model.mixture_gradients(plans, last_label)):
                self.model.mixtures.step(plan.distinct, gradient)
        self.last = user, item, label


class AutoEmb(Darts):
    def __init__(self, given, product, sizes):
        super().__init__(given, product, sizes)
        self.contexts = Contexts(given, False)
        parts = len(sizes)
        self.controllers = [Controller(given, f"autoemb.{side}", parts, parts) for side in SIDES]

    def inputs(self, s, plan):
        ids = plan.distinct.numpy() - (self.model.rows.base if s else 0)
        last = torch.softmax(self.model.mixtures.weight[plan.distinct], 1)
        return self.contexts.frequency[SIDES[s]][ids], last

    def search(self, user, item, label):
        model = self.model
        if self.last:
            *columns, last_label = self.last
            plans = model.plan_sides(*columns)
            logits = [self.controllers[s].forward(*self.inputs(s, plan)) for s, plan in enumerate(plans)]
            for plan, own in zip(plans, logits):
                model.mixtures.weight[plan.distinct] = own.detach()
            for s, gradient in enumerate(model.mixture_gradients(plans, last_label)):
                self.controllers[s].learn((logits[s] * gradient).sum())
        cut = self.cut
        for s, ids in enumerate((user, item)):
            self.contexts.count(SIDES[s], ids[:cut])
        for s, plan in enumerate(model.plan_sides(user[:cut], item[:cut])):
            model.mixtures.weight[plan.distinct] = self.controllers[s].judge(*self.inputs(s, plan))
        for s, ids in enumerate((user, item)):
            self.contexts.count(SIDES[s], ids[cut:])
        self.last = user, item, label
