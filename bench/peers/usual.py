"""The methods as such code is usually written, after the public code of the baselines: nn.Embedding tables for all ids,
all sizes evaluated for every row and picked by one-hot, autograd, torch.optim.Adam with weight decay over everything;
DESS tries its arms interaction by interaction. The dense optimizer also shrinks rows that were not met, as it does there:
so these losses are of the level of the others, not the same numbers."""
import numpy as np
import torch
from torch import nn

from contexts import Contexts
from model import L2, RATE, SIDES

PROBE_RATE, POLICY_RATE, LAST = 0.1, 1e-4, 5


class Network(nn.Module):
    """kind ladder: sizes lifted rung by rung. mixture: each size by its own map. fixed: rows go straight to the head."""

    def __init__(self, given, sizes, kind):
        super().__init__()
        self.sizes, self.kind, top, hidden = sizes, kind, sizes[-1], given.meta["hidden"]
        tables = lambda side: nn.ModuleList(nn.Embedding(given.counts[side], size) for size in sizes)
        self.tables = nn.ModuleDict({side: tables(side) for side in SIDES})
        pairs = list(zip(sizes, sizes[1:])) if kind == "ladder" else [(size, top) for size in sizes]
        maps = lambda: nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.maps = nn.ModuleDict({} if kind == "fixed" else {side: maps() for side in SIDES})
        self.norms = nn.ModuleDict({} if kind == "fixed" else {side: nn.BatchNorm1d(top) for side in SIDES})
        self.head = nn.Sequential(
            nn.BatchNorm1d(2 * top), nn.Linear(2 * top, hidden), nn.BatchNorm1d(hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )

    def lift(self, side, x, k):
        """A row of size class k to full width."""
        if self.kind == "mixture":
            return self.maps[side][k](x)
        for rung in self.maps[side][k:]:
            x = rung(x)
        return x

    def vector(self, side, ids, shares):
        """shares: rows × sizes, one-hot or a mixture."""
        rows = [table(ids) for table in self.tables[side]]
        if self.kind == "fixed":
            return rows[0]
        parts = [torch.tanh(self.norms[side](self.lift(side, x, k))) for k, x in enumerate(rows)]
        return sum(shares[:, k : k + 1] * part for k, part in enumerate(parts))

    def forward(self, user, item, user_shares=None, item_shares=None):
        vectors = [self.vector("user", user, user_shares), self.vector("item", item, item_shares)]
        return self.head(torch.cat(vectors, 1)).squeeze(1)


def squared(logits, label):
    return (torch.sigmoid(logits) - label) ** 2


class UsualFixed:
    kind = "fixed"

    def __init__(self, given, sizes):
        self.sizes, self.cut = sizes, given.meta["train"]
        self.model = Network(given, sizes, self.kind)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=RATE, weight_decay=L2)
        self.last = None

    def shares(self, side, ids):
        return None

    def search(self, user, item, label):
        pass

    def logits(self, user, item):
        return self.model(user, item, self.shares("user", user), self.shares("item", item))

    def segment(self, user, item, label):
        user, item, label = (torch.from_numpy(x) for x in (user, item, label))
        self.search(user, item, label)
        cut = self.cut
        self.model.train()
        self.optimizer.zero_grad()
        squared(self.logits(user[:cut], item[:cut]), label[:cut]).sum().backward()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            return squared(self.logits(user[cut:], item[cut:]), label[cut:]).mean().item()


class Searching(UsualFixed):
    """Sizes of all ids; rows that grow are written into the table of the next size."""

    kind, diverse = "ladder", False

    def __init__(self, given, sizes):
        super().__init__(given, sizes)
        self.classes = {side: torch.zeros(count, dtype=torch.long) for side, count in given.counts.items()}
        self.contexts = Contexts(given, self.diverse)

    def shares(self, side, ids):
        return nn.functional.one_hot(self.classes[side][ids], len(self.sizes)).float()

    def mean_size(self, side, seen):
        return float(np.asarray(self.sizes)[self.classes[side][seen].numpy()].mean())

    def search(self, user, item, label):
        if self.last:
            self.model.eval()
            self.learn(*self.last)
        top = {s: np.zeros(len(user), dtype=bool) for s in SIDES}
        contexts, frequencies = self.contexts.observe(user.numpy(), item.numpy(), top)
        if self.last:
            for side, ids in (("user", user), ("item", item)):
                rows = {i: l for l, i in enumerate(ids[: self.cut].tolist()) if self.classes[side][i] < len(self.sizes) - 1}
                for i in self.decide(side, rows, contexts[side], frequencies[side]):
                    self.grow(side, i)
        self.last = user, item, label, contexts, frequencies

    @torch.no_grad()
    def grow(self, side, i):
        k = self.classes[side][i].item()
        tables = self.model.tables[side]
        tables[k + 1].weight[i] = self.model.maps[side][k](tables[k].weight[i])
        self.classes[side][i] = k + 1


