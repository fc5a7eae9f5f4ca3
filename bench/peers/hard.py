"""The hard methods as fast as PyTorch allows: fixed sizes, DESS and ESAPN on the hand-written step of fast.py, with the
batched probe of method §6 in closed form. Everything that a frozen model can fold (both norms into the first layer, the
hidden norm into its columns) is folded once per segment, for the test and the next probe."""
import numpy as np
import torch

from bandit import Bandit
from contexts import Contexts
from controller import Controller
from fast import FastModel
from index import Index
from model import NORM_EPSILON, SIDES
from padded import PaddedRows

PROBE_RATE = 0.1
RECORDED = 5


class StreamModel(FastModel):
    slices = None  # of a mixture, the sizes it mixes

    def __init__(self, given, product, sizes, kind="ladder", rows=None):
        rows = rows or PaddedRows(given, sizes)
        super().__init__(given.parameters(kind, self.slices or sizes), sizes, split=True, product=product, rows=rows)
        self.folded = None

    def plan_sides(self, user, item):
        return [self.rows.plan_side(s, ids) for s, ids in enumerate((user, item))]

    def train(self, user, item, label):
        plans = self.plan_sides(user, item)
        gather, lift, train, lower, update = self.plan_passes(plans, Index(plans), torch.from_numpy(label))
        gather()
        lift()
        loss = train()
        lower()
        self.dense.step()
        update()
        self.folded = None
        return loss.item() / len(label)

    def fold(self):
        """Per side (a, c, weight, constant): half = constant + sigmoid(a·lifted + c)·weight; and the output layer."""
        if self.folded:
            return self.folded
        p, top = self.dense.p, self.sizes[-1]
        scale = 2 * p["hiddenNorm"][0] * torch.rsqrt(self.hidden_variance + NORM_EPSILON)
        shift = 2 * p["hiddenNorm"][1] + (p["hiddenBias"] - self.hidden_mean) * scale
        sides = []
        for s in range(2):
            a = c = None
            if self.ladder:
                a = 2 * p["sideNorm"][0, s] * torch.rsqrt(self.running[0, 1, s] + NORM_EPSILON)
                c = 2 * p["sideNorm"][1, s] - self.running[0, 0, s] * a
            epsilon = NORM_EPSILON / 4 if self.ladder else NORM_EPSILON
            inner = p["inputNorm"][0, s] * torch.rsqrt(self.running[1, 1, s] + epsilon)
            weight = p["hidden"][s * top : (s + 1) * top]
            constant = (p["inputNorm"][1, s] - self.running[1, 0, s] * inner) @ weight * scale
            sides.append((a, c, weight * inner[:, None] * scale, constant + shift if s == 0 else constant))
        self.folded = sides, 2 * p["output"], p["outputBias"] - p["output"].sum()
        return self.folded

    def half(self, s, lifted):
        a, c, weight, constant = self.fold()[0][s]
        active = torch.addcmul(c, lifted, a).sigmoid_() if self.ladder else lifted
        return active, self.times(active, weight).add_(constant)

    def times(self, a, b):
        out = torch.empty(a.shape[0], b.shape[1])
        self.product(a, b, out)
        return out

    def output(self, hidden, label):
        """Hidden layer before its sigmoid, used up → chances, losses."""
        _, weight, bias = self.fold()
        chance = torch.addmv(bias.expand(len(label)), hidden.sigmoid_(), weight).sigmoid_()
        return chance, (chance - label).square_()

    def lifted(self, plans):
        """Lifted vectors of the distinct ids, per side."""
        weights, _, gather, _ = self.rows.plan(plans)
        gather()
        out = []
        for side, own in zip(SIDES, weights):
            x = own[0]
            for k in range(len(self.sizes) - 1):
                ladder = self.dense.p[side, k]
                x = torch.cat([torch.addmm(ladder[:, -1], x, ladder[:, :-1].t()), own[k + 1]])
            out.append(x)
        return out

    def test(self, user, item, label):
        plans = self.plan_sides(user, item)
        index = Index(plans)
        halves = torch.cat([self.half(s, x)[1] for s, x in enumerate(self.lifted(plans))])
        return self.output(index.add_pairs(halves), torch.from_numpy(label))[1].mean().item()

    def composites(self, side):
        """A_k = W_{n−1}…W_k, top × s_k; None is the identity."""
        maps = [None]
        for k in range(len(self.sizes) - 2, -1, -1):
            weight = self.dense.p[side, k][:, :-1]
            maps.insert(0, weight if maps[0] is None else maps[0] @ weight)
        return maps

    def probe(self, user, item, label):
        """Per side: rows whose id can grow, and their losses after one tuning step, kept and grown."""
        columns, label = (user, item), torch.from_numpy(label)
        plans = self.plan_sides(user, item)
        lifted = self.lifted(plans)
        active, halves = zip(*(self.half(s, x) for s, x in enumerate(lifted)))
        hidden = Index(plans).add_pairs(torch.cat(halves))
        chance, _ = self.output(hidden, label)  # hidden now holds the sigmoids
        sides, weight, _ = self.fold()
        dchance = 2 * (chance - label) * chance * (1 - chance)
        out = []
        for s, side in enumerate(SIDES):
            classes = self.rows.classes[side][columns[s]]
            rows = np.flatnonzero(classes < len(self.sizes) - 1)
            rows = rows[np.argsort(classes[rows], kind="stable")]
            if len(rows) == 0:
                out.append((rows, np.zeros(0), np.zeros(0)))
                continue
            at = torch.from_numpy(rows)
            own, other = plans[s].index[at], plans[1 - s].index[at]
            sigmoids = hidden[at]
            dhidden = sigmoids.mul_(1 - sigmoids).mul_(weight).mul_(dchance[at, None])
            a, _, first, _ = sides[s]
            mine = active[s][own]
            g = self.times(dhidden, first.t()).mul_(mine.mul_(1 - mine)).mul_(a)
            base, n = lifted[s][own], len(rows)
            moved = torch.cat([base, base])
            maps, bounds = self.composites(side), np.searchsorted(classes[rows], range(len(self.sizes))).tolist()
            for k, (begin, end) in enumerate(zip(bounds, bounds[1:])):
                for shift, a_map in ((0, maps[k]), (n, maps[k + 1])):
                    part = g[begin:end]
                    delta = part if a_map is None else self.times(self.times(part, a_map), a_map.t())
                    moved[shift + begin : shift + end].sub_(delta, alpha=PROBE_RATE)
            # both arms at once: own halves after the move, beside the other side's
            h = self.half(s, moved)[1]
            others = halves[1 - s][other]
            h[:n] += others
            h[n:] += others
            losses = self.output(h, label[at].repeat(2))[1].numpy()
            out.append((rows, losses[:n], losses[n:]))
        return out


