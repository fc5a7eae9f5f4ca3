#!/usr/bin/python3
"""The PyTorch peer of `npm run bench -- train`: interactions per second of one NCF training step on a given batch.

    train.py --batch batch.json [--seconds 3] [--threads 1]    prints one JSON line
    train.py --check golden.json    every variant against plain autograd and against the golden case

The clock runs over the step alone. Planning a batch (distinct ids, index vectors, buffers) is timed beside it, for
every variant, and so is the part of it that nobody can do without: distinct ids and index vectors.
"""
import argparse
import json
import os
import statistics
import sys
import time

CHUNK = 20


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch")
    parser.add_argument("--check")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--idle", choices=["sleep", "spin"], default="spin", help="what a thread without work does")
    parser.add_argument("--variant", nargs="*", help="only these; the fastest counts")
    options = parser.parse_args()
    if not options.batch and not options.check:
        parser.error("expected --batch <file> or --check <file>")
    return options


options = read_options()
# The libraries read these when they are loaded; the folder stays free of compiled files.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
if options.idle == "sleep":
    os.environ["OMP_WAIT_POLICY"] = "passive"
sys.dont_write_bytecode = True

import torch  # noqa: E402

from check import check  # noqa: E402
from fast import FastModel  # noqa: E402
from index import Index  # noqa: E402
from memory import keep_memory  # noqa: E402
from model import SIDES, draw_parameters, plan_side, size_classes  # noqa: E402
from plain import PlainModel  # noqa: E402
from product import fastest_product  # noqa: E402


def variants(parameters, sizes, product):
    """Name → a function that makes the model afresh."""
    return {
        "plain": lambda: PlainModel(parameters, sizes, split=False, product=product),
        "plain-split": lambda: PlainModel(parameters, sizes, split=True, product=product),
        "manual": lambda: FastModel(parameters, sizes, split=False, product=product),
        "manual-split": lambda: FastModel(parameters, sizes, split=True, product=product),
    }


def best_milliseconds(call):
    """The best of twenty times."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1000, 3)


def plan_index(parameters, sizes, columns):
    """A function that finds the distinct ids of a batch and its index vectors, no more."""
    classes = [size_classes(parameters, side, sizes) for side in SIDES]
    return lambda: Index([plan_side(ids, own, len(sizes)) for ids, own in zip(columns, classes)])


def time_chunk(model, prepared):
    """Seconds in all, and of one step, of a chunk of steps; cut short after a second, as on a machine much too busy."""
    start = time.perf_counter()
    for steps in range(1, CHUNK + 1):
        loss = model.step(prepared)
        seconds = time.perf_counter() - start
        if seconds > 1:
            break
    if not torch.isfinite(loss):
        raise SystemExit(f"loss: expected a finite number, got {loss.item()}")
    return seconds, seconds / steps


def race(models, columns, plans, seconds):
    """Seconds of one step by variant, chunk after chunk in turn, so that a noisy neighbour meets all alike.

    The first round warms up. A variant 1.5 times slower than the leader, be it of the step alone or of step and plan,
    drops out after three; the race ends when the leader has had its time.
    """
    prepared = {name: model.prepare(*columns) for name, model in models.items()}
    times = {name: [] for name in models}
    spent = dict.fromkeys(models, 0)
    running, leader = list(models), None
    for name in running:
        time_chunk(models[name], prepared[name])
    while leader is None or spent[leader] < seconds:
        for name in running:
            total, step = time_chunk(models[name], prepared[name])
            times[name].append(step)
            spent[name] += total
        leader = min(running, key=lambda name: min(times[name]))
        if len(times[leader]) >= 3:
            alone = {name: min(times[name]) for name in running}
            whole = {name: alone[name] + plans[name] / 1000 for name in running}
            good = lambda clock, name: clock[name] < 1.5 * min(clock.values())
            running = [name for name in running if good(alone, name) or good(whole, name)]
    return times, leader


def summarize(times, rows):
    """Interactions per second."""
    rates = [rows / seconds for seconds in times]
    mean, sd = statistics.mean(rates), statistics.pstdev(rates)
    return {"best": round(max(rates)), "mean": round(mean), "sd": round(sd)}


def main():
    torch.set_num_threads(options.threads)
    if options.check:
        check(options.check, variants)
        return
    keep_memory()
    product, product_name, product_rate = fastest_product()
    with open(options.batch) as file:
        batch = json.load(file)
    columns = [torch.tensor(batch["rows"][name]) for name in ("user", "item", "label")]
    parameters = draw_parameters(batch)
    makers = variants(parameters, batch["sizes"], product)
    models = {name: makers[name]() for name in options.variant or makers}
    plans = {name: best_milliseconds(lambda: model.prepare(*columns)) for name, model in models.items()}
    times, _ = race(models, columns, plans, options.seconds)
    results = {name: {**summarize(times[name], len(columns[0])), "planMilliseconds": plans[name]} for name in models}
    report = {
        "indexMilliseconds": best_milliseconds(plan_index(parameters, batch["sizes"], columns)),
        "threads": options.threads,
        "idle": options.idle,
        "torch": torch.__version__,
        "product": product_name,
        "productGflops": round(product_rate, 1),
        "variants": results,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
