"""Has the engine become slower? Ratios against a plain PyTorch loop in one process, beside those of the last release.

    make bench-check                            # some minutes; fails where a ratio lost more than a quarter
    python benchmarks/check.py --store          # keep today's ratios in benchmarks/ratios.json

Both sides of a ratio alternate and the fastest repetition of each counts, so that other work disturbs both alike.
Times of two machines cannot be compared; ratios of one machine can, though not between very different processors.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from engine import CASES, _dataset, examples, fastest, plain_loop, timed

from sortition.core.questions import Measure
from sortition.core.signals import LOSS
from sortition.learning import Learner, LocalRule, build
from sortition.selectors import load as selector
from sortition.simulation import Setup, World, start

STORED = Path(__file__).with_name("ratios.json")
LOSS_ALLOWED = 0.25


def training(name: str, repeats: int) -> float:
    """How many times faster a cohort trains than in the loop."""
    kind, options, shape, n, clients, k, rule, _ = CASES[name]
    x, y = examples(n, shape)
    members = np.array_split(np.random.default_rng(1).permutation(n), clients)[:k]
    model = build(kind, shape, 10, **options)
    own = Learner(model, x, y, rule)
    loop = plain_loop(model, x, y, members, rule)
    slow, fast = fastest([loop, lambda: own.train(own.initial, members, np.arange(k), seed=0, t=0)], repeats)
    return slow / fast


def losses(repeats: int) -> float:
    """How many times faster the losses of all clients are than one big forward pass."""
    x, y = examples(20_000, (784,))
    model, data, labels = build("mlp", (784,), 10), torch.from_numpy(x), torch.from_numpy(y)
    parts = np.array_split(np.random.default_rng(1).permutation(20_000), 100)
    world = World(_dataset(x, y), parts, model, LocalRule(lr=0.1, steps=1))

    def one_pass() -> torch.Tensor:
        with torch.inference_mode():
            return torch.nn.functional.cross_entropy(model(data), labels, reduction="none")

    question = Measure(LOSS, np.arange(100))
    slow, fast = fastest([one_pass, lambda: world.measure(world.initial, question, 0)], repeats)
    return slow / fast


def outside_training(repeats: int) -> float:
    """How many rounds outside training, questions and evaluation take the time of one small cohort's loop."""
    x, y = examples(2_000, (60,))
    parts = np.random.default_rng(0).integers(0, 2_000, (100, 20))
    model, rule = build("softmax", (60,), 10), LocalRule(lr=0.1, steps=10, batch=10)
    world = World(_dataset(x, y), parts, model, rule)
    setup, spent, found = Setup(world, selector("uniform"), 10, 10_000, evaluate_every=0), [0.0], []
    world.learner.draw_cohort = timed(world.learner.draw_cohort, spent)  # type: ignore[method-assign]
    world.learner.train_cohort = timed(world.learner.train_cohort, spent)  # type: ignore[method-assign]
    carry = start(setup)

    def one() -> None:
        nonlocal carry
        begun, spent[0] = time.process_time(), 0.0
        carry.play_round()
        found.append(1e3 * (time.process_time() - begun - spent[0]))

    slow, _ = fastest([plain_loop(model, x, y, list(parts[:10]), rule), one], repeats)
    return slow / min(found)


RATIOS: dict[str, Callable[[], float]] = {
    "MLP cohort": lambda: training("FedCor's FMNIST MLP, 5 × 20 × 64", 40),
    "MLP cohort with dropout": lambda: training("the same with dropout 0.5", 40),
    "softmax cohort": lambda: training("softmax on Synthetic, 6 × 10 × 10", 200),
    "losses of all clients": lambda: losses(40),
    "round outside training": lambda: outside_training(300),
}


def slower(now: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """The ratios that lost more than is allowed; one that was not stored has nothing to lose."""
    return [name for name, ratio in now.items() if ratio < (1 - LOSS_ALLOWED) * before.get(name, 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="store_true", help="keep today's ratios")
    store = parser.parse_args().store
    torch.set_num_threads(1)
    before, now = json.loads(STORED.read_text()) if STORED.exists() else {}, {}
    for name, ratio in RATIOS.items():
        now[name] = round(ratio(), 2)
        print(f"{name:28} {now[name]:6.2f}×   stored {before.get(name, float('nan')):6.2f}×", flush=True)
    if store:
        STORED.write_text(json.dumps(now, indent=1) + "\n")
    elif lost := slower(now, before):
        sys.exit(f"slower by more than {LOSS_ALLOWED:.0%}: {', '.join(lost)}")


if __name__ == "__main__":
    main()
