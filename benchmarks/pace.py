"""What overlapping rounds cost, side by side in one process: trainings per CPU second, and seconds per arrival.

    python benchmarks/pace.py [--steps 60] [--repeats 3] [--clients 100000]

1. Client trainings per CPU second under ``rounds``, ``late`` and ``buffered``: an MLP of Fashion-MNIST's size on random
   images, and digits. The paces alternate, and the fastest of the repetitions counts; the aim is 0.9 of ``rounds``.
2. The driver's milliseconds per arrival with many clients and a concurrency of 1,000, without the training itself; the
   aim is 2 ms.
3. The registrar's refill of one place among a million idle clients against a round of 100 among them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from sortition.core import Population, Registrar
from sortition.data import Dataset
from sortition.data import load as load_data
from sortition.federation.pace import Pace
from sortition.learning import LocalRule, build
from sortition.selectors import load
from sortition.simulation import Devices, Setup, World, start
from sortition.simulation.simulation import train_all

PACES = {
    "rounds": Pace(),
    "late": Pace(quorum=0.8, late="use"),
    "buffered": Pace(kind="buffered", concurrency=100, buffer=10),
}
DEVICES = Devices(speed=1000.0, speed_spread=1.0)


def fashion_like(clients: int, examples: int = 60) -> tuple[Dataset, list[np.ndarray]]:
    """Random images of 28 × 28 with ten labels: what training costs does not depend on what they show."""
    rng = np.random.default_rng(0)
    n = clients * examples
    x = rng.random((n + 100, 28, 28), dtype=np.float32)
    y = rng.integers(0, 10, n + 100)
    return Dataset("images", x[:n], y[:n], x[n:], y[n:], 10), np.split(np.arange(n), clients)


def digits(clients: int) -> tuple[Dataset, list[np.ndarray]]:
    """Digits, split evenly."""
    data = load_data("digits").prepared()
    return data, np.array_split(np.arange(len(data.y_train)), clients)


def world_of(name: str, clients: int) -> World:
    """The clients of a benchmark."""
    if name == "digits":
        data, parts = digits(clients)
        model = build("mlp", data.inputs[0].shape[1:], 10, hidden=(32,))
        return World(data, parts, model, LocalRule(lr=0.1, steps=10, batch=10), devices=DEVICES)
    data, parts = fashion_like(clients)
    model = build("mlp", (28, 28), 10, hidden=(200,))
    return World(data, parts, model, LocalRule(lr=0.1, epochs=1, batch=20), devices=DEVICES)


def trainings_per_second(world: World, pace: Pace, trainings: int) -> float:
    """Client trainings per CPU second of a run, its choices, steps and records included."""
    setup = Setup(world, load("uniform"), 50, 10**6, pace=pace, evaluate_every=0)
    simulation = start(setup)
    simulation.play_round()  # what is computed once
    done = 0
    begun = time.process_time()
    while done < trainings:
        train_all([simulation.before_training()])
        done += len(simulation.after_training()["cohort"])  # late ones are trained though they are used later
    return done / (time.process_time() - begun)


def compare_trainings(repeats: int, steps: int) -> None:
    """Print trainings per CPU second under the three paces."""
    for name, clients in (("digits", 150), ("Fashion-MNIST MLP 784-200-10", 300)):
        world = world_of("digits" if name == "digits" else "fashion", clients)
        best = dict.fromkeys(PACES, 0.0)
        for _ in range(repeats):
            for label, pace in PACES.items():
                best[label] = max(best[label], trainings_per_second(world, pace, 50 * steps))
        for label, rate in best.items():
            print(f"{name}: {label:9} {rate:9.0f} trainings per CPU second, {rate / best['rounds']:.2f} of rounds")


def milliseconds_per_arrival(clients: int, refill: str) -> float:
    """CPU milliseconds of the driver per arrival, with one example a client and a model of a few numbers."""
    rng = np.random.default_rng(0)
    x = rng.random((clients + 10, 2), dtype=np.float32)
    y = rng.integers(0, 2, clients + 10)
    data = Dataset("points", x[:clients], y[:clients], x[clients:], y[clients:], 2)
    parts = list(np.arange(clients).reshape(-1, 1))
    world = World(data, parts, build("softmax", (2,), 2), LocalRule(lr=0.1, steps=1, batch=1), devices=DEVICES)
    pace = Pace(kind="buffered", concurrency=1000, buffer=100, refill=refill)
    simulation = start(Setup(world, load("uniform"), 1000, 10**6, pace=pace, evaluate_every=0))
    simulation.play_round()
    arrivals = 0
    begun = time.process_time()
    training = 0.0
    for _ in range(5):
        trained = simulation.before_training()
        before = time.process_time()
        train_all([trained])
        training += time.process_time() - before
        record = simulation.after_training()
        arrivals += len(record["cohort"] if record["answered"] is None else record["answered"])
    return 1000 * (time.process_time() - begun - training) / arrivals


def fastest(function: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest call."""
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        seconds.append(time.process_time() - begun)
    return min(seconds)


def compare_registrar(clients: int, repeats: int) -> None:
    """Print a refill of one place, and a round of 100, among so many idle clients."""
    everybody = np.arange(clients)
    population = Population(np.full(clients, 10.0))
    rounds = Registrar(load("uniform"), population)
    overlapping = Registrar(load("uniform"), population)
    overlapping.dispatch(overlapping.begin(everybody, 100))

    def one_round() -> None:
        turn = rounds.begin(everybody, 100)
        rounds.finish(turn)

    def one_refill() -> float:
        """CPU seconds of the registrar; who is idle is the caller's to know, as who is there is in a round."""
        begun = time.process_time()
        overlapping.receive(overlapping.in_flight[:1])
        received = time.process_time()
        idle = np.delete(everybody, overlapping.in_flight)
        knows_the_idle = time.process_time()
        overlapping.dispatch(overlapping.begin(idle, 1))
        return time.process_time() - knows_the_idle + received - begun

    whole = fastest(one_round, repeats)
    refill = min(one_refill() for _ in range(repeats))
    print(f"{clients:,} idle clients: a round of 100 {1000 * whole:.1f} ms, a refill of 1 {1000 * refill:.1f} ms")


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clients", type=int, default=100_000)
    given = parser.parse_args()
    compare_trainings(given.repeats, given.steps)
    for refill in ("step", "arrival"):
        spent = milliseconds_per_arrival(given.clients, refill)
        print(f"{given.clients:,} clients, concurrency 1,000, refill {refill}: {spent:.2f} ms of driver per arrival")
    compare_registrar(1_000_000, given.repeats)


if __name__ == "__main__":
    main()