class Fixed:
    """Trains, and is tested: no search."""

    def __init__(self, given, product, sizes):
        self.model, self.cut = StreamModel(given, product, sizes, "fixed"), given.meta["train"]

    def search(self, user, item, label):
        pass

    def segment(self, user, item, label):
        self.search(user, item, label)
        cut = self.cut
        self.model.train(user[:cut], item[:cut], label[:cut])
        return self.model.test(user[cut:], item[cut:], label[cut:])


class Search(Fixed):
    """Probes the last segment, learns the policy on it, decides on the ids at hand, grows them."""

    def __init__(self, given, product, sizes, policy):
        self.model, self.cut = StreamModel(given, product, sizes), given.meta["train"]
        self.contexts, self.policy = Contexts(given, policy.diverse), policy
        self.last = None

    def mean_size(self, side, seen):
        return self.model.rows.mean_size(side, seen)

    def search(self, user, item, label):
        model, last = self.model, self.last
        if last:
            batch, contexts, frequencies = last
            for side, ids, (rows, keep, grow) in zip(SIDES, batch, model.probe(*batch)):
                classes = model.rows.classes[side][ids[rows]]
                # in the order of the stream
                order = np.argsort(rows, kind="stable")
                told = {"contexts": contexts[side][rows], "frequencies": frequencies[side][rows], "classes": classes}
                told |= {"ids": ids[rows], "keep": keep, "grow": grow}
                self.policy.learn(side, {name: column[order] for name, column in told.items()})
        top = {s: model.rows.classes[s][ids] == len(model.sizes) - 1 for s, ids in zip(SIDES, (user, item))}
        contexts, frequencies = self.contexts.observe(user, item, top)
        self.last = (user, item, label), contexts, frequencies
        if not last:
            return
        for side, ids in zip(SIDES, (user, item)):
            # each id once, at its last row
            _, backwards = np.unique(ids[: self.cut][::-1], return_index=True)
            rows = self.cut - 1 - backwards
            classes = model.rows.classes[side][ids[rows]]
            can = classes < len(model.sizes) - 1
            rows, classes = rows[can], classes[can]
            told = {"contexts": contexts[side][rows], "frequencies": frequencies[side][rows], "classes": classes}
            growing = ids[rows][np.asarray(self.policy.decide(side, told), dtype=bool)]
            model.rows.grow(side, growing, [model.dense.p[side, k] for k in range(len(model.sizes) - 1)])


class Dess:
    diverse = True

    def __init__(self):
        self.bandits = {side: Bandit(2) for side in SIDES}

    def learn(self, side, told):
        self.bandits[side].learn(told["contexts"], (told["keep"] - told["grow"] > 0).astype(np.float64))

    def decide(self, side, told):
        return self.bandits[side].decide(told["contexts"])


class Esapn:
    diverse = False

    def __init__(self, given, sizes):
        self.controllers = {side: Controller(given, f"esapn.{side}", len(sizes), 2) for side in SIDES}
        self.one_hot = torch.eye(len(sizes))
        self.losses = {side: {} for side in SIDES}
        self.draws = {side: given.draws(f"esapn.{side}.draws") for side in SIDES}

    def learn(self, side, told):
        if len(told["ids"]) == 0:
            return
        controller = self.controllers[side]
        logits = controller.forward(told["frequencies"], self.one_hot[torch.from_numpy(told["classes"])])
        chances = torch.softmax(logits.detach(), 1)[:, 1].numpy()
        arms = np.fromiter((next(self.draws[side]) for _ in chances), dtype=np.float64) < chances
        losses = np.where(arms, told["grow"], told["keep"]).tolist()
        rewards, recorded = [], self.losses[side]
        for i, loss in zip(told["ids"].tolist(), losses):
            past = recorded.setdefault(i, [])
            rewards.append(sum(past) / len(past) - loss if past else 0.0)
            past.append(loss)
            if len(past) > RECORDED:
                past.pop(0)
        picked = torch.log_softmax(logits, 1).gather(1, torch.from_numpy(arms.astype(np.int64))[:, None])[:, 0]
        controller.learn(-(picked * torch.tensor(rewards)).sum())

    def decide(self, side, told):
        if len(told["classes"]) == 0:
            return []
        second = self.one_hot[torch.from_numpy(told["classes"])]
        logits = self.controllers[side].judge(told["frequencies"], second)
        return (logits[:, 1] > logits[:, 0]).numpy()
