"""What the Flower adapter costs: the server's CPU beside stock FedAvg, and seconds per round in Flower's simulation.

    python benchmarks/flower.py                     # CPU of the server, 10 and 50 nodes, without processes
    python benchmarks/flower.py --ray [--nodes 100] # seconds per round on Ray, beside our own simulator

Both strategies play the same clients in turn, so that both meet the same machine. CPU is the thread's own, so what
else runs on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

SIZE, CLASSES, EXAMPLES = 64, 10, 60
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}


# -- CPU of the server -------------------------------------------------------------------------------------------------


class PreparedGrid:
    """Nodes whose replies are made beforehand: what is measured is the server alone."""

    def __init__(self, nodes, numbers):
        from flwr.app import Array, ArrayRecord

        rng = np.random.default_rng(0)
        self.model = ArrayRecord({"w": Array(np.zeros(numbers, np.float32))})
        made = [ArrayRecord({"w": Array(rng.normal(size=numbers).astype(np.float32))}) for _ in range(min(nodes, 10))]
        self.arrays = {node: made[node % len(made)] for node in range(nodes)}
        self.waiting, self.count = {}, 0

    def get_node_ids(self):
        return list(self.arrays)

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, public_key=b"") for node in self.arrays]

    def push_messages(self, messages):
        from flwr.app import Message

        keys = []
        for message in messages:
            self.count += 1
            message.metadata.__dict__["_message_id"] = key = str(self.count)
            self.waiting[key] = Message(self._reply(message), reply_to=message)
            keys.append(key)
        return keys

    def _reply(self, message):
        from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

        from sortition.flower import codec

        node = message.metadata.dst_node_id
        if message.metadata.message_type == codec.PROFILE:
            about = ConfigRecord({"name": str(node), "signals": []})
            return RecordDict({codec.SELF: about, codec.FACTS: codec.to_record({"sizes": np.array(EXAMPLES)})})
        metrics = MetricRecord({"num-examples": EXAMPLES, "train_loss": 1.0})
        return RecordDict({"arrays": ArrayRecord(dict(self.arrays[node])), "metrics": metrics})

    def pull_messages(self, message_ids):
        return [self.waiting.pop(key) for key in list(message_ids) if key in self.waiting]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))


def cpu_of(strategy, grid, rounds):
    """Milliseconds of CPU per round."""
    begun = time.thread_time()
    strategy.start(grid, grid.model, rounds)
    return 1000 * (time.thread_time() - begun) / rounds


def cpu_pairs(nodes, numbers, method, cohort, rounds=10, pairs=7):
    """(stock, ours) per round, of pairs played in turn; the first is thrown away."""
    from flwr.serverapp.strategy import FedAvg

    from sortition.flower import SelectorStrategy
    from sortition.selectors import load

    found = []
    for _ in range(pairs + 1):
        grid = PreparedGrid(nodes, numbers)
        stock = FedAvg(fraction_train=cohort / nodes, fraction_evaluate=0.0)
        ours = SelectorStrategy(load(method), cohort=cohort, strategy=FedAvg(fraction_evaluate=0.0))
        found.append((cpu_of(stock, grid, rounds), cpu_of(ours, grid, rounds)))
    return np.array(found[1:])


def cpu(options):
    """The table of CPU per round; fails where our server costs more than it may."""
    from flwr.common.logger import FLOWER_LOGGER
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    FLOWER_LOGGER.setLevel(logging.CRITICAL)
    print("| nodes | numbers | method | stock, ms | ours, ms | more, ms | more |\n|---|---|---|---|---|---|---|")
    dear = []
    for nodes in (10, 50):
        for numbers in (6_420, 1_000_000):
            for method in ("uniform", "full"):
                cohort = nodes if method == "full" else 10
                pairs = cpu_pairs(nodes, numbers, method, cohort)
                stock, more = np.median(pairs[:, 0]), np.median(pairs[:, 1] - pairs[:, 0])
                print(
                    f"| {nodes} | {numbers:,} | {method} | {stock:.1f} | {np.median(pairs[:, 1]):.1f} | {more:+.1f} | "
                    f"{100 * more / stock:+.0f} % |",
                    flush=True,
                )
                if more > max(20, 0.05 * stock):
                    dear.append(f"{method}, {nodes} nodes, {numbers:,} numbers: {more:.1f} ms more")
    sys.exit("\n".join(dear))


# -- seconds per round on Ray ------------------------------------------------------------------------------------------


def data(nodes):
    from sortition.data import Dataset

    rng = np.random.default_rng(0)
    n = nodes * EXAMPLES
    x, y = rng.normal(size=(n + 100, SIZE)).astype(np.float32), rng.integers(0, CLASSES, n + 100)
    x[np.arange(n + 100), y] += 2
    return Dataset("bench", x[:n], y[:n], x[n:], y[n:], CLASSES), np.arange(n).reshape(nodes, EXAMPLES)


def model():
    from sortition.learning import build

    return build("mlp", (SIZE,), CLASSES, hidden=(64, 30))


def rule():
    from sortition.learning import LocalRule

    return LocalRule(lr=0.05, steps=20, batch=20)


def client_app(nodes):
    """An app that trains with the simulator's learner, so that all three play the same work."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    from sortition.clients import Received
    from sortition.clients.named_arrays import from_vector
    from sortition.flower import answer, codec, pytorch

    examples, parts = data(nodes)

    def load(context):
        own = parts[int(context.node_config["partition-id"])]
        return model(), examples.x_train[own], examples.y_train[own]

    app, clients = ClientApp(), pytorch(load, rule())

    @app.train()
    def train(message, context):
        received = Received(codec.to_arrays(message.content["arrays"]), context=context)
        arrays = from_vector(received.vector + clients(received).train().update, received.model)
        metrics = MetricRecord({"num-examples": EXAMPLES})
        content = {"arrays": ArrayRecord(codec.to_record(arrays)), "metrics": metrics}
        return Message(RecordDict(content), reply_to=message)

    answer(app, clients)
    return app


