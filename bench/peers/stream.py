#!/usr/bin/python3
"""The PyTorch peers of `npm run bench -- peers`: one method along a stream of segments, in one of two forms.

    stream.py --given folder --method dess-cv|fixed-128|esapn|darts|autoemb --form usual|fastest
              [--threads 1] [--idle sleep|spin] [--seconds 20] [--segments n]

Prints one JSON line: seconds (search, training and test) and test loss of every segment, peak memory, mean sizes.
Ends after so many segments, or after so many seconds and at least three segments.
"""
import argparse
import json
import os
import resource
import sys
import time


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", required=True)
    parser.add_argument("--method", required=True)
    parser.add_argument("--form", choices=["usual", "fastest"], required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--idle", choices=["sleep", "spin"], default="sleep")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--segments", type=int, default=10**9)
    return parser.parse_args()


options = read_options()
# Read by the libraries when they are loaded; the folder stays free of compiled files.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
# threads that spin fight over a busy machine, and win on a quiet one
os.environ["OMP_WAIT_POLICY"] = {"sleep": "passive", "spin": "active"}[options.idle]
sys.dont_write_bytecode = True

import numpy as np  # noqa: E402
import torch  # noqa: E402

from given import Given  # noqa: E402
from hard import Dess, Esapn, Fixed, Search  # noqa: E402
from model import SIDES  # noqa: E402
from product import fastest_product  # noqa: E402
from soft import AutoEmb, Darts  # noqa: E402
from memory import keep_memory  # noqa: E402
from usual import UsualDess, UsualEsapn, UsualFixed, UsualSoft  # noqa: E402


def make_learner(given, product):
    method, sizes = options.method, given.meta["sizes"]
    usual = options.form == "usual"
    if method.startswith("fixed-"):
        size = int(method.removeprefix("fixed-"))
        return UsualFixed(given, [size]) if usual else Fixed(given, product, [size])
    if method == "dess-cv":
        return UsualDess(given, sizes) if usual else Search(given, product, sizes, Dess())
    if method == "esapn":
        return UsualEsapn(given, sizes) if usual else Search(given, product, sizes, Esapn(given, sizes))
    if method in ("darts", "autoemb"):
        if usual:
            return UsualSoft(given, sizes, method)
        return {"darts": Darts, "autoemb": AutoEmb}[method](given, product, sizes)
    raise SystemExit(f"method: expected dess-cv, fixed-<n>, esapn, darts or autoemb, got {method}")


def main():
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    keep_memory()
    product, product_name, product_rate = fastest_product()
    given = Given(options.given)
    learner = make_learner(given, product)
    losses, times, processor = [], [], []
    for n, (user, item, label) in enumerate(given.segments()):
        if n >= options.segments:
            break
        begin, begin_processor = time.perf_counter(), time.process_time()
        losses.append(learner.segment(user, item, label))
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - begin_processor)
        if not np.isfinite(losses[-1]):
            raise SystemExit(f"loss of segment {n + 1}: expected a finite number, got {losses[-1]}")
        if sum(times) > options.seconds and len(times) >= 3:
            break
    report = {
        "times": times,
        "processor": processor,
        "peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "losses": losses,
        "meanSize": mean_sizes(learner, given, len(losses) * given.meta["segment"]),
        "threads": options.threads,
        "torch": torch.__version__,
        "product": product_name,
        "productGflops": round(product_rate, 1),
    }
    print(json.dumps(report))


def mean_sizes(learner, given, events):
    """Of the ids seen; none where every id has all sizes."""
    if not hasattr(learner, "mean_size"):
        return None
    seen = {"user": np.unique(given.user[:events]), "item": np.unique(given.item[:events])}
    return {side: learner.mean_size(side, seen[side]) for side in SIDES}


if __name__ == "__main__":
    main()
