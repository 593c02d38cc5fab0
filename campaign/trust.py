"""What a tenth of the clients can do to a model: adaptive adversaries of all kinds, every method, with the guards on.

Digits on 50 clients, cohorts of 5, 200 rounds, softmax. Every run is compared with the run of the same method, guards
and seed without adversaries. The tables stand in docs/faults.md.
"""

from __future__ import annotations

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
    ceiling=1.5,
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
        accuracies.append(100 * record["test"]["accuracy"])
        quarantined.update(in_quarantine(simulation.registrar).tolist())

    run(prepared, on_record=keep)
    return Outcome(
        method=method,
        attack=attack,
        guards=guards,
        seed=seed,
        accuracy=float(np.mean(accuracies[-LAST:])),
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


def write(
    path: Path, methods: Iterable[str], attacks: Iterable[str], guards: Iterable[str], seeds: int, partition: str
) -> None:
    """Play all runs that a file of outcomes does not hold yet, and add their lines."""
    done = {(one.method, one.attack, one.guards, one.seed) for one in read(path)}
    with path.open("a") as lines:
        for seed in range(seeds):
            for attack in attacks:
                for method in methods:
                    for name in guards:
                        if (method, attack, name, seed) not in done:
                            lines.write(json.dumps(asdict(played(method, attack, name, seed, partition))) + "\n")
                            lines.flush()


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


METHODS = list(discover())