def server_app(options, out):
    from flwr.app import ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    from sortition.flower import SelectorStrategy
    from sortition.selectors import load

    quiet = {"fraction_evaluate": 0.0}
    made = {
        "FedAvg": lambda: FedAvg(fraction_train=options.cohort / options.nodes, **quiet),
        "uniform": lambda: SelectorStrategy(load("uniform"), cohort=options.cohort, strategy=FedAvg(**quiet)),
        "power-of-choice": lambda: SelectorStrategy(
            load("power-of-choice", d=2 * options.cohort), cohort=options.cohort, strategy=FedAvg(**quiet)
        ),
    }
    app = ServerApp()

    @app.main()
    def main(grid, context):
        start, times = ArrayRecord(model().state_dict()), {name: [] for name in made}
        for _ in range(4):
            for name, make in made.items():
                strategy = make()
                if name != "FedAvg":
                    strategy.start(grid, start, 1)  # the first round asks everybody who it is
                    strategy.horizon = None
                begun = time.perf_counter()
                strategy.start(grid, start, options.rounds)
                times[name].append((time.perf_counter() - begun) / options.rounds)
        out.write_text(json.dumps(times))

    return app


def lab(options):
    """Seconds of one round of the same workload in our simulator, in one thread."""
    import torch

    from sortition.selectors import load
    from sortition.simulation import Setup, World, start

    torch.set_num_threads(1)
    examples, parts = data(options.nodes)
    world = World(examples, list(parts), model(), rule())
    setup = Setup(world, load("uniform"), options.cohort, options.rounds + 1, evaluate_every=0)
    carry, spent = start(setup), []
    for _ in range(options.rounds + 1):
        begun = time.perf_counter()
        carry.play_round()
        spent.append(time.perf_counter() - begun)
    return float(np.median(spent[1:]))


def on_ray(options):
    """Seconds per round of each strategy, medians of runs played in turn."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        sizes = [f"--{key}={getattr(options, key)}" for key in ("nodes", "rounds", "cohort")]
        env = {**os.environ, **QUIET, "FLWR_HOME": folder}
        command = [sys.executable, __file__, *sizes, "--inside", str(out)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if not out.exists():
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
        table = {name: float(np.median(runs[1:])) for name, runs in json.loads(out.read_text()).items()}
    stock = table["FedAvg"]
    print(f"{options.nodes} nodes, cohorts of {options.cohort}, {options.rounds} rounds a run")
    for name, seconds in table.items():
        print(f"  {name:16} {seconds:7.3f} s a round, {seconds / stock:.2f} × stock")
    own = lab(options)
    print(f"  our simulator    {own:7.4f} s a round: Flower's takes {stock / own:.0f} × as long")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ray", action="store_true", help="seconds per round in Flower's simulation")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        from flwr.simulation import run_simulation

        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": 2}}
        run_simulation(server_app(options, options.inside), client_app(options.nodes), options.nodes, "ray", resources)
    elif options.ray:
        on_ray(options)
    else:
        cpu(options)


if __name__ == "__main__":
    main()