class MatrixBandit:
    """LinUCB with two arms by matrix inverses."""

    def __init__(self, d, ridge=0.1, sigma=3.0, discount=0.99, confidence=0.01):
        self.d, self.ridge, self.sigma, self.discount, self.confidence = d, ridge, sigma, discount, confidence
        self.V, self.W = ([ridge * np.eye(d) for _ in range(2)] for _ in range(2))
        self.b, self.updates = [np.zeros(d) for _ in range(2)], 0

    def choose(self, x):
        g2 = self.discount**2
        spread = 1 + (1 - g2**self.updates) / (self.ridge * self.d * (1 - g2))
        beta = np.sqrt(self.ridge) + self.sigma * np.sqrt(2 * np.log(1 / self.confidence) + self.d * np.log(spread))
        scores = []
        for V, W, b in zip(self.V, self.W, self.b):
            inverse = np.linalg.inv(V)
            scores.append(x @ inverse @ b + beta * np.sqrt(x @ inverse @ W @ inverse @ x))
        return int(np.argmax(scores))

    def update(self, x, arm, reward):
        g, eye = self.discount, np.eye(self.d)
        self.V[arm] = g * self.V[arm] + np.outer(x, x) + (1 - g) * self.ridge * eye
        self.W[arm] = g * g * self.W[arm] + np.outer(x, x) + (1 - g * g) * self.ridge * eye
        self.b[arm] = g * self.b[arm] + reward * x
        self.updates += 1


class UsualDess(Searching):
    diverse = True

    def __init__(self, given, sizes):
        super().__init__(given, sizes)
        self.bandits = {side: MatrixBandit(2) for side in SIDES}

    def tuned_loss(self, side, k, row, other, label):
        """The loss of one interaction after one SGD step on the row of size class k."""
        model = self.model

        def loss(x):
            own = torch.tanh(model.norms[side](model.lift(side, x, k)[None]))
            pair = [own, other] if side == "user" else [other, own]
            return squared(model.head(torch.cat(pair, 1))[0, 0], label)

        x = row.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x), x)
        with torch.no_grad():
            return loss(x - PROBE_RATE * gradient).item()

    def learn(self, user, item, label, contexts, _):
        model = self.model
        for side, ids, others in (("user", user, item), ("item", item, user)):
            other_side = "item" if side == "user" else "user"
            for l, i in enumerate(ids.tolist()):
                k = self.classes[side][i].item()
                if k == len(self.sizes) - 1:
                    continue
                with torch.no_grad():
                    other = model.vector(other_side, others[l : l + 1], self.shares(other_side, others[l : l + 1]))
                    row = model.tables[side][k].weight[i]
                    larger = model.maps[side][k](row)
                keep = self.tuned_loss(side, k, row, other, label[l])
                grow = self.tuned_loss(side, k + 1, larger, other, label[l])
                bandit, x = self.bandits[side], contexts[side][l]
                arm = bandit.choose(x)
                bandit.update(x, arm, float(arm == 1 and keep - grow > 0))

    def decide(self, side, rows, contexts, _):
        return [i for i, l in rows.items() if self.bandits[side].choose(contexts[l]) == 1]


class Policy(nn.Module):
    """Frequency and a second input → outputs."""

    def __init__(self, second, outputs):
        super().__init__()
        self.frequencies, self.norm = nn.Embedding(10_001, 32), nn.BatchNorm1d(32)
        self.body = nn.Sequential(nn.Linear(32 + second, 512), nn.BatchNorm1d(512), nn.Tanh(), nn.Linear(512, outputs))

    def forward(self, frequencies, second):
        x = self.norm(self.frequencies(frequencies.clamp(max=10_000)))
        return self.body(torch.cat([x, second], 1))


