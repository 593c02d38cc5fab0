"""What adversaries gain with claims made for one method, and by silence: selections without training.

A tenth of 50 clients attacks, cohorts of 5; the shares of places and of weight that it holds, with no guards, with
those of the trusted set-up without the ceiling, and with all of them. The tables stand in docs/faults.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from campaign.trust import TRUSTED
from sortition.core import Guards, Population, Reading, Registrar, Signal, stream
from sortition.core.arrays import Array, Ids
from sortition.selectors import discover, load

CLIENTS, COHORT, LABELS, WIDTH, SEEDS = 50, 5, 10, 16, 2
ROUNDS = {"claims": 150, "silence": 100}
GUARDS = (None, replace(TRUSTED, ceiling=0.0), TRUSTED)
ADVERSARIES = np.arange(CLIENTS) < CLIENTS // 10
CLAIMS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("microcosm", {}, "billions"),
    ("microcosm", {}, "twice"),
    ("microcosm", {}, "rarest"),
    ("microcosm", {}, "mixture"),
    ("microcosm", {"by": "updates", "sketch": WIDTH}, "nan"),
    ("microcosm", {"by": "updates", "sketch": WIDTH}, "far"),
    ("f3ast", {}, "billions"),
    ("ca-fed", {"train": "budget"}, "billions"),
    ("flips", {}, "rarest"),
    ("fed-cbs", {}, "mixture"),
)
SILENT = [name for name in discover() if name not in ("greedyfed", "full")]  # need a server's data, or choose all


class Federation:
    """Clients with label mixtures, who answer and report as their mixtures say; the first tenth does as it likes."""

    def __init__(self, claim: str, seed: int) -> None:
        self.claim, self.rng = claim, stream(seed, "claims")
        self.mixtures = self.rng.dirichlet(np.full(LABELS, 0.3), CLIENTS)
        self.directions = self.rng.normal(size=(LABELS, WIDTH))
        counts = np.floor(self.mixtures * self.rng.integers(50, 150, (CLIENTS, 1))).astype(np.int64)
        counts[counts.sum(axis=1) == 0, 0] = 1
        self.counts = self._claimed(counts)

    def _claimed(self, counts: Array) -> Array:
        held, others = counts[ADVERSARIES].sum(axis=1, keepdims=True), counts[~ADVERSARIES].sum(axis=0)
        if self.claim == "billions":
            counts[ADVERSARIES] = counts[ADVERSARIES] * 10**9 // held
        elif self.claim == "twice":
            counts[ADVERSARIES] *= 2
        elif self.claim == "rarest":
            counts[ADVERSARIES] = held * (np.arange(LABELS) == counts.sum(axis=0).argmin())
        elif self.claim == "mixture":
            counts[ADVERSARIES] = np.rint(held * others / others.sum())
        return counts

    def rows(self, signal: Signal, ids: Ids) -> Reading | dict[int, Any]:
        """What these clients send for a signal."""
        if signal.of == "pairs":
            return Reading(ids, (self.counts[ids] @ self.counts[ids].T).astype(float))
        return {client: self._row(signal, client) for client in ids.tolist()}

    def _row(self, signal: Signal, client: int) -> Any:
        if signal.scalar:
            return abs(self.rng.normal(1.0, 0.1))
        if signal.name == "resources":
            return np.abs(self.rng.normal(1.0, 0.1, 2))
        if ADVERSARIES[client] and self.claim in ("nan", "far"):
            return np.full(WIDTH, np.nan) if self.claim == "nan" else 30 + 5 * self.rng.normal(size=WIDTH)
        return self.mixtures[client] @ self.directions + 0.3 * self.rng.normal(size=WIDTH)


def captured(name: str, parameters: dict[str, Any], claim: str, guards: Guards | None, seed: int, rounds: int) -> Array:
    """The shares of places and of weight that the adversaries held, in %."""
    federation = Federation(claim, seed)
    population = Population(federation.counts.sum(axis=1), federation.counts)
    registrar = Registrar(load(name, **parameters), population, guards=guards, seed=seed, horizon=rounds)
    held, total = np.zeros(2), np.zeros(2)
    for _ in range(rounds):
        turn = registrar.begin(np.arange(CLIENTS), COHORT)
        while turn.question is not None:
            turn.answer(federation.rows(turn.question.signal, turn.question.ids))
        cohort = turn.cohort
        completed = cohort.ids[~ADVERSARIES[cohort.ids]] if claim == "silent" else cohort.ids
        weights, _ = cohort.weights_of(completed)
        held += ADVERSARIES[cohort.ids].sum(), weights[ADVERSARIES[completed]].sum()
        total += cohort.ids.size, weights.sum()
        reports = {signal.name: federation.rows(signal, completed) for signal in registrar.needs.reports}
        registrar.finish(turn, completed, reports)
    return 100 * held / np.maximum(total, 1e-9)


def _mean(name: str, parameters: dict[str, Any], claim: str, guards: Guards | None, rounds: int) -> Array:
    return np.mean([captured(name, parameters, claim, guards, seed, rounds) for seed in range(SEEDS)], axis=0)


def claims() -> Iterator[str]:
    """The table of claims: places (weight) by guards."""
    yield "| method | what is false | no guards | guards | with the ceiling |\n|---|---|---|---|---|"
    for name, parameters, claim in CLAIMS:
        shares = [_mean(name, parameters, claim, guards, ROUNDS["claims"]) for guards in GUARDS]
        yield f"| {name} | {claim} | " + " | ".join(f"{places:.0f} ({weight:.0f})" for places, weight in shares) + " |"


def silence() -> Iterator[str]:
    """The table of silence, without guards: places where the adversaries answer, and where they never do."""
    yield "| method | answering | silent |\n|---|---|---|"
    for name in SILENT:
        both = [_mean(name, {}, claim, None, ROUNDS["silence"])[0] for claim in ("none", "silent")]
        yield f"| {name} | {both[0]:.0f} | {both[1]:.0f} |"


def run() -> int:
    """Print both tables."""
    for line in (*claims(), "", *silence()):
        print(line, flush=True)
    return 0
