"""What the bench hands to the stream peers: the events, the item features and, to check them, our first parameters."""
import json
import math
from pathlib import Path

import numpy as np
import torch

from model import SIDES


class Given:
    """A folder: meta.json; user, item (int32) and label (float32) columns; features (float32); start (float32)."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.meta = json.loads((self.folder / "meta.json").read_text())
        self.counts = {"user": self.meta["users"], "item": self.meta["items"]}
        read = lambda name, kind: np.fromfile(self.folder / name, dtype=kind)
        self.user, self.item = (read(f"{side}.bin", np.int32).astype(np.int64) for side in SIDES)
        self.label = read("label.bin", np.float32)
        self.features = read("features.bin", np.float32).reshape(self.meta["items"], -1).astype(np.float64)
        self.start = self._read_start() if "start" in self.meta else None
        self.random = torch.Generator().manual_seed(1)

    def segments(self):
        """Segment by segment: user, item, label."""
        length = self.meta["segment"]
        for at in range(0, len(self.user) - length + 1, length):
            part = slice(at, at + length)
            yield self.user[part], self.item[part], self.label[part]

    def _read_start(self):
        flat = torch.from_numpy(np.fromfile(self.folder / "start.bin", dtype=np.float32))
        sizes = [math.prod(shape) for _, shape in self.meta["start"]]
        return {name: part.view(shape) for (name, shape), part in zip(self.meta["start"], flat.split(sizes))}

    def rows(self, side, size):
        """First rows of all ids, N(0,1)."""
        if self.start:
            return self.start[f"{side}.rows"].clone()
        return torch.randn(self.counts[side], size, generator=self.random)

    def uniform(self, name, shape, fan_in):
        if self.start:
            return self.start[name].view(shape).clone()
        bound = 1 / math.sqrt(fan_in)
        return torch.empty(shape).uniform_(-bound, bound, generator=self.random)

    def draws(self, name):
        """Uniform numbers, one after the other; those given first, where there are any."""
        if self.start:
            yield from self.start[name].double().tolist()
        while True:
            yield from torch.rand(1000, generator=self.random).tolist()

    def linear(self, name, outputs, inputs):
        make = lambda part, *shape: self.uniform(f"{name}.{part}", shape, inputs)
        return {"weight": make("weight", outputs, inputs), "bias": make("bias", outputs)}

    def parameters(self, kind, sizes):
        """The dense parameters, nested as in model.py; `kind` ladder, mixture or fixed."""
        norm = lambda width: {"gamma": torch.ones(width), "beta": torch.zeros(width)}
        hidden, top = self.meta["hidden"], sizes[-1]
        tree = {}
        for side in SIDES:
            tree[side] = {"rows": []}
            if kind == "ladder":
                tree[side]["ladder"] = [
                    self.linear(f"{side}.ladder.{k}", sizes[k + 1], sizes[k]) for k in range(len(sizes) - 1)
                ]
            if kind == "mixture":
                tree[side]["slices"] = [self.linear(f"{side}.slices.{k}", top, size) for k, size in enumerate(sizes)]
            if kind != "fixed":
                tree[side]["norm"] = norm(top)
        halves = [self.uniform(f"head.hidden.weight.{side}", (hidden, top), 2 * top) for side in SIDES]
        tree["head"] = {
            "inputNorm": norm(2 * top),
            "hidden": {"weight": torch.cat(halves, 1), "bias": self.uniform("head.hidden.bias", (hidden,), 2 * top)},
            "hiddenNorm": norm(hidden),
            "output": self.linear("head.output", 1, hidden),
        }
        return tree
