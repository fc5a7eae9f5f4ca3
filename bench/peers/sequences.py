"""Peers in the next-item protocol: GRU4Rec and SASRec in PyTorch, trained up to the cut, then frozen and online.

python3 sequences.py <ratings.dat> gru|sas [--minutes 20] [--width 64] [--length 100] [--every 10] [--seed 1]

The protocol is that of `dess run --protocol next --core 5`: events of users and items with five or more, no pair twice in a
row, cut at the .9 quantile of time; every later event of a user with a past is predicted from all events before it, items
the user has met left out, all items seen so far ranked. Both models: cross-entropy (in training up to the cut over the
target and 512 items drawn uniformly, which stand for all), Adam, dropout, input and output vectors shared. The 10,000 events before the cut choose the number of epochs and are trained on afterwards.
online: after every n events one Adam step on the sequences of their users, the new events as targets.
"""

import argparse
import json
import math
import resource
import time

import numpy as np
import torch
from torch import nn

VALIDATION = 10_000
CHECKED = 2_000
K = 10
HEADS = 2


def read_events(path):
    rows = np.array([[int(x) for x in line.split("::")] for line in open(path, encoding="latin1")])
    rows = rows[np.argsort(rows[:, 3], kind="stable")]
    user, item, at = rows[:, 0], rows[:, 1], rows[:, 3]
    kept = np.arange(len(user))
    while True:
        users, items = np.bincount(user[kept]), np.bincount(item[kept])
        left = kept[(users[user[kept]] >= 5) & (items[item[kept]] >= 5)]
        if len(left) == len(kept):
            break
        kept = left
    last, rows = {}, []
    for r in kept:
        if last.get(user[r]) != item[r]:
            rows.append(r)
        last[user[r]] = item[r]
    user = np.unique(user[rows], return_inverse=True)[1]
    item = np.unique(item[rows], return_inverse=True)[1] + 1  # 0 is none
    at = at[rows]
    return user, item, int(np.searchsorted(at, np.quantile(at, 0.9), side="right"))


class Sequences(nn.Module):
    def __init__(self, kind, items, width, length, dropout):
        super().__init__()
        self.kind, self.length = kind, length
        self.item = nn.Embedding(items + 1, width, padding_idx=0)
        nn.init.normal_(self.item.weight, std=0.02 if kind == "sas" else 1 / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(items + 1))
        self.drop = nn.Dropout(dropout)
        if kind == "gru":
            self.gru = nn.GRU(width, width, batch_first=True)
        else:
            self.place = nn.Embedding(length, width)
            nn.init.normal_(self.place.weight, std=0.02)
            layer = nn.TransformerEncoderLayer(
                width, HEADS, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
            )
            self.blocks = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(width), enable_nested_tensor=False)

    def forward(self, items):
        """States [batch, length, width] of sequences that end on the right and are filled with 0 on the left."""
        x = self.drop(self.item(items))
        if self.kind == "gru":
            return self.drop(self.gru(x)[0])
        n = items.shape[1]
        x = x * math.sqrt(x.shape[2]) + self.place.weight[self.length - n :]
        # Nothing later and nothing of the filling; what is filling sees itself, a row of nothing has no attention.
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        hidden = later | ((items == 0)[:, None, :] & ~torch.eye(n, dtype=torch.bool))
        return self.blocks(x, mask=hidden.repeat_interleave(HEADS, 0))

    def scores(self, states):
        return states @ self.item.weight.T + self.bias


def windows(histories, length):
    """Each user's events in pieces of length + 1, the first of a piece the last of the one before."""
    out = []
    for events in histories:
        for end in range(len(events), 1, -length):
            piece = events[max(0, end - length - 1) : end]
            row = np.zeros(length + 1, dtype=np.int64)
            row[length + 1 - len(piece) :] = piece
            out.append(row)
    return np.stack(out)


class Peer:
    def __init__(self, args, items):
        self.args = args
        self.model = Sequences(args.kind, items, args.width, args.length, args.dropout)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=args.rate)

    def learn(self, rows, targets=None):
        """One step on rows of length + 1; `targets`: only the last so many of each."""
        self.model.train()
        rows = torch.from_numpy(rows)
        states, wanted = self.model(rows[:, :-1]), rows[:, 1:]
        there = (wanted > 0) & (rows[:, :-1] > 0)
        if targets is not None:
            there &= torch.arange(self.args.length) >= self.args.length - torch.from_numpy(targets)[:, None]
        loss = self.loss(states[there], wanted[there], targets is None)
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        return float(loss)

    def loss(self, states, wanted, sampled):
        """Cross-entropy over all items; sampled: estimated from some, drawn uniformly for the whole step."""
        if not sampled:
            return nn.functional.cross_entropy(self.model.scores(states), wanted)
        table, bias = self.model.item.weight, self.model.bias
        drawn = torch.randint(1, len(table), (self.args.negatives,))
        others = states @ table[drawn].T + bias[drawn] + math.log((len(table) - 1) / len(drawn))
        others = others.masked_fill(wanted[:, None] == drawn, -math.inf)
        own = (states * table[wanted]).sum(1) + bias[wanted]
        return (torch.logaddexp(others.logsumexp(1), own) - own).mean()

    def ranks(self, sequences, met, targets, seen):
        """Of each target, 0 the first."""
        self.model.eval()
        with torch.no_grad():
            scores = self.model.scores(self.model(torch.from_numpy(sequences))[:, -1]).numpy()
        scores[:, ~seen] = -np.inf
        out = []
        for row, own, target in zip(scores, met, targets):
            mine = row[target] if target not in own and seen[target] else -np.inf
            row[list(own)] = -np.inf
            out.append(int((row > mine).sum()) if mine > -np.inf else len(row))
        return out


