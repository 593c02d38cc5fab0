"""What must hold after every round, whatever went wrong in it: seen by an observer of the turns, and in the carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sortition.core import Reading, Registrar
from sortition.core.arrays import Ids
from sortition.core.population import Population
from sortition.core.questions import Measure
from sortition.core.state import State

# Fields of memory that hold what clients told: a row is touched by its own client's words only. FedCor's embeddings X
# are not among them: each fit moves those of all clients together (its eq. 16).
ROWS = {
    "Active": ("value",), "Clustered": ("update",), "CSUCBQ": ("latency", "plays"), "DivFL": ("has_gradient", "rows"),
    "FedCor": ("samples",), "FedGS": ("features",), "HiCS": ("update", "entropy"), "LongFed": ("has_update", "rows"),
    "PowerOfChoice": ("loss",),
}  # fmt: skip
SILENT_ROWS = ("PowerOfChoice",)  # rpow-d gives who was chosen and never answered the mean loss of its round
DROPPED = {"FedCor": "loss"}  # kept from one question to the next, then forgotten: it may become NaN, nothing else
PAIRS = {"DivFL": "distance", "LongFed": "distance", "FedGS": "products"}
BOTH = ("LongFed", "FedGS")  # a pair's entry is touched by the words of both only; DivFL's by those of one of them


class BrokenError(AssertionError):
    """An invariant does not hold."""


def require(holds: Any, sentence: str) -> None:
    """Say what is broken."""
    if not holds:
        raise BrokenError(sentence)


class Observer:
    """Sees every turn as the registrar does."""

    def __init__(self, registrar: Registrar) -> None:
        self.registrar = registrar
        self.heard: set[int] = set()
        self.before: dict[str, Any] = {}
        self.available: Ids = np.empty(0, np.int64)
        self.budget = 0
        self.turns = 0

    def begun(self, turn: Any, available: Ids, budget: int) -> None:
        """Remember what clients had told before."""
        self.heard, self.available, self.budget = set(), available, budget
        arrays, owner = self.registrar.state.arrays(), self.registrar.method_name
        watched = (*ROWS.get(owner, ()), DROPPED.get(owner), PAIRS.get(owner))
        self.before = {name: arrays[name].copy() for name in watched if name in arrays}

    def answered(self, turn: Any, question: Measure, answers: Any) -> None:
        """Questions go to those who are there."""
        require(np.isin(question.ids, self.available).all(), "a client was asked that is not available")
        self.heard |= _senders(answers)

    def finished(self, turn: Any, done: Ids, reports: Mapping[str, Any]) -> None:
        """A cohort that may be, weights that keep their mass, memory that nobody else touched."""
        self.turns += 1
        cohort = turn.cohort
        require(np.unique(cohort.ids).size == cohort.ids.size, "a client was chosen twice")
        require(np.isin(cohort.ids, self.available).all(), "a client was chosen that is not available")
        size = cohort.ids.size if cohort.expected_size is None else cohort.expected_size
        require(cohort.full or size <= self.budget + 1e-9, "more clients were chosen than the budget")
        require(np.isfinite(cohort.weights).all() and (cohort.weights >= 0).all(), "weights are not finite and ≥ 0")
        if done.size:
            weights = cohort.weights_of(done)[0]
            require(np.isfinite(weights).all(), "weights of those who answered are not finite")
            at = np.isin(cohort.ids, done) if cohort.mass == "expected" else slice(None)  # such mass is never rescaled
            mass, kept = cohort.weights[at].sum(), weights.sum()
            require(np.isclose(mass, kept, rtol=1e-9) or not kept, f"mass {mass} became {kept}")
        self.heard |= set(done.tolist()).union(*(_senders(rows) for rows in reports.values()))
        if self.registrar.method_name in SILENT_ROWS and turn.cohort is not None:
            self.heard |= set(turn.cohort.ids.tolist())
        self._check_untouched(turn.state)

    def _check_untouched(self, state: State) -> None:
        """Nobody's rows changed but those of clients that said something."""
        arrays = state.arrays()
        owner = self.registrar.method_name
        for name, old in self.before.items():
            if name not in arrays:  # tables of pairs are given up where clients are too many
                continue
            new, quiet = arrays[name][: len(old)], ~np.isin(np.arange(len(old)), list(self.heard))
            if name == PAIRS.get(owner):
                new = new[:, : len(old)]
                quiet = quiet[:, None] | quiet if owner in BOTH else quiet[:, None] & quiet
            if new.shape != old.shape:  # the first rows fixed their width
                continue
            now, then = new[quiet], old[quiet]
            same = (now == then) | ((now != now) & ((then != then) | (name == DROPPED.get(owner))))
            require(same.all(), f"memory.{name} of a client changed that said nothing")

    def joined(self, population: Population) -> None:
        """Nothing is lost of those who were there."""


def _senders(answers: Any) -> set[int]:
    ids = (
        answers.ids.tolist() if isinstance(answers, Reading) else list(answers) if isinstance(answers, Mapping) else []
    )
    return {int(k) for k in ids}


def check_memory(registrar: Registrar, first: Mapping[str, bool]) -> None:
    """Axes are right, and nothing is NaN or infinite but what marks the unknown."""
    state, n = registrar.state, registrar.population.n_clients
    require(state.n_clients == n, f"memory is of {state.n_clients} clients, the population of {n}")
    for item in fields(state):
        value, axes = getattr(state, item.name), state.axes().get(item.name, 0)
        if not isinstance(value, np.ndarray | float):
            continue
        array = np.asarray(value)
        require(array.shape[:axes] == (n,) * axes, f"memory.{item.name} has shape {array.shape} for {n} clients")
        marks = axes and not np.isfinite(item.metadata["fill"])
        if array.dtype.kind == "f" and not marks and not first.get(item.name, False):
            require(np.isfinite(array).all(), f"memory.{item.name} is not finite")


def unknown_at_first(registrar: Registrar) -> dict[str, bool]:
    """Shared values that begin as NaN; LongFed's distances mark pairs that never met, TiFL's credits may be endless."""
    held = registrar.state.arrays()
    marked = {name: bool(a.dtype.kind == "f" and not np.isfinite(a).all()) for name, a in held.items()}
    return {**marked, "distance": True, "credits": True}


def check_carry(carry: Any, record: Mapping[str, Any], t: int, counters: Mapping[str, int]) -> None:
    """The round went by once, the model is finite, counters and costs only grow."""
    require(record["round"] == t and carry.registrar.index == t + 1, "a round was counted twice or not at all")
    require(np.isfinite(carry.params).all(), "the model is not finite")
    require(all(np.isfinite(a).all() for a in carry.server_state.values()), "the server's state is not finite")
    require(np.isfinite(carry.clock) and carry.clock >= 0, "the clock is not finite")
    now = carry.registrar.counters
    require(all(now[name] >= counters[name] for name in counters), "a counter went back")
    gone = now["rejected"] - counters["rejected"]
    require(gone >= len(record.get("rejected") or {}), "fewer rows were counted as rejected than are recorded")
    answered = record["cohort"] if record["answered"] is None else record["answered"]
    require(set(answered) <= set(record["cohort"]), "somebody answered who was not chosen")
    require(all(value >= 0 for value in record["bytes"].values()), "bytes below zero")
