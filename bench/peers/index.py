"""Index vectors between the rows of a batch and its distinct ids (users first, then items)."""
import torch


def sum_bags(x, indices, ends):
    """Row b of the result is the sum of x[indices[ends[b]:ends[b+1]]]: torch's fastest gather and scatter-add on a CPU."""
    return torch.embedding_bag(x, indices, ends, False, 0, False, None, True)[0]


class Index:
    def __init__(self, plans):
        self.length = len(plans[0].index)
        self.counts = [plan.ends[-1] for plan in plans]
        self.repeats = torch.cat([plan.counts for plan in plans])
        self.pairs = torch.stack([plans[0].index, plans[1].index + self.counts[0]], 1).flatten()
        self.pair_ends = torch.arange(0, len(self.pairs) + 1, 2)
        self.ends = torch.cat([torch.zeros(1, dtype=torch.long), self.repeats.cumsum(0)])
        self.halves = torch.argsort(self.pairs, stable=True)  # where in `pairs` each distinct id stands
        self.rows = self.halves.div(2, rounding_mode="floor")

    def add_pairs(self, x):
        """n × w → rows × w: x[user] + x[item]"""
        return sum_bags(x, self.pairs, self.pair_ends)

    def sum_rows(self, dx):
        """rows × w → n × w, the adjoint of `add_pairs`"""
        return sum_bags(dx, self.rows, self.ends)

    def gather(self, x, out):
        """n × w → rows × 2w: x[user] | x[item]"""
        torch.index_select(x, 0, self.pairs, out=out.view(-1, x.shape[1]))

    def scatter(self, dx, out):
        """rows × 2w → n × w, the adjoint of `gather`"""
        out.copy_(sum_bags(dx.view(-1, out.shape[1]), self.halves, self.ends))