class UsualEsapn(Searching):
    def __init__(self, given, sizes):
        super().__init__(given, sizes)
        self.policies = nn.ModuleDict({side: Policy(len(sizes), 2) for side in SIDES})
        self.policy_optimizer = torch.optim.Adam(self.policies.parameters(), lr=POLICY_RATE, weight_decay=L2)
        self.past = {side: torch.full((count, LAST), torch.nan) for side, count in given.counts.items()}

    def learn(self, user, item, label, _, frequencies):
        self.policies.train()
        columns, chosen, shares = {"user": user, "item": item}, {}, {}
        for side, ids in columns.items():
            old = self.classes[side][ids]
            second = nn.functional.one_hot(old, len(self.sizes)).float()
            logits = self.policies[side](torch.from_numpy(frequencies[side]), second)
            arm = torch.multinomial(torch.softmax(logits.detach(), 1), 1).squeeze(1) * (old < len(self.sizes) - 1)
            with torch.no_grad():  # the larger rows of those that would grow
                for i in set(ids[arm == 1].tolist()):
                    k, tables = self.classes[side][i].item(), self.model.tables[side]
                    tables[k + 1].weight[i] = self.model.maps[side][k](tables[k].weight[i])
            chosen[side] = torch.log_softmax(logits, 1).gather(1, arm[:, None]).squeeze(1)
            shares[side] = nn.functional.one_hot(old + arm, len(self.sizes)).float()
        with torch.no_grad():
            losses = squared(self.model(user, item, shares["user"], shares["item"]), label)
        total = 0
        for side, ids in columns.items():
            reward = torch.nan_to_num(torch.nanmean(self.past[side][ids], 1) - losses, nan=0.0)
            total = total - (reward * chosen[side]).sum()
            self.past[side][ids] = torch.cat([self.past[side][ids][:, 1:], losses[:, None]], 1)
        self.policy_optimizer.zero_grad()
        total.backward()
        self.policy_optimizer.step()

    @torch.no_grad()
    def decide(self, side, rows, _, frequencies):
        if not rows:
            return []
        self.policies.eval()
        ids, at = torch.tensor(list(rows)), list(rows.values())
        logits = self.policies[side](torch.from_numpy(frequencies[at]), self.shares(side, ids))
        return ids[logits[:, 1] > logits[:, 0]].tolist()


class UsualSoft(UsualFixed):
    """DARTS: a free mixture per id. AutoEmb: a policy sets it."""

    kind = "mixture"

    def __init__(self, given, sizes, method):
        super().__init__(given, sizes)
        self.contexts = Contexts(given, False)
        self.policies = None
        if method == "autoemb":
            self.policies = nn.ModuleDict({side: Policy(len(sizes), len(sizes)) for side in SIDES})
            self.mixtures = {side: torch.full((count, len(sizes)), 1 / len(sizes)) for side, count in given.counts.items()}
            searched = self.policies.parameters()
        else:
            mixture = lambda side: nn.Parameter(torch.zeros(given.counts[side], len(sizes)))
            self.mixtures = {side: mixture(side) for side in SIDES}
            searched = self.mixtures.values()
        self.search_optimizer = torch.optim.Adam(searched, lr=POLICY_RATE, weight_decay=L2)

    def shares(self, side, ids):
        if not self.policies:
            return torch.softmax(self.mixtures[side][ids], 1)
        frequencies = torch.from_numpy(self.contexts.frequency[side][ids.numpy()])
        shares = torch.softmax(self.policies[side](frequencies, self.mixtures[side][ids]), 1)
        self.mixtures[side][ids] = shares.detach()
        return shares

    def search(self, user, item, label):
        if self.last:
            past_user, past_item, past_label = self.last
            self.model.train()
            self.search_optimizer.zero_grad()
            squared(self.logits(past_user, past_item), past_label).sum().backward()
            self.search_optimizer.step()
        for side, ids in (("user", user), ("item", item)):
            self.contexts.count(side, ids.numpy())
        self.last = user, item, label
