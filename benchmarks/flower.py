"""What the Flower adapter costs: seconds per round beside stock FedAvg, and beside our own simulator.

    python benchmarks/flower.py [--nodes 100] [--rounds 12] [--cohort 10]

Both strategies play the same client app in one Flower simulation on Ray, in turn, round by round, so that both meet the
same machine; the selector's own time is measured apart. The lab plays the same workload in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
SIZE, CLASSES, EXAMPLES = 64, 10, 60
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}


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
    from flwr.clientapp import ClientApp

    from sortition.flower import answer, pytorch

    examples, parts = data(nodes)

    def load(context):
        own = parts[int(context.node_config["partition-id"])]
        return model(), examples.x_train[own], examples.y_train[own]

    app = ClientApp()
    answer(app, pytorch(load, rule()))
    return app


def server_app(options, out):
    from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg

    from sortition.flower import SelectorStrategy, wire
    from sortition.selectors import load

    share = options.cohort / options.nodes

    class Stock(FedAvg):
        """FedAvg as it is; its messages carry the task that the client app needs, and its replies a weight."""

        def configure_train(self, server_round, arrays, config, grid):
            messages = list(super().configure_train(server_round, arrays, config, grid))
            for message in messages:
                message.content[wire.ASSIGNMENT] = wire.Assignment(t=server_round - 1).record()
            return messages

        def aggregate_train(self, server_round, replies):
            for reply in (replies := list(replies)):
                reply.content["metrics"] = MetricRecord({"num-examples": EXAMPLES})
            return super().aggregate_train(server_round, replies)

    def a_round(strategy, server_round, arrays, grid, train):
        """The loop of Flower's Strategy.start, one round of it."""
        begun = time.perf_counter()
        messages = list(strategy.configure_train(server_round, arrays, ConfigRecord(), grid))
        configured = time.perf_counter()
        replies = list(train(messages))
        answered = time.perf_counter()
        found, _ = strategy.aggregate_train(server_round, replies)
        done = time.perf_counter()
        return found, {"whole": done - begun, "ours": configured - begun + done - answered}

    app = ServerApp()

    @app.main()
    def main(grid, context):
        start = ArrayRecord(model().state_dict())
        plain = Stock(fraction_train=share, fraction_evaluate=0.0)
        ours = SelectorStrategy(load("uniform"), cohort=options.cohort, strategy=FedAvg(fraction_evaluate=0.0))
        asking = SelectorStrategy(
            load("power-of-choice", d=2 * options.cohort), cohort=options.cohort, strategy=FedAvg(fraction_evaluate=0.0)
        )
        times = {"FedAvg": [], "uniform": [], "power-of-choice": []}
        models = dict.fromkeys(times, start)
        for server_round in range(1, options.rounds + 2):
            for name, strategy in zip(times, (plain, ours, asking), strict=True):
                found, spent = a_round(
                    strategy, server_round, models[name], grid, lambda m: grid.send_and_receive(m, timeout=300)
                )
                models[name] = found
                times[name].append(spent)
        out.write_text(json.dumps(times))

    return app


def lab(options):
    """Seconds of one round of the same workload in our simulator, in one thread."""
    import torch

    from sortition.selectors import load
    from sortition.simulation import Setup, World, play_round, start

    torch.set_num_threads(1)
    examples, parts = data(options.nodes)
    world = World(examples, list(parts), model(), rule())
    setup = Setup(world, load("uniform"), options.cohort, options.rounds + 1, evaluate_every=0)
    carry, spent = start(setup), []
    for _ in range(options.rounds + 1):
        begun = time.perf_counter()
        carry, _ = play_round(setup, carry)
        spent.append(time.perf_counter() - begun)
    return float(np.median(spent[1:]))


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--cohort", type=int, default=10)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        from flwr.simulation import run_simulation

        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": 2}}
        run_simulation(server_app(options, options.inside), client_app(options.nodes), options.nodes, "ray", resources)
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        sizes = [f"--{key}={getattr(options, key)}" for key in ("nodes", "rounds", "cohort")]
        env = {**os.environ, **QUIET, "FLWR_HOME": folder}
        command = [sys.executable, __file__, *sizes, "--inside", str(out)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if not out.exists():
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
        times = json.loads(out.read_text())
    table = {n: {k: float(np.median([r[k] for r in rows[1:]])) for k in rows[0]} for n, rows in times.items()}
    stock = table["FedAvg"]["whole"]
    print(f"{options.nodes} nodes, cohorts of {options.cohort}, medians of {options.rounds} rounds")
    for name, row in table.items():
        print(f"  {name:16} {row['whole']:7.3f} s a round, {row['ours']:7.4f} s of it in the strategy")
    ours = table["uniform"]["ours"] - table["FedAvg"]["ours"]
    print(f"  overhead of our strategy over FedAvg: {100 * ours / stock:.1f} % of a round ({1000 * ours:.1f} ms)")
    print(f"  whole rounds, uniform beside FedAvg: {100 * (table['uniform']['whole'] / stock - 1):+.1f} %")
    print(
        f"  power-of-choice, which asks {2 * options.cohort} clients: {table['power-of-choice']['whole'] / stock:.2f} ×"
    )
    own = lab(options)
    print(
        f"  the lab plays the same round in {1000 * own:.1f} ms: Flower's simulation takes {stock / own:.0f} × as long"
    )


if __name__ == "__main__":
    main()
