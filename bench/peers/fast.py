"""The same training step as fast as PyTorch on a CPU allows: backward by hand, no autograd, buffers kept.

`prepare(batch)` plans one batch and returns its step as a function. What makes it fast, in order of gain:
- the head's first layer is computed per distinct id and side and added per row, h = hu[u] + hi[i] (`split=True`);
  norms of the sides then run over distinct ids with the counts as weights. `split=False` gathers first instead and
  uses the fused native batch norm over all rows;
- tanh(y) = 2·sigmoid(2y) − 1, and torch's sigmoid is three times faster than its tanh. The constants are folded into
  the neighbours: batch norm cancels them (ε/4 instead of ε), the output layer takes 2w and −Σw;
- gather and scatter-add are `embedding_bag`, one call for both sides;
- one flat vector holds all dense parameters, one all rows of the batch: Adam is a handful of calls;
- each ladder map carries its bias as a last column, against a column of ones;
- a norm follows the head's hidden bias and input beta: their gradient is exactly zero and is not computed.
"""
import torch

from bodies import norm_backward, plan_gathered, plan_split, sigmoid_backward
from index import Index
from model import MOMENTUM, NORM_EPSILON, SIDES, plan_side
from product import torch_product
from store import DenseStore, RowStore


class FastModel:
    def __init__(self, parameters, sizes, split, product=torch_product, rows=None):
        """`rows` is a store with the interface of RowStore, where rows come from elsewhere than `parameters`."""
        self.sizes, self.split, self.product = sizes, split, product
        self.ladder = "ladder" in parameters["user"]
        self.dtype = parameters["head"]["output"]["bias"].dtype
        self.hidden = hidden = len(parameters["head"]["hidden"]["bias"])
        top = sizes[-1]
        shapes = {
            "hidden": (2 * top, hidden),  # inputs × outputs
            "hiddenBias": (hidden,),
            "hiddenNorm": (2, hidden),  # gamma, beta
            "output": (hidden,),
            "outputBias": (1,),
            "inputNorm": (2, 2, top),  # gamma, beta × user, item
        }
        if self.ladder:
            shapes["sideNorm"] = (2, 2, top)
            for side in SIDES:
                for k in range(len(sizes) - 1):
                    shapes[side, k] = (sizes[k + 1], sizes[k] + 1)  # weight | bias
        self.dense = DenseStore(shapes | self.more_shapes(parameters), self.dtype)
        self.rows = rows or RowStore(parameters, sizes, self.dtype)
        for names, tensor in self.named_views():
            part = parameters
            for name in names:
                part = part[name]
            tensor.copy_(part)
        self.running = self.zeros(2, 2, 2, top)  # side norm, input norm (of the sigmoid) × mean, variance × user, item
        self.running[:, 1] = 1
        if self.ladder:  # what tanh's 0 and 1 are before 2x − 1
            self.running[1, 0], self.running[1, 1] = 0.5, 0.25
        self.hidden_mean, self.hidden_variance = self.zeros(hidden), self.zeros(hidden) + 1

    def more_shapes(self, _parameters):
        """Dense parameters of a model that brings its vectors about in another way."""
        return {}

    def zeros(self, *shape):
        return torch.zeros(*shape, dtype=self.dtype)

    def named_views(self):
        """Pairs of a parameter's path in the nested form and its view here."""
        p = self.dense.p
        yield ("head", "hidden", "weight"), p["hidden"].t()
        yield ("head", "hidden", "bias"), p["hiddenBias"]
        yield ("head", "output", "weight"), p["output"][None]
        yield ("head", "output", "bias"), p["outputBias"]
        for k, name in enumerate(("gamma", "beta")):
            yield ("head", "inputNorm", name), p["inputNorm"][k].view(-1)
            yield ("head", "hiddenNorm", name), p["hiddenNorm"][k]
            if self.ladder:
                for s, side in enumerate(SIDES):
                    yield (side, "norm", name), p["sideNorm"][k, s]
        if self.ladder:
            for side in SIDES:
                for k in range(len(self.sizes) - 1):
                    yield (side, "ladder", k, "weight"), p[side, k][:, :-1]
                    yield (side, "ladder", k, "bias"), p[side, k][:, -1]

    def prepare(self, user, item, label):
        """Plan a batch: index vectors, buffers and views. Returns the step, a function that returns the summed loss."""
        plans = [plan_side(ids, self.rows.classes[s], len(self.sizes)) for s, ids in zip(SIDES, (user, item))]
        gather, lift, train, lower, update = self.plan_passes(plans, Index(plans), label.to(self.dtype))

        def step():
            gather()
            lift()
            loss = train()
            lower()
            self.dense.step()
            update()
            return loss

        return step

    def plan_passes(self, plans, index, label):
        """The parts of a step: rows in, rows → vectors, vectors → loss → dvectors, dvectors → rows, rows stepped and out."""
        vectors, dvectors = self.zeros(2, sum(index.counts), self.sizes[-1])
        weights, gradients, gather, update = self.rows.plan(plans)
        lift, lower = self.plan_ladder(plans, weights, gradients, vectors, dvectors)
        head = self.plan_head(label)
        train = (plan_split if self.split else plan_gathered)(self, index, vectors, dvectors, head)
        return gather, lift, train, lower, update

    def step(self, prepared):
        return prepared()

    def plan_ladder(self, plans, weights, gradients, vectors, dvectors):
        """Rows → vectors of full width, and dvectors → gradients of rows and ladder."""
        product, sizes, (p, d) = self.product, self.sizes, (self.dense.p, self.dense.d)
        last = len(sizes) - 1
        copies, forwards, backwards, idle = [], [], [], []
        ends_of = [plan.ends for plan in plans]
        tops = zip(vectors.split([ends[-1] for ends in ends_of]), dvectors.split([ends[-1] for ends in ends_of]))
        for s, (side, ends, (top, dtop)) in enumerate(zip(SIDES, ends_of, tops)):
            # level k: the ids of size class ≤ k at width s_k, with a column of ones for the bias
            full = [torch.ones(ends[k], sizes[k] + 1, dtype=self.dtype) for k in range(last)]
            levels = [x[:, :-1] for x in full] + [top]
            dlevels = [self.zeros(ends[k], sizes[k]) for k in range(last)] + [dtop]
            for k, start in enumerate([0, *ends[:-1]]):
                if ends[k] > start:
                    copies.append((levels[k][start:], weights[s][k], dlevels[k][start:], gradients[s][k]))
            for k in range(last):
                n, weight, dweight = ends[k], p[side, k], d[side, k]
                if n == 0:
                    idle.append(dweight)
                    continue
                dout = dlevels[k + 1][:n]
                forwards.append((full[k], weight.t(), levels[k + 1][:n]))
                backwards = [(dout.t(), full[k], dweight), (dout, weight[:, :-1], dlevels[k]), *backwards]

        def lift():
            for x, own, _, _ in copies:
                x.copy_(own)
            for a, b, out in forwards:
                product(a, b, out)

        def lower():
            for a, b, out in backwards:
                product(a, b, out)
            for dweight in idle:
                dweight.zero_()
            for _, _, dx, down in copies:
                down.copy_(dx)

        return lift, lower

    def plan_head(self, label):
        """From the head's first layer (rows × hidden) to the loss and back: h → loss, dh."""
        p, d = self.dense.p, self.dense.d
        gamma_beta, weight, bias = p["hiddenNorm"], p["output"], p["outputBias"]
        doubled, weight4, dw = torch.empty_like(gamma_beta), torch.empty_like(weight), d["output"]
        dgamma, dbeta = d["hiddenNorm"]
        rows = len(label)
        s, q = self.zeros(rows, self.hidden), self.zeros(rows, self.hidden)
        mean, variance = self.hidden_mean, self.hidden_variance

        def head(h):
            gamma, beta = torch.mul(gamma_beta, 2, out=doubled)
            y, m, r = torch.native_batch_norm(h, gamma, beta, mean, variance, True, MOMENTUM, NORM_EPSILON)
            mean.add_(p["hiddenBias"], alpha=MOMENTUM)  # h is without its bias, which the norm takes out again
            torch.sigmoid(y, out=s)  # a = tanh = 2s − 1
            torch.mul(weight, 4, out=weight4)
            # z = a·w + b = s·2w + (b − Σw)
            chance = torch.addmv((bias - weight.sum()).expand(rows), s, weight4, alpha=0.5).sigmoid_()
            error = chance - label
            loss = torch.dot(error, error)
            half = torch.ops.aten.sigmoid_backward(error, chance)  # dz = 2·half
            total = half.sum()
            torch.mul(total, 2, out=d["outputBias"][0])
            torch.addmv(total.expand(self.hidden), s.t(), half, beta=-2, alpha=4, out=dw)  # dw = aᵀdz
            sigmoid_backward(weight4, s, grad_input=q).mul_(half[:, None])  # with respect to 2·y
            saved = (mean, variance, m, r)
            dh, dg, db = norm_backward(q, h, gamma, *saved, True, NORM_EPSILON, [True, True, True])
            torch.mul(dg, 2, out=dgamma)
            torch.mul(db, 2, out=dbeta)
            return loss, dh

        return head

    def parameters(self):
        """All parameters, nested as they were given."""
        tree = {"head": {"inputNorm": {}, "hidden": {}, "hiddenNorm": {}, "output": {}}}
        for side in SIDES:
            tree[side] = {"rows": self.rows.rows(side)}
            if self.ladder:
                tree[side] |= {"norm": {}, "ladder": [{} for _ in self.sizes[1:]]}
        for names, tensor in self.named_views():
            part = tree
            for name in names[:-1]:
                part = part[name]
            part[names[-1]] = tensor
        return tree

    def running_statistics(self):
        """Means and variances as the model of method §2 has them."""
        statistics = {"hiddenNorm": {"mean": self.hidden_mean, "variance": self.hidden_variance}}
        mean, variance = self.running[1].view(2, -1)
        if self.ladder:
            mean, variance = 2 * mean - 1, 4 * variance
            for s, side in enumerate(SIDES):
                statistics[side] = {"mean": self.running[0, 0, s], "variance": self.running[0, 1, s]}
        statistics["inputNorm"] = {"mean": mean, "variance": variance}
        return statistics
