"""The same federation in Sortition's lab, in a plain PyTorch loop and in Flower's simulation: rounds per second.

    python benchmarks/peers.py [--rounds 30] [--without-flower]

FedCor's Fashion-MNIST setting: the MLP 784-64-30-10, 100 clients with 2 shards of 300, 5 a round drawn uniformly, 20
steps of SGD with batches of 64, no evaluation. The lab and the loop have one thread. Flower is used as its
documentation recommends: FedAvg, a ClientApp that loads its partition once a process, DataLoader and optim.SGD, one
processor per client, so that as many clients train at a time as there are cores. All take turns, round by round, so
that they meet the same machine, however busy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from engine import CORES, FMNIST, fashion_mnist, plain_loop, table

from flower import QUIET
from sortition.learning import build
from sortition.selectors import load as selector
from sortition.simulation import Setup, World, start

CLIENTS, COHORT = 100, 5


@lru_cache
def federation():
    """The data set, and the examples of each client (100, 600)."""
    images, where = fashion_mnist()
    shards = np.random.default_rng(0).permutation(2 * CLIENTS).reshape(CLIENTS, 2)
    by_label = np.argsort(images.y_train, kind="stable").reshape(2 * CLIENTS, -1)
    return images, by_label[shards].reshape(CLIENTS, -1), where


def model():
    return build("mlp", (1, 28, 28), 10, hidden=(64, 30))


def lab(rounds):
    """One call is one round in our simulator."""
    images, parts, _ = federation()
    world = World(images, list(parts), model(), FMNIST)
    setup = Setup(world, selector("uniform", weights="uniform"), COHORT, rounds + 1, evaluate_every=0)
    carry = start(setup)

    def one():
        nonlocal carry
        carry.play_round()

    return one


def loop():
    """One call is one round of what most research code does."""
    images, parts, _ = federation()
    x, net, rng = images.x_train.reshape(len(images.x_train), -1), model(), np.random.default_rng(0)

    def one():
        chosen = rng.choice(CLIENTS, COHORT, replace=False)
        trained = [local.state_dict() for local in plain_loop(net, x, images.y_train, list(parts[chosen]), FMNIST)()]
        net.load_state_dict({key: torch.stack([local[key] for local in trained]).mean(0) for key in trained[0]})

    return one


class Turns:
    """Rounds of several ways in turn; the first of each does not count."""

    def __init__(self, rounds):
        torch.set_num_threads(1)
        self.ways = {"Sortition's lab": lab(rounds), "plain PyTorch loop": loop()}
        self.spent = {name: [] for name in self.ways}

    def take(self):
        """One round of each, timed on the wall."""
        for name, one in self.ways.items():
            begun = time.perf_counter()
            one()
            self.spent[name].append(time.perf_counter() - begun)

    def told(self):
        """Median seconds of a round of each."""
        return {name: float(np.median(seconds[1:])) for name, seconds in self.spent.items()}


# -- Flower: in a process that imports this module by name, so that clients keep their data between messages ---------


def client_app():
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from torch.utils.data import DataLoader, TensorDataset

    app = ClientApp()

    @app.train()
    def train(message, context):
        torch.set_num_threads(1)
        images, parts, _ = federation()
        own = parts[int(context.node_config["partition-id"])]
        held = TensorDataset(torch.from_numpy(images.x_train[own]), torch.from_numpy(images.y_train[own]))
        net = model()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        net.train()
        optimiser, done, total = torch.optim.SGD(net.parameters(), lr=FMNIST.lr), 0, 0.0
        while done < FMNIST.steps:
            for x, y in DataLoader(held, batch_size=FMNIST.batch, shuffle=True):
                if done == FMNIST.steps:
                    break
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimiser.step()
                done, total = done + 1, total + loss.item()
        metrics = MetricRecord({"train_loss": total / done, "num-examples": len(own)})
        content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


def server_app(rounds, out):
    from flwr.app import ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    app = ServerApp()

    @app.main()
    def main(grid, context):
        strategy = FedAvg(fraction_train=COHORT / CLIENTS, min_train_nodes=COHORT, fraction_evaluate=0.0)
        turns = Turns(rounds + 3)
        turns.spent["Flower's simulation"], begun = [], time.perf_counter()

        def after(server_round, arrays):
            """Flower calls this before the first round and after each: it ended, and the others have their turn."""
            nonlocal begun
            turns.spent["Flower's simulation"].append(time.perf_counter() - begun)
            turns.take()
            begun = time.perf_counter()

        strategy.start(grid, ArrayRecord(model().state_dict()), num_rounds=rounds + 2, evaluate_fn=after)
        del turns.spent["Flower's simulation"][:2]  # the start, and a round in which processes start
        out.write_text(json.dumps(turns.told()))

    return app


def simulate(rounds, out):
    """Called in Flower's own process."""
    from flwr.simulation import run_simulation

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": CORES}}
    run_simulation(server_app(rounds, Path(out)), client_app(), CLIENTS, "ray", resources)


def with_flower(rounds):
    """Median seconds of a round of all three ways."""
    with tempfile.TemporaryDirectory() as folder:
        out, here = Path(folder) / "times.json", str(Path(__file__).parent)
        env = {**os.environ, **QUIET, "FLWR_HOME": folder, "PYTHONPATH": here}
        code = f"import peers; peers.simulate({rounds}, {str(out)!r})"
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        if not out.exists():
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
        return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--without-flower", action="store_true")
    chosen = parser.parse_args()
    if chosen.without_flower:
        turns = Turns(chosen.rounds + 1)
        for _ in range(chosen.rounds + 1):
            turns.take()
        found = turns.told()
    else:
        found = with_flower(chosen.rounds)
    ours = found["Sortition's lab"]
    header = ["way", "cores", "rounds a second", "ms a round", "Sortition is faster"]
    cells = [
        [name, CORES if "Flower" in name else 1, 1 / wall, 1e3 * wall, f"{wall / ours:.1f}×"]
        for name, wall in found.items()
    ]
    title = f"{federation()[2]}, MLP, {CLIENTS} clients, {COHORT} a round, medians of {chosen.rounds} rounds"
    table(f"{title}, load {os.getloadavg()[0]:.1f}", header, cells)


if __name__ == "__main__":
    main()
