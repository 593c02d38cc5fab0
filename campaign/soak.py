"""Every method under random faults, guards and attacks, in tiny federations that really train.

A run is a number: its scenario is drawn from it, so that whatever it finds can be had again
(``python -m campaign soak --first N --runs 1``).
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from campaign.invariants import Observer, check_carry, check_memory, require, unknown_at_first
from sortition import availability
from sortition.aggregation import StepRule
from sortition.core import Guards, stream
from sortition.data import Dataset
from sortition.federation.pace import Pace
from sortition.learning import LocalRule, build
from sortition.selectors import discover, find
from sortition.simulation import Setup, World, run_checkpoint, start
from sortition.simulation.attacks import KINDS, Attacks
from sortition.simulation.devices import Devices
from sortition.simulation.faults import FaultDraws, Faults

ROUNDS, HANG = 100, 120  # rounds of a run; seconds it may take
RATES = ("before", "during", "after", "lost", "late", "damaged", "duplicated", "stale", "leaving", "reused", "crash")

GUARDS = {"quarantine": 3, "winsorise": 3.0, "size_cap": 3.0, "explore": 0.3, "quota": 0.5, "minimum": 2, "norm": 5.0}


@cache
def methods() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Every example of every method."""
    return tuple((name, example) for name in discover() for example in find(name).examples())


def scenario(number: int) -> dict[str, Any]:
    """What run ``number`` plays: methods in turn, everything else by lot."""
    rng = stream(number, "soak")
    name, parameters = methods()[number % len(methods())]
    faults = {rate: float(rng.choice([0.05, 0.2, 0.3])) for rate in RATES if rng.random() < 0.35}
    if rng.random() < 0.3:
        faults |= {"newcomers": float(rng.choice([0.2, 0.6])), "joining": 0.1}
    drawn = {
        "quarantine": 3,
        "winsorise": 3.0,
        "size_cap": 3.0,
        "explore": 0.3,
        "quota": 0.5,
        "minimum": 2,
        "norm": 5.0,
    }
    guards = {key: value for key, value in drawn.items() if rng.random() < 0.25}
    cohort = int(rng.integers(2, 6)) if "minimum" in guards else int(rng.integers(1, 6))
    return {
        "method": name, "parameters": parameters, "clients": int(rng.integers(6, 15)), "faults": faults,
        "guards": guards, "cohort": cohort, "rounds": ROUNDS,
        "attacks": str(rng.choice(KINDS)) if rng.random() < 0.4 else None, "strength": float(10 ** rng.integers(0, 9)),
        "availability": str(rng.choice(["always", "lognormal", "markov", "outages"])),
        **({"devices": {"speed_spread": 1.0}, "pace": {"overselect": 1.6, "deadline": 0.05}}
           if rng.random() < 0.3 else {"devices": {}, "pace": {}}),
        "server": {} if rng.random() < 0.7 else {"momentum": 0.5},
    }  # fmt: skip


def federation(told: dict[str, Any], seed: int) -> World:
    """Clients with a few examples each of three labels, ten examples of the server's own, and a softmax model."""
    rng, n = stream(seed, "soak data"), told["clients"]
    sizes = rng.integers(2, 12, n)
    total = int(sizes.sum()) + 30
    labels = rng.integers(0, 3, total)
    x = rng.normal(size=(total, 4)).astype(np.float32)
    x[np.arange(total), labels] += 2
    cut = total - 20
    data = Dataset("soak", x[:cut], labels[:cut], x[cut:], labels[cut:], 3)
    *parts, validation = np.split(rng.permutation(cut), np.cumsum(sizes))
    attacks = Attacks(told["attacks"], 0.2, told["strength"]) if told["attacks"] else None
    rule = LocalRule(lr=0.05, steps=2, batch=4)
    net = build("softmax", (4,), 3)
    devices = Devices(**told["devices"])
    return World(data, parts, net, rule, validation=validation, seed=seed, devices=devices, attacks=attacks)


