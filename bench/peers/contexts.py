"""Frequency and diversity of ids as they come (method §4), vectorised over a segment where that is exact.

IND: a user's rows of a segment are worked out together from inner products. POD: with the users' current means, refreshed
when an item's raters grew by a quarter. Ids at the top size need neither.
"""
import numpy as np

FREQUENCY_CAP = 10_000
RATERS = 256  # of a popular item, the last ones


class Contexts:
    def __init__(self, given, diverse):
        self.diverse = diverse
        self.features = given.features if diverse else None
        self.frequency = {side: np.zeros(count, dtype=np.int64) for side, count in given.counts.items()}
        if diverse:
            users, items, columns = given.counts["user"], given.counts["item"], given.features.shape[1]
            self.means, self.rated = np.zeros((users, columns)), [np.zeros((0, columns))] * users
            self.raters, self.fresh, self.pod = [[] for _ in range(items)], [0] * items, np.zeros(items)
            self.present = given.features.any(1)
            self.range = np.sqrt(columns)

    def observe(self, user, item, top):
        """Context vectors [rows × d] per side. `top` says per side which rows need none."""
        frequencies = {"user": self.count("user", user), "item": self.count("item", item)}
        scaled = {side: np.minimum(1, np.log1p(f) / np.log1p(FREQUENCY_CAP)) for side, f in frequencies.items()}
        if not self.diverse:
            return {side: x[:, None] for side, x in scaled.items()}, frequencies
        ind, means = self._individual(user, item, top["user"])
        pod = self._popular(user, item, top["item"], means)
        join = lambda x, d: np.stack([x, np.minimum(1, d / self.range)], 1) / np.sqrt(2)
        return {"user": join(scaled["user"], ind), "item": join(scaled["item"], pod)}, frequencies

    def count(self, side, ids):
        """Occurrences up to and with each row."""
        _, index, counts = np.unique(ids, return_inverse=True, return_counts=True)
        order = np.argsort(index, kind="stable")
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        rank = np.empty(len(ids), dtype=np.int64)
        rank[order] = np.arange(len(ids)) - starts
        result = self.frequency[side][ids] + rank + 1
        np.add.at(self.frequency[side], ids, 1)
        return result

    def _individual(self, user, item, top):
        """IND of every row, and the users' means as of each row."""
        ind, means = np.zeros(len(user)), np.empty((len(user), self.features.shape[1]))
        order = np.argsort(user, kind="stable")
        cuts = np.flatnonzero(np.diff(user[order])) + 1
        for rows in np.split(order, cuts):
            u, new = user[rows[0]], self.features[item[rows]]
            with_features = self.present[item[rows]]
            old = self.rated[u]
            counts = len(old) + np.cumsum(with_features)
            sums = len(old) * self.means[u] + np.cumsum(new * with_features[:, None], 0)
            q = sums / np.maximum(1, counts)[:, None]
            means[rows] = q
            new = new[with_features]
            all_items = np.concatenate([old, new])
            self.rated[u] = all_items
            if top[rows].all() or len(all_items) == 0:
                continue
            # ‖F − q‖² for every item and row; rows see the items up to their own
            square = (all_items**2).sum(1)[:, None] - 2 * all_items @ q.T + (q**2).sum(1)
            distance = np.sqrt(np.maximum(0, square))
            seen = np.arange(len(all_items))[:, None] < counts
            ind[rows] = (distance * seen).sum(0) / np.maximum(1, counts)
        return ind, means

    def _popular(self, user, item, top, means):
        pod = np.zeros(len(item))
        for l, (u, i, at_top) in enumerate(zip(user.tolist(), item.tolist(), top.tolist())):
            self.means[u] = means[l]
            raters = self.raters[i]
            raters.append(u)
            if not at_top:
                if len(raters) > 1 and len(raters) >= 1.25 * self.fresh[i]:
                    q = self.means[raters[-RATERS:]]
                    q -= q.sum(0) / len(q)
                    self.pod[i] = np.sqrt(np.einsum("rc,rc->r", q, q)).sum() / len(q)
                    self.fresh[i] = len(raters)
                pod[l] = self.pod[i]
        return pod
