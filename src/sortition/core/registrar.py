"""Keeps a selection over the rounds: begin a turn, finish it, save, resume, take in newcomers.

A turn works on a copy of the state, which becomes the registrar's own when the turn finishes. So an abandoned turn
leaves no trace, a save during an open turn stores what was before it, and a replay of the round repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Ids, as_array, as_ids, not_among
from sortition.core.errors import InputError, StorageError, UndeclaredError, bad, unknown
from sortition.core.facts import LARGEST
from sortition.core.guards.eligibility import Eligibility
from sortition.core.guards.screening import Answers, screen, winsorised
from sortition.core.guards.settings import Guards
from sortition.core.observer import Observer
from sortition.core.questions import Feedback, Measure, Reading
from sortition.core.rounds import Population, Round, check_cohort
from sortition.core.selector import Selector
from sortition.core.signals import Signal
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.streams import stream
from sortition.core.turn import Turn

Sifted = tuple[Reading, dict[int, str]]  # sound rows, and who sent an unsound one


class Registrar:
    """Keeps one selector's state over the rounds of one federation, and nothing else: the caller owns all I/O.

    Args:
        selector: the method.
        population: static facts of the clients.
        horizon: how many rounds there will be, where known.
        seed: of all the selector's draws.
        guards: how far clients are trusted; default: no honest client notices.
        observer: is told of every turn, such as an audit log.
    """

    def __init__(
        self,
        selector: Selector[Any],
        population: Population,
        *,
        horizon: int | None = None,
        seed: int = 0,
        guards: Guards | None = None,
        observer: Observer | None = None,
    ) -> None:
        if not isinstance(selector, Selector):
            raise bad("Registrar.selector", "a Selector", selector, "Make one with sortition.selectors.load(name).")
        if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1):
            raise bad("Registrar.horizon", "a whole number ≥ 1 or None", horizon)
        self.guards = Guards() if guards is None else guards
        if not isinstance(self.guards, Guards):
            raise bad("Registrar.guards", "a Guards", guards)
        self.selector, self.horizon, self.seed, self.observer = selector, horizon, seed, observer
        self.needs = selector.needs
        self.owner = type(selector).__name__
        self.index = 0
        self.counters = {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._open: Turn | None = None
        self.eligibility = Eligibility(self.guards, population)
        self._adopt(population)
        self.state: State = selector.init(population.n_clients, stream(seed, "initial state"))

    def _adopt(self, population: Population) -> None:
        self.population = population
        self._view = population.disclose(self.needs.reads, self.owner, self.eligibility.shown)

    # -- one round ------------------------------------------------------------------------------------------------

    def begin(self, available: npt.ArrayLike, budget: int) -> Turn:
        """Start this round's selection; an earlier turn that is still open is abandoned without a trace."""
        ids = as_ids("available", available, ordered=True)
        if ids.size and ids[-1] >= self.population.n_clients:
            raise bad(
                "available", f"ids below {self.population.n_clients}", int(ids[-1]), "Newcomers enter with join()."
            )
        if self.needs.reads and not self.population.knows(ids):
            raise bad("available", "known clients", "clients whose facts are missing", f"{self.owner} reads them.")
        rng = stream(self.seed, "selection", self.index)
        round = Round(self.index, self.horizon, ids, budget, self._view, rng)
        eligible, guarded = self.eligibility.admit(ids, int(budget), self.index, self.seed)
        if eligible is not ids:
            round = replace(round, available=eligible)
        self._abandon()
        self._open = Turn(self, self.state.copy(), round if eligible.size else None, self.index, guarded)
        if self.observer is not None:
            self.observer.begun(self._open, ids, int(budget))
        return self._open

    def finish(
        self,
        turn: Turn,
        ids: npt.ArrayLike | None = None,
        reports: Mapping[str, Answers | npt.ArrayLike] | None = None,
    ) -> Ids:
        """Close the round; returned are those whose updates may be aggregated: nobody, if fewer than the minimum.

        Args:
            turn: what :meth:`begin` gave.
            ids: members of the cohort whose updates arrived (default: all).
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
        """
        if not isinstance(turn, Turn):
            raise bad("finish(turn)", "what begin() gave", turn)
        if turn._registrar is not self:
            raise bad("finish(turn)", "a turn of this registrar", "a turn of another one")
        if turn is not self._open:
            self.count("duplicate" if turn.index < self.index else "stale")
            return np.empty(0, np.int64)
        if turn.cohort is None:
            raise bad("finish(turn)", "a turn whose questions are answered", "one with an open question")
        done = turn.cohort.ids if ids is None else as_ids("finish(ids)", ids)
        outside = not_among(done, np.sort(turn.cohort.ids))
        if outside.size:
            raise bad("finish(ids)", "members of the cohort", f"client {int(outside[0])}")
        readings = self._reports(turn, done, {} if reports is None else reports)
        usable = done
        if done.size < min(self.guards.minimum, turn.cohort.ids.size):
            turn.guarded["too_few_completed"] = int(done.size)
            usable, readings = done[:0], {}
        if turn.round is not None:
            self.selector.observe(turn.state, Feedback(turn.round, turn.cohort, usable, readings))
        self.state, self.shapes, self._open, turn.open = turn.state, turn.shapes, None, False
        for what, count in turn.counters.items():
            self.counters[what] += count
        self.eligibility.blame(turn.rejected | turn.blamed, self.index)
        self.index += 1
        if self.observer is not None:
            self.observer.finished(turn, done, reports or {})
        return usable

    def _reports(self, turn: Turn, done: Ids, reports: Mapping[str, Answers | npt.ArrayLike]) -> dict[str, Reading]:
        """All of them are sifted before any is let in: a caller's mistake leaves the turn as it was."""
        if not isinstance(reports, Mapping):
            raise bad("finish(reports)", "a mapping from a signal's name to its rows", reports)
        known, found = {signal.name: signal for signal in self.needs.reports}, dict[Signal, Sifted]()
        for name, rows in reports.items():
            if name not in known:
                raise unknown("report", name, list(known), f"{self.owner}.needs.reports")
            given = rows if isinstance(rows, Reading | Mapping) else Reading(done, as_array(f"{name} reports", rows))
            found[known[name]] = self._sifted(turn, known[name], given, done)
        return {signal.name: self._let_in(turn, signal, *sifted) for signal, sifted in found.items()}

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.open, self._open = False, None

    # -- what a turn tells ----------------------------------------------------------------------------------------

    def check_question(self, question: object, round: Round) -> Measure:
        """The question, if the method declared it and the clients are there to be asked."""
        if not isinstance(question, Measure):
            raise bad(f"{self.owner}.select", "a generator that yields Measure", question)
        if question.signal not in self.needs.asks:
            raise UndeclaredError(
                f"{self.owner} asked for {question.signal.name!r}, which its needs.asks do not declare."
            )
        outside = not_among(question.ids, round.available)
        if outside.size:
            raise bad(f"{self.owner}'s question", "to available clients", f"client {int(outside[0])}")
        if question.after is not None:
            check_cohort(question.after, round, f"{self.owner}'s rehearsal")
        return question

    def let_in(self, turn: Turn, signal: Signal, answers: Answers, asked: Ids) -> Reading:
        """What the selector gets of an answer: sound rows, winsorised; unsound ones are counted, shapes remembered."""
        return self._let_in(turn, signal, *self._sifted(turn, signal, answers, asked))

    def _sifted(self, turn: Turn, signal: Signal, answers: Answers, asked: Ids) -> Sifted:
        return screen(signal, answers, asked, turn.shapes.get(signal.name), self.guards)

    def _let_in(self, turn: Turn, signal: Signal, reading: Reading, rejected: dict[int, str]) -> Reading:
        turn.counters["rejected"] += len(rejected)
        turn.rejected.update({client: f"{signal.name}: {reason}" for client, reason in rejected.items()})
        if len(reading) and signal.of != "pairs":
            turn.shapes.setdefault(signal.name, reading.values.shape[1:])
        if self.guards.winsorise and signal.scalar and signal.nonnegative:
            reading, clipped = winsorised(reading, self.guards.winsorise)
            if clipped:
                turn.guarded["winsorised"] = turn.guarded.get("winsorised", 0) + clipped
        return reading

    @property
    def quarantined(self) -> Array:
        """(N,) rounds in which each client sent something unsound."""
        return self.eligibility.strikes

    def count(self, what: str) -> None:
        """One more late, duplicate or stale message."""
        self.counters[what] += 1

    # -- clients join; the server stops and goes on ----------------------------------------------------------------

    def join(self, population: Population) -> None:
        """Go on with a larger (or better known) population; ids never shift. An open turn is abandoned."""
        if population.n_clients < self.population.n_clients:
            raise bad("join(population)", f"of at least {self.population.n_clients} clients", population.n_clients)
        self._abandon()
        self.eligibility.adopt(population)
        self._adopt(population)
        self.state.grow(population.n_clients)
        if self.observer is not None:
            self.observer.joined(population)

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything that the next round depends on, as named arrays and a JSON-able header."""
        arrays = {f"state.{name}": value for name, value in self.state.arrays().items()}
        arrays |= {"quarantined": self.eligibility.strikes, "until": self.eligibility.until}
        header = {
            "selector": self.owner,
            "parameters": {name: str(value) for name, value in self.selector.parameters().items()},
            "seed": int(self.seed),
            "horizon": self.horizon,
            "guards": self.guards.changed(),
            "index": self.index,
            "counters": dict(self.counters),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }
        return arrays, header

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """Take over what :meth:`export` gave; refused, naming the difference, if it is of another selection."""
        try:
            now = self.export()[1]
            before, after = (_identity(told, header.get("guards") is not None) for told in (header, now))
            if changed := snapshot.difference(before, after):
                raise StorageError(f"Snapshot is of another selection: {changed}.")
            state = type(self.state).restored(
                {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
            )
            if state.n_clients > self.population.n_clients:
                raise StorageError(
                    f"Snapshot is of {state.n_clients} clients, more than the population's {self.population.n_clients}."
                )
            state.grow(self.population.n_clients)
            strikes = _counts(arrays["quarantined"], self.population.n_clients)
            until = _counts(arrays.get("until", np.zeros(0)), self.population.n_clients)  # none before guards
            counters = {name: int(header["counters"][name]) for name in self.counters}
            shapes = {name: tuple(int(n) for n in shape) for name, shape in header["shapes"].items()}
            index = int(header["index"])
            if not 0 <= index < LARGEST:
                raise ValueError(f"round {index}")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StorageError(f"Snapshot is incomplete: {error!r}.") from None
        self.state, self.counters, self.shapes, self.index = state, counters, shapes, index
        self.eligibility.strikes, self.eligibility.until = strikes, until
        self._abandon()
        return self

    def save(self, path: str | Path) -> None:
        """Write a snapshot, atomically; of an open turn, what was before it."""
        snapshot.save(path, *self.export())

    @classmethod
    def load(
        cls,
        path: str | Path,
        selector: Selector[Any],
        population: Population,
        *,
        horizon: int | None = None,
        guards: Guards | None = None,
    ) -> Registrar:
        """Go on from a snapshot with the same selector; ``horizon`` and ``guards`` default to the saved ones."""
        arrays, header = snapshot.load(path)
        if not isinstance(header.get("seed"), int):
            raise StorageError(f"{path} is not a registrar's snapshot: it has no seed.")
        horizon = header.get("horizon") if horizon is None else horizon
        try:
            guards = Guards(**header.get("guards", {})) if guards is None else guards
        except (TypeError, InputError) as error:
            raise StorageError(f"{path} is not a registrar's snapshot: {error}") from None
        return cls(selector, population, horizon=horizon, seed=header["seed"], guards=guards).restore(arrays, header)


def _identity(header: Mapping[str, Any], guarded: bool) -> dict[str, Any]:
    """What must be the same when a selection goes on; snapshots before guards tell none."""
    guards = {f"guards.{name}": value for name, value in header["guards"].items()} if guarded else {}
    return {"selector": header["selector"], "seed": header["seed"], **header["parameters"], **guards}


def _counts(array: Array, n: int) -> Ids:
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"strikes or sentences of shape {array.shape} and type {array.dtype}")
    return np.pad(array.astype(np.int64, casting="unsafe"), (0, n - array.size))