def setup_of(told: dict[str, Any], number: int) -> Setup:
    """The scenario as the engine plays it."""
    world = federation(told, number)
    n = world.n_clients
    population = world.population(features=stream(number, "soak features").normal(size=(n, 3)), groups=np.arange(n) % 3)
    counts = world.label_counts
    there = availability.make(
        told["availability"], clients=n, seed=number, sizes=counts.sum(axis=1), label_counts=counts
    )
    return Setup(
        world, find(told["method"]).load(**told["parameters"]), told["cohort"], told["rounds"], population, there,
        step=StepRule(**told["server"]), evaluate_every=10, seed=number,
        faults=FaultDraws(Faults(**told["faults"]), n, number), guards=Guards(**told["guards"]),
        pace=Pace(**told["pace"]),
    )  # fmt: skip


def play(number: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """One run, with its invariants looked at after every round and one resumption from its checkpoint."""
    told = {**scenario(number), "rounds": rounds}
    setup = setup_of(told, number)
    carry = start(setup)
    first = unknown_at_first(carry.registrar)
    watch = carry.registrar.observer = Observer(carry.registrar)
    seen: Counter[str] = Counter()
    for t in range(rounds):
        before = dict(carry.registrar.counters)
        record = carry.play_round()
        check_carry(carry, record, t, before)
        check_memory(carry.registrar, first)
        seen.update(list(record.get("faults") or ()))
        seen.update(skipped=int(record["skipped"]), rejected=len(record.get("rejected") or ()))
        if t == rounds // 2:
            carry = _resumed(setup, carry)
            watch = carry.registrar.observer = Observer(carry.registrar)
    require(watch.turns >= rounds - rounds // 2 - 1, "turns went by unseen")
    return {"rounds": rounds, "method": told["method"], "seen": seen, "counters": dict(carry.registrar.counters)}


def _resumed(setup: Setup, carry: Any) -> Any:
    """The same carry from a file; the next round is the same from both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.npz"
        run_checkpoint.save(path, carry)
        again = run_checkpoint.load(path, setup)
        carry.registrar.observer = None
        one, other = carry.play_round(), again.play_round()
        require(repr(one) == repr(other), "a resumed run goes another way")
        require(np.array_equal(carry.params, again.params), "a resumed run has another model")
        return run_checkpoint.load(path, setup)


@dataclass
class Tally:
    """What a soak saw."""

    runs: int = 0
    rounds: int = 0
    methods: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, number: int, told: dict[str, Any]) -> None:
        """One more run."""
        self.runs += 1
        self.rounds += told.get("rounds", 0)
        self.methods[told.get("method", "?")] += 1
        self.seen.update(told.get("seen", {}))
        if "failure" in told:
            self.failed[number] = told["failure"]


def guarded(arguments: tuple[int, int]) -> tuple[int, dict[str, Any]]:
    """A run under the hang guard; whatever comes out of it is told."""
    number, rounds = arguments

    def ring(*_: Any) -> None:
        raise TimeoutError(f"the run took more than {HANG} s")

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANG)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return number, play(number, rounds)
    except Exception:
        return number, {"failure": f"{scenario(number)}\n{traceback.format_exc()}"}
    finally:
        signal.alarm(0)


def run(first: int, runs: int, seconds: float, jobs: int, rounds: int = ROUNDS) -> Tally:
    """Runs ``first``, ``first`` + 1, … until the number or the time is up."""
    tally, begun = Tally(), time.monotonic()
    numbers = ((number, rounds) for number in range(first, first + runs))
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for number, told in pool.imap_unordered(guarded, numbers, chunksize=1):
            tally.add(number, told)
            if "failure" in told:
                print(f"run {number} failed: {told['failure']}", flush=True)
            if tally.runs % 100 == 0:
                print(f"{tally.runs} runs, {tally.rounds} rounds, {time.monotonic() - begun:.0f} s", flush=True)
            if time.monotonic() - begun > seconds:
                pool.terminate()
                break
    return tally


def report(tally: Tally) -> int:
    """Tell what was seen; 1 if something failed."""
    print(f"{tally.runs} runs, {tally.rounds} rounds of {len(tally.methods)} methods, {len(tally.failed)} failed")
    print("runs: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.methods.items())))
    print("seen: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.seen.items())))
    return 1 if tally.failed else 0
