"""What a tenth of the clients can do to a model: adaptive adversaries of all kinds, every method, with the guards on.

Digits on 50 clients, cohorts of 5, 200 rounds, softmax. Every run is compared with the run of the same method, guards
and seed without adversaries. The tables stand in docs/faults.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Guards
from sortition.core.arrays import Floats, Ids
from sortition.core.registrar import Registrar
from sortition.selectors import discover
from sortition.simulation import run
from sortition.simulation.attacks import Attacks
from sortition.studies.config import RunConfig
from sortition.studies.federation import setup

ROUNDS = 200
LAST = 10  # rounds over which the final accuracy is averaged
AFTER_RETURN = 20  # rounds after a common return in which places are counted apart
TRUSTED = Guards(
    norm=20.0,
    strikes=3,
    quarantine=20,
    winsorise=3.0,
    size_cap=1.0,
    ceiling=1.2,
    remember=50,
    clip=1.4,
    returning=0.2,
)
GUARDS = {"guards": TRUSTED, "none": Guards()}
ATTACKS: dict[str, dict[str, Any] | None] = {
    "honest": None,
    "always": {"when": "always"},
    "return": {"when": "return", "strength": 1e6},
    "return, quietly": {"when": "return", "strength": 4.9},
    "one round in ten": {"when": "return", "away": 9, "present": 1, "strength": 1e6},
    "chance": {"when": "chance", "strength": 1e6},
    "chance, quietly": {"when": "chance", "strength": 4.9},
    "framing": {"when": "framing"},
}


@dataclass(frozen=True)
class Outcome:
    """What became of one run.

    Attributes:
        method: the method's name.
        attack: the name of the attack.
        guards: the name of the guards.
        seed: of data, model, draws and adversaries.
        accuracy: of the model, mean over the last rounds, in %.
        last: the same of the very last round.
        places: the share of all places that adversaries held, in %.
        returned: the same in the rounds after they came back together; 0 where they did not.
        majorities: rounds in which they were more than half of the cohort.
        honest_quarantined: honest clients that were in quarantine at some time.
        adversaries_quarantined: adversaries that were.
        refused: updates of adversaries that were refused.
        seconds: of computing.
    """

    method: str
    attack: str
    guards: str
    seed: int
    accuracy: float
    last: float
    places: float
    returned: float
    majorities: int
    honest_quarantined: int
    adversaries_quarantined: int
    refused: int
    seconds: float


def config_of(method: str, attack: str, guards: Guards, seed: int, partition: str) -> RunConfig:
    """The configuration of one run."""
    chosen = ATTACKS[attack]
    partitions = {"shards": {"name": "shards", "per_client": 2}, "dirichlet": {"name": "dirichlet", "alpha": 0.3}}
    return RunConfig(
        setting=attack,
        seed=seed,
        method={"name": method},
        rounds=ROUNDS,
        cohort=5,
        data={"name": "digits", "clients": 50, "partition": partitions[partition]},
        model={"name": "softmax"},
        local={"steps": 5, "batch": 10, "lr": 0.1},
        devices={"speed": 100.0, "speed_spread": 1.0},
        evaluate_every=ROUNDS,
        guards=guards,
        attacks=None if chosen is None else Attacks(kind="adaptive", share=0.1, norm=5.0, **chosen),
    )


def played(method: str, attack: str, guards: str, seed: int, partition: str = "shards") -> Outcome:
    """Play one run."""
    begun = time.process_time()
    _, prepared = setup(config_of(method, attack, GUARDS[guards], seed, partition))
    adversaries = prepared.world.adversaries
    false: Ids = np.empty(0, np.int64) if adversaries is None else adversaries.ids
    accuracies: list[float] = []
    shares: list[float] = []
    places = held = refused = 0
    quarantined: set[int] = set()

    def keep(simulation: Any, record: Any) -> None:
        nonlocal places, held, refused
        cohort = record["cohort"] or []
        theirs = int(np.isin(cohort, false).sum())
        places += len(cohort)
        held += theirs
        shares.append(theirs / len(cohort) if cohort else 0.0)
        refused += int(np.isin((record["notes"] or {}).get("unsound_updates", []), false).sum())
        if record["round"] >= ROUNDS - LAST:
            accuracies.append(100 * prepared.world.evaluator.score(simulation.params)["accuracy"])
        quarantined.update(in_quarantine(simulation.registrar).tolist())

    run(prepared, on_record=keep)
    return Outcome(
        method=method,
        attack=attack,
        guards=guards,
        seed=seed,
        accuracy=float(np.mean(accuracies)),
        last=accuracies[-1],
        places=100 * held / max(places, 1),
        returned=100 * float(np.mean(after_return(attack, shares))),
        majorities=sum(share > 0.5 for share in shares),
        honest_quarantined=len(quarantined - set(false.tolist())),
        adversaries_quarantined=len(quarantined & set(false.tolist())),
        refused=refused,
        seconds=time.process_time() - begun,
    )


def in_quarantine(registrar: Registrar) -> Ids:
    """Who may not be chosen in the next round for what it sent."""
    return np.flatnonzero(registrar.eligibility.until > registrar.index)


def after_return(attack: str, shares: Sequence[float]) -> Floats:
    """The shares of places in the rounds after adversaries came back together."""
    chosen = ATTACKS[attack] or {}
    if chosen.get("when") != "return":
        return np.zeros(1)
    away = chosen.get("away", Attacks.away)
    if present := chosen.get("present", 0):
        return np.array([share for t, share in enumerate(shares) if t % (away + present) >= away])
    return np.array(shares[away : away + AFTER_RETURN])


def write(path: Path, methods: Iterable[str], attacks: Iterable[str], guards: str, seed: int, partition: str) -> None:
    """Play all runs of a seed that a file of outcomes does not hold yet, and add their lines."""
    done = {(outcome.method, outcome.attack, outcome.guards, outcome.seed) for outcome in read(path)}
    with path.open("a") as lines:
        for attack in attacks:
            for method in methods:
                if (method, attack, guards, seed) not in done:
                    lines.write(json.dumps(asdict(played(method, attack, guards, seed, partition))) + "\n")
                    lines.flush()


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


METHODS = list(discover())
UNGUARDED = ("always", "return", "chance")  # attacks that are played without guards, too
GOAL = {"loss": 5.0, "places": 20.0, "returned": 40.0, "cost": 0.3}


def by_run(outcomes: Iterable[Outcome]) -> dict[tuple[str, str, str], dict[int, Outcome]]:
    """The outcomes by method, attack and guards, and within that by seed."""
    runs: dict[tuple[str, str, str], dict[int, Outcome]] = {}
    for outcome in outcomes:
        runs.setdefault((outcome.method, outcome.attack, outcome.guards), {})[outcome.seed] = outcome
    return runs


def losses(runs: dict[tuple[str, str, str], dict[int, Outcome]], method: str, attack: str, guards: str) -> list[float]:
    """What an attack costs each seed, in points of accuracy, against the same run without adversaries."""
    honest = runs.get((method, "honest", guards), {})
    attacked = runs.get((method, attack, guards), {})
    return [honest[seed].accuracy - attacked[seed].accuracy for seed in sorted(honest.keys() & attacked.keys())]


def tables(outcomes: Sequence[Outcome]) -> str:
    """The tables of docs/faults.md, in Markdown."""
    runs = by_run(outcomes)
    methods = sorted({one.method for one in outcomes})
    attacks = [name for name in ATTACKS if name != "honest" and any(one.attack == name for one in outcomes)]
    lines = ["| method | honest | cost | " + " | ".join(attacks) + " | places | after return | quarantined |"]
    lines.append("|" + "---|" * (len(attacks) + 6))
    lines.extend(_row(runs, method, attacks) for method in methods)
    return "\n".join(lines)


def _row(runs: dict[tuple[str, str, str], dict[int, Outcome]], method: str, attacks: Sequence[str]) -> str:
    """A method's accuracy, what guards cost it, and the largest loss of a seed by attack; missed goals are bold."""
    bare = runs.get((method, "honest", "none"), {})
    honest = runs.get((method, "honest", "guards"), {})
    common = sorted(bare.keys() & honest.keys())
    cost = float(np.mean([bare[seed].accuracy - honest[seed].accuracy for seed in common])) if common else np.nan
    accuracy = float(np.mean([one.accuracy for one in honest.values()])) if honest else np.nan
    cells = [method, f"{accuracy:.1f}", _cell(cost, GOAL["cost"])]
    attacked = [one for attack in attacks for one in runs.get((method, attack, "guards"), {}).values()]
    for attack in attacks:
        worst = max(losses(runs, method, attack, "guards"), default=np.nan)
        cells.append(_cell(worst, GOAL["loss"]))
    cells.append(_cell(max((one.places for one in attacked), default=np.nan), GOAL["places"], digits=0))
    cells.append(_cell(max((one.returned for one in attacked), default=np.nan), GOAL["returned"], digits=0))
    cells.append(str(max((one.honest_quarantined for one in attacked), default=0)))
    return "| " + " | ".join(cells) + " |"


def _cell(value: float, goal: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return f"**{text}**" if value > goal else text


def unguarded(outcomes: Sequence[Outcome]) -> str:
    """What the same attacks do without guards: the largest loss of a seed, in Markdown."""
    runs = by_run(outcomes)
    lines = ["| method | " + " | ".join(UNGUARDED) + " |", "|" + "---|" * (len(UNGUARDED) + 1)]
    for method in sorted({one.method for one in outcomes}):
        worst = [max(losses(runs, method, attack, "none"), default=np.nan) for attack in UNGUARDED]
        lines.append(f"| {method} | " + " | ".join(f"{loss:.0f}" for loss in worst) + " |")
    return "\n".join(lines)


def report(given: argparse.Namespace) -> int:
    """Play what is missing, and print the tables; 0 where every goal is met."""
    path = Path(given.out)
    if not given.show:
        methods = given.methods or METHODS
        attacks = given.attacks or list(ATTACKS)
        for seed in range(given.first, given.first + given.seeds):
            write(path, methods, attacks, "guards", seed, given.partition)
            write(path, methods, given.unguarded, "none", seed, given.partition)
    outcomes = read(path)
    table = tables(outcomes)
    print(table)
    print(unguarded(outcomes))
    return int("**" in table)
