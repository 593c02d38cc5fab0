"""What overlapping rounds cost, side by side in one process: trainings per CPU second, and seconds per arrival.

    python benchmarks/pace.py [--steps 60] [--repeats 3] [--clients 100000]

1. Client trainings per CPU second under ``rounds``, ``late`` and ``buffered``: an MLP of Fashion-MNIST's size on random
   images, and digits; digits also in lock-step, where eight runs train together as a study lets them. The paces
   alternate; each line shows the fastest repetition, and the median over repetitions of the ratio to ``rounds``. The
   aim is 0.9. A step costs the server the same however many updates it has, so a pace is compared with rounds whose
   steps have as many updates. The lines "10 updates a step against 50" show smaller steps.
2. The driver's milliseconds per arrival with many clients and a concurrency of 1,000, without the training itself; the
   aim is 2 ms.
3. The registrar's refill of one place among a million idle clients against a round of 100 among them. A server finds
   out anew who is there, so both get new arrays; read-only ones need not be copied. The first line gives all rounds
   the same array, which is in the cache.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch

from sortition.core import Population, Registrar
from sortition.data import Dataset
from sortition.data import load as load_data
from sortition.federation.pace import Pace
from sortition.learning import LocalRule, build
from sortition.selectors import load
from sortition.simulation import Devices, Setup, Simulation, World, start
from sortition.simulation.simulation import train_all

LATE = Pace(quorum=0.8, late="use")
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


def worlds_of(name: str, clients: int, runs: int) -> list[World]:
    """Return the clients of a benchmark, once for each run; data and model are the same for all."""
    if name == "digits":
        data, parts = digits(clients)
        model = build("mlp", data.inputs[0].shape[1:], 10, hidden=(32,))
        rule = LocalRule(lr=0.1, steps=10, batch=10)
    else:
        data, parts = fashion_like(clients)
        model = build("mlp", (28, 28), 10, hidden=(200,))
        rule = LocalRule(lr=0.1, epochs=1, batch=20)
    return [World(data, parts, model, rule, devices=DEVICES) for _ in range(runs)]


@dataclass(frozen=True)
class Comparison:
    """Paces that are compared with rounds.

    Attributes:
        title: what is trained.
        data: ``digits`` or ``fashion``.
        clients: how many there are.
        cohort: clients of a round.
        paces: the paces by name; the first one is that of the rounds.
        runs: how many runs train together.
    """

    title: str
    data: str
    clients: int
    cohort: int
    paces: Mapping[str, Pace]
    runs: int = 1


def paces_of(cohort: int) -> dict[str, Pace]:
    """Return the paces whose steps have as many updates as a round of this cohort."""
    buffered = Pace(kind="buffered", concurrency=2 * cohort, buffer=cohort)
    return {"rounds": Pace(), "late": LATE, f"buffered, {cohort} updates a step": buffered}


SMALL_STEPS = {"buffered, 10 updates a step against 50": Pace(kind="buffered", concurrency=100, buffer=10)}
COMPARISONS = (
    Comparison("digits", "digits", 150, 50, {**paces_of(50), **SMALL_STEPS}),
    Comparison("digits, 8 runs in lock-step, rounds of 40", "digits", 150, 40, paces_of(40), runs=8),
    Comparison("digits, 8 runs in lock-step, rounds of 10", "digits", 150, 10, paces_of(10), runs=8),
    Comparison("Fashion-MNIST MLP 784-200-10", "fashion", 300, 50, {**paces_of(50), **SMALL_STEPS}),
)


def trainings_per_second(runs: Sequence[Simulation], trainings: int) -> float:
    """Client trainings per CPU second of runs that train together, their choices, steps and records included."""
    done = 0
    begun = time.process_time()
    while done < trainings:
        train_all([simulation.before_training() for simulation in runs])
        for simulation in runs:
            done += len(simulation.after_training()["cohort"])  # late ones are trained though they are used later
    return done / (time.process_time() - begun)


def started(comparison: Comparison, pace: Pace) -> list[Simulation]:
    """Return the runs of a comparison under a pace, after a first round, in which some things are computed once."""
    worlds = worlds_of(comparison.data, comparison.clients, comparison.runs)
    runs = []
    for seed, world in enumerate(worlds):
        setup = Setup(world, load("uniform"), comparison.cohort, 10**6, pace=pace, evaluate_every=0, seed=seed)
        runs.append(start(setup))
        runs[-1].play_round()
    return runs


def compare_trainings(comparison: Comparison, repeats: int, trainings: int) -> None:
    """Print trainings per CPU second under the paces of a comparison."""
    runs = {label: started(comparison, pace) for label, pace in comparison.paces.items()}
    rates: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(repeats):
        for label in runs:
            rates[label].append(trainings_per_second(runs[label], trainings))
    for label in runs:
        ratio = median(rate / rounds for rate, rounds in zip(rates[label], rates["rounds"], strict=True))
        fastest_rate = max(rates[label])
        print(f"{comparison.title}: {label}: {fastest_rate:.0f} trainings per CPU second, {ratio:.2f} of rounds")


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


def compare_registrar(clients: int, repeats: int, *, fresh: bool, read_only: bool) -> None:
    """Print a refill of one place, and a round of 100, among so many idle clients.

    Args:
        clients: how many there are.
        repeats: the fastest of so many counts.
        fresh: whether each round gets a new array, as each refill does; otherwise it finds its own in the cache.
        read_only: whether the arrays are read-only, so that they need not be copied.
    """
    everybody = np.arange(clients)
    population = Population(np.full(clients, 10.0))
    rounds = Registrar(load("uniform"), population)
    overlapping = Registrar(load("uniform"), population)
    overlapping.dispatch(overlapping.begin(everybody, 100))

    def one_round() -> float:
        present = everybody
        if fresh:
            present = everybody.copy()
            present.flags.writeable = not read_only
        begun = time.process_time()
        turn = rounds.begin(present, 100)
        rounds.finish(turn)
        return time.process_time() - begun

    def one_refill() -> float:
        """CPU seconds of the registrar; who is idle is the caller's to know, as who is there is in a round."""
        begun = time.process_time()
        overlapping.receive(overlapping.in_flight[:1])
        received = time.process_time()
        idle = np.delete(everybody, overlapping.in_flight)
        idle.flags.writeable = not read_only
        knows_the_idle = time.process_time()
        overlapping.dispatch(overlapping.begin(idle, 1))
        return time.process_time() - knows_the_idle + received - begun

    round_times = []
    refill_times = []
    for _ in range(repeats):
        round_times.append(one_round())
        refill_times.append(one_refill())
    arrays = "new arrays" if fresh else "the same array for all rounds"
    if read_only:
        arrays = "new read-only arrays"
    print(
        f"{clients:,} idle clients, {arrays}: a round of 100 {1000 * min(round_times):.2f} ms, "
        f"a refill of 1 {1000 * min(refill_times):.2f} ms"
    )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clients", type=int, default=100_000)
    given = parser.parse_args()
    torch.set_num_threads(1)  # as the workers of a study have; threads that wait for each other use CPU time, too
    for comparison in COMPARISONS:
        compare_trainings(comparison, given.repeats, 50 * given.steps)
    for refill in ("step", "arrival"):
        spent = milliseconds_per_arrival(given.clients, refill)
        print(f"{given.clients:,} clients, concurrency 1,000, refill {refill}: {spent:.2f} ms of driver per arrival")
    for fresh, read_only in ((False, False), (True, False), (True, True)):
        compare_registrar(1_000_000, 10 * given.repeats, fresh=fresh, read_only=read_only)


if __name__ == "__main__":
    main()
