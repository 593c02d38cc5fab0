"""Keeps a selection over the rounds: begin a turn, finish it, save, resume, take in newcomers.

A turn works on a copy of the state, which becomes the registrar's own when the turn finishes. So an abandoned turn
leaves no trace, a save during an open turn stores what was before it, and a replay of the round repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sortition.core import snapshot
from sortition.core.arrays import Array, Ids, as_ids, strangers
from sortition.core.errors import StorageError, UndeclaredError, bad, unknown
from sortition.core.guards import Guards
from sortition.core.intake import Answers, sift
from sortition.core.questions import Feedback, Measure, Reading
from sortition.core.rounds import Population, Round, check_cohort
from sortition.core.selector import Selector
from sortition.core.signals import Signal
from sortition.core.state import State
from sortition.core.streams import stream
from sortition.core.turn import Turn
from sortition.core.witness import Witness


class Registrar:
    """Keeps one selector's state over the rounds of one federation, and nothing else: the caller owns all I/O.

    Args:
        selector: the method.
        population: static facts of the clients.
        horizon: how many rounds there will be, where known.
        seed: of all the selector's draws.
        guards: how far clients are trusted; default: no honest client notices.
        witness: is told of every turn, such as an audit log.
    """

    def __init__(
        self,
        selector: Selector[Any],
        population: Population,
        *,
        horizon: int | None = None,
        seed: int = 0,
        guards: Guards | None = None,
        witness: Witness | None = None,
    ) -> None:
        if not isinstance(selector, Selector):
            raise bad("Registrar.selector", "a Selector", selector, "Make one with sortition.selectors.load(name).")
        if horizon is not None and (isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1):
            raise bad("Registrar.horizon", "a whole number ≥ 1 or None", horizon)
        self.guards = Guards() if guards is None else guards
        if not isinstance(self.guards, Guards):
            raise bad("Registrar.guards", "a Guards", guards)
        self.selector, self.horizon, self.seed, self.witness = selector, horizon, seed, witness
        self.needs = selector.needs
        self.owner = type(selector).__name__
        self.index = 0
        self.counters = {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._open: Turn | None = None
        self._adopt(population)
        self.quarantined = np.zeros(population.n_clients, np.int64)
        self.state: State = selector.init(population.n_clients, stream(seed, "initial state"))

    def _adopt(self, population: Population) -> None:
        self.population = population
        self._view = population.disclose(self.needs.reads, self.owner)

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
        if self._open is not None:
            self._open.open = False
        round = Round(self.index, self.horizon, ids, budget, self._view, stream(self.seed, "selection", self.index))
        self._open = Turn(self, self.state.copy(), round if ids.size else None, self.index)
        if self.witness is not None:
            self.witness.begun(self._open, ids, int(budget))
        return self._open

    def finish(
        self,
        turn: Turn,
        ids: npt.ArrayLike | None = None,
        reports: Mapping[str, Answers | npt.ArrayLike] | None = None,
    ) -> None:
        """Close the round: who completed (default: the cohort), and what they reported.

        Args:
            turn: what :meth:`begin` gave.
            ids: members of the cohort whose updates arrived.
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
        """
        if turn._registrar is not self:
            raise bad("finish(turn)", "a turn of this registrar", "a turn of another one")
        if turn is not self._open:
            self.count("duplicate" if turn.index < self.index else "stale")
            return
        if turn.cohort is None:
            raise bad("finish(turn)", "a turn whose questions are answered", "one with an open question")
        done = turn.cohort.ids if ids is None else as_ids("finish(ids)", ids)
        outside = strangers(done, np.sort(turn.cohort.ids))
        if outside.size:
            raise bad("finish(ids)", "members of the cohort", f"client {int(outside[0])}")
        readings = {name: self._report(turn, name, done, rows) for name, rows in (reports or {}).items()}
        if turn.round is not None:
            self.selector.observe(turn.state, Feedback(turn.round, turn.cohort, done, readings))
        self.state, self._open, turn.open = turn.state, None, False
        for client in turn.rejected:
            self.quarantined[client] += 1
        self.index += 1
        if self.witness is not None:
            self.witness.finished(turn, done, reports or {})

    def _report(self, turn: Turn, name: str, done: Ids, rows: Answers | npt.ArrayLike) -> Reading:
        signal = next((s for s in self.needs.reports if s.name == name), None)
        if signal is None:
            raise unknown("report", name, [s.name for s in self.needs.reports], f"{self.owner}.needs.reports")
        if not isinstance(rows, Reading | Mapping):
            rows = Reading(done, np.asarray(rows))
        reading, rejected = sift(signal, rows, done, self.shapes.get(name))
        self.reject(turn, signal, reading, rejected)
        return reading

    # -- what a turn tells ----------------------------------------------------------------------------------------

    def check_question(self, question: object, round: Round) -> Measure:
        """The question, if the method declared it and the clients are there to be asked."""
        if not isinstance(question, Measure):
            raise bad(f"{self.owner}.select", "a generator that yields Measure", question)
        if question.signal not in self.needs.asks:
            raise UndeclaredError(
                f"{self.owner} asked for {question.signal.name!r}, which its needs.asks do not declare."
            )
        outside = strangers(question.ids, round.available)
        if outside.size:
            raise bad(f"{self.owner}'s question", "to available clients", f"client {int(outside[0])}")
        if question.after is not None:
            check_cohort(question.after, round, f"{self.owner}'s rehearsal")
        return question

    def reject(self, turn: Turn, signal: Signal, reading: Reading, rejected: Mapping[int, str]) -> None:
        """Count unsound rows, and remember the shape of sound ones."""
        self.counters["rejected"] += len(rejected)
        turn.rejected.update({client: f"{signal.name}: {reason}" for client, reason in rejected.items()})
        if len(reading) and signal.of != "pairs":
            self.shapes.setdefault(signal.name, reading.values.shape[1:])

    def count(self, what: str) -> None:
        """One more late, duplicate or stale message."""
        self.counters[what] += 1

    # -- clients join; the server stops and goes on ----------------------------------------------------------------

    def join(self, population: Population) -> None:
        """Go on with a larger (or better known) population; ids never shift. An open turn is abandoned."""
        if population.n_clients < self.population.n_clients:
            raise bad("join(population)", f"of at least {self.population.n_clients} clients", population.n_clients)
        if self._open is not None:
            self._open.open, self._open = False, None
        self._adopt(population)
        self.state.grow(population.n_clients)
        self.quarantined = np.pad(self.quarantined, (0, population.n_clients - self.quarantined.size))
        if self.witness is not None:
            self.witness.joined(population)

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything that the next round depends on, as named arrays and a JSON-able header."""
        arrays = {f"state.{name}": value for name, value in self.state.arrays().items()}
        arrays["quarantined"] = self.quarantined
        header = {
            "selector": self.owner,
            "parameters": {name: str(value) for name, value in self.selector.parameters().items()},
            "seed": int(self.seed),
            "horizon": self.horizon,
            "index": self.index,
            "counters": dict(self.counters),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
        }
        return arrays, header

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """Take over what :meth:`export` gave; refused, naming the difference, if it is of another selection."""
        try:
            before = {"selector": header["selector"], "seed": header["seed"], **header["parameters"]}
            now = self.export()[1]
            if changed := snapshot.difference(
                before, {"selector": self.owner, "seed": now["seed"], **now["parameters"]}
            ):
                raise StorageError(f"Snapshot is of another selection: {changed}.")
            state = type(self.state).restored(
                {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
            )
            if state.n_clients > self.population.n_clients:
                raise StorageError(
                    f"Snapshot is of {state.n_clients} clients, more than the population's {self.population.n_clients}."
                )
            state.grow(self.population.n_clients)
            quarantined = np.zeros(self.population.n_clients, np.int64)
            quarantined[: arrays["quarantined"].size] = arrays["quarantined"]
            counters = {name: int(header["counters"][name]) for name in self.counters}
            shapes = {name: tuple(int(n) for n in shape) for name, shape in header["shapes"].items()}
            index = int(header["index"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(f"Snapshot is incomplete: {error!r}.") from None
        self.state, self.quarantined, self.counters, self.shapes, self.index = (
            state,
            quarantined,
            counters,
            shapes,
            index,
        )
        self._open = None
        return self

    def save(self, path: str | Path) -> None:
        """Write a snapshot, atomically; of an open turn, what was before it."""
        snapshot.save(path, *self.export())

    @classmethod
    def load(
        cls, path: str | Path, selector: Selector[Any], population: Population, *, horizon: int | None = None
    ) -> Registrar:
        """Go on from a snapshot with the same selector; ``horizon`` defaults to the saved one."""
        arrays, header = snapshot.load(path)
        if not isinstance(header.get("seed"), int):
            raise StorageError(f"{path} is not a registrar's snapshot: it has no seed.")
        horizon = header.get("horizon") if horizon is None else horizon
        return cls(selector, population, horizon=horizon, seed=header["seed"]).restore(arrays, header)