def tail(events, length):
    row = np.zeros(length, dtype=np.int64)
    last = events[-length:]
    if last:
        row[length - len(last) :] = last
    return row


def measure(peer, user, item, bounds, histories, every):
    """HR and NDCG of the events from bounds[0] to bounds[1]; every > 0: learns after so many. `histories` is added to."""
    args = peer.args
    seen = np.zeros(int(item.max()) + 1, dtype=bool)
    for events in histories:
        seen[events] = True
    met = [set(events) for events in histories]
    hits = gain = count = 0
    step = every or 256
    for start in range(*bounds, step):
        end = min(bounds[1], start + step)
        sequences, owns, targets, fresh = [], [], [], {}
        for e in range(start, end):
            u, i = user[e], int(item[e])
            if histories[u]:
                sequences.append(tail(histories[u], args.length))
                owns.append(set(met[u]))
                targets.append(i)
            histories[u].append(i)
            met[u].add(i)
            fresh[u] = fresh.get(u, 0) + 1
        if sequences:
            for rank in peer.ranks(np.stack(sequences), owns, targets, seen):
                count += 1
                if rank < K:
                    hits += 1
                    gain += 1 / math.log2(rank + 2)
        for e in range(start, end):
            seen[item[e]] = True
        if every:
            rows = np.stack([tail(histories[u], args.length + 1) for u in fresh])
            peer.learn(rows, np.array(list(fresh.values())))
    return {"hr": hits / count, "ndcg": gain / count, "targets": count}


def histories_of(user, item, end):
    out = [[] for _ in range(int(user.max()) + 1)]
    for u, i in zip(user[:end], item[:end]):
        out[u].append(int(i))
    return out


def copied(histories):
    return [list(events) for events in histories]


def train(peer, user, item, cut, say):
    args = peer.args
    begin, first = time.process_time(), cut - VALIDATION
    rows = windows(histories_of(user, item, first), args.length)
    random = np.random.default_rng(args.seed)
    best, kept, epoch, waited = -1.0, None, 0, 0
    while time.process_time() - begin < 60 * args.minutes and waited < args.patience:
        order = random.permutation(len(rows))
        for at in range(0, len(order), args.batch):
            peer.learn(rows[order[at : at + args.batch]])
        epoch += 1
        found = measure(peer, user, item, (first, first + CHECKED), histories_of(user, item, first), 0)
        say({"epoch": epoch, "seconds": round(time.process_time() - begin), **found})
        waited += 1
        if found["ndcg"] > best:
            best, waited = found["ndcg"], 0
            kept = {name: value.clone() for name, value in peer.model.state_dict().items()}
    peer.model.load_state_dict(kept)
    # What chose the epoch is learned too, in steps of 256 events.
    histories = histories_of(user, item, first)
    for start in range(first, cut, 256):
        fresh = {}
        for e in range(start, min(cut, start + 256)):
            histories[user[e]].append(int(item[e]))
            fresh[user[e]] = fresh.get(user[e], 0) + 1
        known = {u: n for u, n in fresh.items() if len(histories[u]) > 1}
        if known:
            peer.learn(np.stack([tail(histories[u], args.length + 1) for u in known]), np.array(list(known.values())))
    return {"epochs": epoch, "seconds": time.process_time() - begin}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ratings")
    parser.add_argument("kind", choices=["gru", "sas"])
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--online-rate", type=float, default=3e-4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--negatives", type=int, default=512)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--patience", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--limit", type=int, help="targets measured")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    user, item, cut = read_events(args.ratings)
    say = lambda found: print(json.dumps(found), flush=True)
    say({"events": len(user), "cut": cut, "items": int(item.max())})
    peer = Peer(args, int(item.max()))
    found = {"kind": args.kind, "train": train(peer, user, item, cut, say)}
    past = histories_of(user, item, cut)
    end = len(user) if args.limit is None else min(len(user), cut + args.limit)
    for name, every in (("frozen", 0), ("online", args.every)):
        begin = time.process_time()
        for group in peer.adam.param_groups:
            group["lr"] = args.online_rate
        found[name] = measure(peer, user, item, (cut, end), copied(past), every)
        found[name]["seconds"] = time.process_time() - begin
        say(found)
    found["peakMB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    say(found)


main()
