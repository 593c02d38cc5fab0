"""What a tenth of the clients can do to a model: adaptive adversaries of all kinds, every method, with the guards on.

Digits on 50 clients, cohorts of 5, 200 rounds, softmax. Every run is compared with the run of the same method, guards
and seed without adversaries. The tables stand in docs/faults.md.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Guards
from sortition.core.arrays import Floats, Ids
from sortition.core.registrar import Registrar
from sortition.report.measured_trust import (
    HIGHEST_COST,
    MOST_AFTER_RETURN,
    MOST_LOST,
    MOST_PLACES,
    MeasuredTrust,
    MethodTrust,
    parse_measured_trust,
)
from sortition.selectors import discover
from sortition.simulation import run
from sortition.simulation.attacks import Attacks
from sortition.studies.build_federation import setup
from sortition.studies.config import RunConfig

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
    return np.flatnonzero(registrar.eligibility.quarantined_until > registrar.index)


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
UNDER_ATTACK = re.compile(r"\n*\*\*Under attack\.\*\*.*?adversaries-that-know-the-guards\)\.", re.DOTALL)
UNGUARDED = ("always", "return", "chance")  # attacks that are played without guards, too
Runs = Mapping[tuple[str, str, str], Mapping[int, Outcome]]


def by_run(outcomes: Iterable[Outcome]) -> Runs:
    """The outcomes by method, attack and guards, and within that by seed."""
    runs: dict[tuple[str, str, str], dict[int, Outcome]] = {}
    for outcome in outcomes:
        runs.setdefault((outcome.method, outcome.attack, outcome.guards), {})[outcome.seed] = outcome
    return runs


def losses(runs: Runs, method: str, attack: str, guards: str) -> list[float]:
    """What an attack costs each seed, in points of accuracy, against the same run without adversaries."""
    honest = runs.get((method, "honest", guards), {})
    attacked = runs.get((method, attack, guards), {})
    return [honest[seed].accuracy - attacked[seed].accuracy for seed in sorted(honest.keys() & attacked.keys())]


def summary(outcomes: Sequence[Outcome]) -> MeasuredTrust:
    """What the outcomes with guards say of each method, by the seeds under which all of them were played."""
    methods = sorted({outcome.method for outcome in outcomes})
    runs = complete(by_run(outcomes), methods)
    attacks = [name for name in ATTACKS if name != "honest" and (methods[0], name, "guards") in runs]
    return MeasuredTrust(
        guards=TRUSTED.changed(),
        seeds={attack: sorted(runs[methods[0], attack, "guards"]) for attack in attacks},
        methods={method: _figures(runs, method, attacks) for method in methods},
    )


def merged(stored: MeasuredTrust, measured: MeasuredTrust) -> MeasuredTrust:
    """Return a table with the rows that were measured now in place of stored ones, or beside them.

    Rows of other guards, attacks or seeds cannot stand in one table.
    """
    if (stored.guards, stored.seeds) != (measured.guards, measured.seeds):
        raise ValueError("The stored table is of other guards, attacks or seeds; write to another file.")
    methods = {**stored.methods, **measured.methods}
    return MeasuredTrust(
        guards=stored.guards,
        seeds=stored.seeds,
        methods={method: methods[method] for method in sorted(methods)},
    )


def complete(runs: Runs, methods: Sequence[str]) -> Runs:
    """The outcomes of seeds under which every method was played with the same attack and guards."""
    chosen: dict[tuple[str, str, str], dict[int, Outcome]] = {}
    for attack, guards in {(attack, guards) for _, attack, guards in runs}:
        seeds = set.intersection(*(set(runs.get((method, attack, guards), {})) for method in methods))
        if not seeds:
            continue
        for method in methods:
            by_seed = runs[method, attack, guards]
            chosen[method, attack, guards] = {seed: by_seed[seed] for seed in sorted(seeds)}
    return chosen


def _figures(runs: Runs, method: str, attacks: Sequence[str]) -> MethodTrust:
    """The figures of one method, rounded as the tables show them."""
    bare = runs.get((method, "honest", "none"), {})
    honest = runs[method, "honest", "guards"]
    common = sorted(bare.keys() & honest.keys())
    cost = [bare[seed].accuracy - honest[seed].accuracy for seed in common]
    attacked = [outcome for attack in attacks for outcome in runs.get((method, attack, "guards"), {}).values()]
    return MethodTrust(
        accuracy=round(float(np.mean([outcome.accuracy for outcome in honest.values()])), 1),
        cost=round(float(np.mean(cost)), 1) if cost else 0.0,
        losses={attack: round(max(losses(runs, method, attack, "guards"), default=0.0), 1) for attack in attacks},
        places=round(max((outcome.places for outcome in attacked), default=0.0), 1),
        after_return=round(max((outcome.returned for outcome in attacked), default=0.0), 1),
        quarantined=max((outcome.honest_quarantined for outcome in attacked), default=0),
    )


def table(measured: MeasuredTrust) -> str:
    """The table of docs/faults.md, in Markdown; goals that are missed are bold."""
    attacks = list(next(iter(measured.methods.values())).losses)
    lines = ["| method | honest | cost | " + " | ".join(attacks) + " | places | after return | quarantined |"]
    lines.append("|" + "---|" * (len(attacks) + 6))
    for method, figures in measured.methods.items():
        cells = [method, f"{figures.accuracy:.1f}", _cell(figures.cost, HIGHEST_COST)]
        cells += [_cell(loss, MOST_LOST) for loss in figures.losses.values()]
        cells.append(_cell(figures.places, MOST_PLACES, digits=0))
        cells.append(_cell(figures.after_return, MOST_AFTER_RETURN, digits=0))
        cells.append(str(figures.quarantined))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_pages(measured: MeasuredTrust, docs: Path) -> None:
    """Write the table into docs/faults.md, and what guards do not hold into the pages of the methods."""
    faults = docs / "faults.md"
    rows = re.compile(r"\| method \| honest \| cost \|.*?(?=\n\n)", re.DOTALL)
    faults.write_text(rows.sub(lambda _: table(measured), faults.read_text(), count=1))
    for method in measured.methods:
        page = docs / "methods" / f"{method}.md"
        text = UNDER_ATTACK.sub("", page.read_text()).rstrip("\n")
        paragraph = under_attack(measured, method)
        page.write_text(f"{text}\n\n{paragraph}\n" if paragraph else f"{text}\n")


def under_attack(measured: MeasuredTrust, method: str) -> str:
    """The paragraph of a method's page; empty where the method meets every goal."""
    if not measured.methods[method].missed_goals():
        return ""
    return (
        "**Under attack.** With a tenth of adaptive adversaries and the trusted set-up of [guards](../guards.md), "
        f"{measured.sentence(method)}\n"
        "The other methods and attacks are in [the page on faults](../faults.md#adversaries-that-know-the-guards)."
    )


def _cell(value: float, goal: float, digits: int = 1) -> str:
    text = f"{value:z.{digits}f}"
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
    measured = summary([outcome for outcome in outcomes if not given.attacks or outcome.attack in given.attacks])
    if given.table:
        path = Path(given.table)
        if path.exists():
            measured = merged(parse_measured_trust(json.loads(path.read_text())), measured)
        path.write_text(json.dumps(asdict(measured), indent=1) + "\n")
        write_pages(measured, Path("docs"))
    print(table(measured))
    print(unguarded(outcomes))
    return int(any(figures.missed_goals() for figures in measured.methods.values()))
