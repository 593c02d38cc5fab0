"""Would many runs in lock-step beat processes? Cohorts of R runs as one stack, against R stacks one after the other.

    python benchmarks/lockstep.py [--quick]

Results stand in docs/scale.md. Both ways alternate on one thread and the fastest CPU time counts. The gain of a round
is the most that is possible: training and evaluation are batched over the runs, all else (selection, batches,
aggregation, records) stays as it is, and keeping runs in step costs nothing.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch
from engine import FMNIST, SYNTHETIC, fashion_mnist, fastest, table, timed
from torch import nn

from sortition.data import load
from sortition.learning import build
from sortition.learning.batches import plans
from sortition.learning.evaluation import CHUNK
from sortition.learning.padding import grid
from sortition.learning.stacked import Descent, Stack
from sortition.selectors import load as selector
from sortition.simulation import Setup, World, play_round, start

RUNS = (2, 4, 8, 16)


@torch.no_grad()
def in_one_stack(own, params, members, ids, k):
    """Train the cohorts of len(params) runs, k clients each, from the runs' own models: updates (runs · k, P)."""
    runs, device = len(params), own.device
    work = [p for r in range(runs) for p in plans(members[r], ids[r], own.rule, r, 0)]
    index, weight, active = grid(work)  # all clients take the same number of steps here
    at, weights = torch.from_numpy(index).to(device), torch.from_numpy(weight).to(device)
    targets, begun = own.y[at].unsqueeze(3), torch.from_numpy(params)
    stack = Stack(own.layers, own.layout.split(begun[0]), runs * k, Descent(own.rule, own.rule.lr))
    for slot, part in zip(stack.slots, own.layout.split(begun), strict=True):
        slot.value = part.repeat_interleave(k, 0)
    for s, now in enumerate(active):
        x = own.examples.rows.index_select(0, at[s].reshape(-1)).view(now, index.shape[2], -1)
        stack.step(s, x, targets[s], weights[s], [])
    final = torch.cat([slot.value.flatten(1) for slot in stack.slots], 1)
    return (final - begun.repeat_interleave(k, 0)).numpy()


def _linear(h, weight, bias):
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))


@torch.inference_mode()
def evaluated(test, layers, layout, params):
    """Test losses and hits of len(params) models (runs, n), in batched products over chunks of the examples."""
    parts, rows, found = layout.split(torch.from_numpy(params)), test.examples.rows.flatten(1), []
    for at in range(0, len(rows), CHUNK):
        h, own = rows[at : at + CHUNK].expand(len(params), -1, -1), iter(parts)
        for layer in layers:
            h = layer(h) if not isinstance(layer, nn.Linear) else _linear(h, next(own), next(own))
        y = test.labels[at : at + CHUNK].expand(len(params), -1)
        losses = nn.functional.cross_entropy(h.transpose(1, 2).contiguous(), y, reduction="none")
        found.append((losses, h.argmax(2) == y))
    losses, hits = (torch.cat(list(both), 1).numpy() for both in zip(*found, strict=True))
    return losses.mean(1, dtype=np.float64), hits.mean(1)


def share(world, k, rounds):
    """Fastest CPU milliseconds of a whole round, of its training and of its evaluation."""
    setup = Setup(world, selector("uniform"), k, rounds + 5)
    carry, spent = start(setup), {"train": [0.0], "score": [0.0]}
    test = world.evaluator.test
    trains, scores = world.learner.train, test.losses
    world.learner.train, test.losses = timed(trains, spent["train"]), timed(scores, spent["score"])
    found = []

    def one():
        nonlocal carry
        for kept in spent.values():
            kept[0] = 0.0
        carry, _ = play_round(setup, carry)
        found.append([1e3 * kept[0] for kept in spent.values()])

    whole = fastest([one], rounds)[0]
    world.learner.train, test.losses = trains, scores
    return whole, *np.min(found, axis=0)


def drawn(world, k, runs):
    """A model, the clients and their examples for each run."""
    rng, own = np.random.default_rng(runs), world.learner
    ids = [rng.choice(world.n_clients, k, replace=False) for _ in range(runs)]
    params = np.stack([own.initial + 0.01 * rng.standard_normal(own.layout.size, np.float32) for _ in range(runs)])
    return params, [[world.holdings.of(int(i)) for i in chosen] for chosen in ids], ids


def measured(world, k, runs, repeats):
    """CPU milliseconds per run: training apart, in one stack; evaluation apart, batched."""
    own, (params, members, ids) = world.learner, drawn(world, k, runs)

    def apart():
        return np.concatenate([own.train(params[r], members[r], ids[r], seed=r, t=0).deltas for r in range(runs)])

    def together():
        return in_one_stack(own, params, members, ids, k)

    def scored():
        return [world.evaluator.score(p) for p in params]

    def batched():
        return evaluated(world.evaluator.test, own.layers, own.layout, params)

    np.testing.assert_allclose(apart(), together(), atol=1e-5)
    np.testing.assert_allclose([one["loss"] for one in scored()], batched()[0], rtol=1e-4)
    same = np.array_equal(apart(), together())
    return same, *(ms / runs for ms in fastest([apart, together, scored, batched], max(repeats // runs, 5)))


def compare(name, world, k, repeats):
    whole, training, evaluation = share(world, k, repeats)
    rows = []
    for runs in RUNS:
        same, a, b, c, d = measured(world, k, runs, repeats)
        gain = whole / (whole - training - evaluation + training * b / a + evaluation * d / c)
        bits = "same" if same else "other"
        rows.append([runs, a, b, f"{a / b:.2f}×", c, d, f"{c / d:.2f}×", f"{gain:.2f}×", bits])
    parts = f"a round {whole:.2f} ms, of it training {training:.2f} and evaluation {evaluation:.2f}"
    header = ["runs", "training apart", "in one stack", "gain", "evaluation apart", "batched", "gain", "round", "bits"]
    table(f"{name}: {parts}; CPU ms per run and round", header, rows)


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    repeats = 20 if parser.parse_args().quick else 200
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, load {os.getloadavg()[0]:.1f}")
    images, where = fashion_mnist()
    parts = np.random.default_rng(1).permutation(60_000).reshape(100, -1)
    mlp = World(images, list(parts), build("mlp", (1, 28, 28), 10, hidden=(64, 30)), FMNIST)
    compare(f"FedCor's MLP on {where}, 5 × 20 × 64", mlp, 5, repeats // 4)
    data = load("synthetic")
    softmax = World(data, data.clients, build("softmax", (60,), 10), SYNTHETIC)
    compare("FedGS's softmax on Synthetic, 6 × 10 × 10", softmax, 6, repeats)


if __name__ == "__main__":
    main()
