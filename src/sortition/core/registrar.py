"""Keeps a selection over the rounds: begin a turn, finish it, let clients join, save, resume.

A turn works on a copy of the state, which becomes the registrar's own when the turn finishes. So an abandoned turn
leaves no trace, a save during an open turn stores what was before it, and a replay of the round repeats it. A turn
whose cohort was dispatched is in flight: clients may join meanwhile, and only ``finish`` or ``give_up`` ends it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sortition.core import registrar_snapshot
from sortition.core.arrays import Array, Ids, as_ids, not_among
from sortition.core.errors import bad
from sortition.core.guards.eligibility import Admission, Eligibility
from sortition.core.guards.lengths import Lengths
from sortition.core.guards.screening import is_compared
from sortition.core.guards.settings import Guards
from sortition.core.observer import Observer, Reports, check_observer
from sortition.core.one_thread import OneThread
from sortition.core.questions import Feedback, Reading
from sortition.core.rounds import Population, Round
from sortition.core.selector import Needs, Selector, resolved_for
from sortition.core.signals import ModelSize
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.streams import stream
from sortition.core.turn import Turn, TurnContext
from sortition.core.validation import is_whole

WHO = "A registrar and its turns"


class Registrar:
    """Keeps one selector's state over the rounds of one federation, and nothing else: the caller owns all I/O.

    Args:
        selector: the method.
        population: static facts of the clients.
        horizon: how many rounds there will be, where known.
        seed: of all the selector's draws.
        guards: how far clients are trusted; default: no honest client notices.
        observer: sees every turn; an audit log is one.
        model: how long the model's vectors are; without it the length that most clients send counts.

    Call it, and the turns that it gives, from one thread at a time; a second thread is refused.
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
        model: ModelSize | None = None,
    ) -> None:
        if not isinstance(selector, Selector):
            raise bad("Registrar.selector", "a Selector", selector, "Make one with sortition.selectors.load(name).")
        if not isinstance(population, Population):
            raise bad("Registrar.population", "a Population", population, "Make one with Population(sizes).")
        if horizon is not None and not is_whole(horizon, 1):
            raise bad("Registrar.horizon", "a whole number ≥ 1 or None", horizon)
        check_observer("Registrar.observer", observer)
        self.guards = Guards() if guards is None else guards
        if not isinstance(self.guards, Guards):
            raise bad("Registrar.guards", "a Guards", guards)
        self.horizon = None if horizon is None else int(horizon)
        self.seed = seed
        self.observer = observer
        self._unresolved, self.selector = selector, resolved_for(selector, population)
        self.owner = type(selector).__name__
        self.index = 0
        self.counters = {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._model, self.lengths = model, self._lengths_of(model, population.n_clients)
        self._open: Turn | None = None
        self._thread = OneThread(WHO)
        self._selection = object()  # by which a turn is recognised as one of this registrar
        self.eligibility = Eligibility(self.guards, population, self._remembered_signals())
        self.population, self._view = population, self._disclosed(population, self.eligibility)
        self.state: State = self.selector.init(population.n_clients, stream(seed, "initial state"))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds: like a snapshot, what was before an open turn; observers stay behind."""
        attributes = self.__dict__.copy()
        for name in ("_open", "_thread", "_selection", "observer"):
            del attributes[name]
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self.observer = None
        self._open = None
        self._thread = OneThread(WHO)
        self._selection = object()

    def __copy__(self) -> Self:
        """An independent registrar: two that share their memory would spoil each other's."""
        return copy.deepcopy(self)

    @property
    def needs(self) -> Needs:
        """What the method, as it was resolved, reads, asks and wants reported."""
        return self.selector.needs

    def _lengths_of(self, model: ModelSize | None, n_clients: int) -> Lengths:
        return Lengths((*self.needs.asks, *self.needs.reports), model, n_clients)

    def _remembered_signals(self) -> list[str]:
        """The signals of which the guards may remember how long clients' rows are."""
        signals = (*self.needs.asks, *self.needs.reports)
        return list(dict.fromkeys(signal.name for signal in signals if is_compared(signal)))

    def _disclosed(self, population: Population, eligibility: Eligibility) -> Population:
        """What the selector sees of a population."""
        return population.disclose(self.needs.reads, self.owner, eligibility.shown)

    @property
    def quarantined(self) -> Array:
        """(N,) rounds in which each client sent something unsound."""
        return self.eligibility.strikes

    def count(self, what: str) -> None:
        """One more late, duplicate or stale message."""
        self.counters[what] += 1

    # -- one round ------------------------------------------------------------------------------------------------

    def begin(self, available: npt.ArrayLike, budget: int, excluded: Mapping[str, npt.ArrayLike] | None = None) -> Turn:
        """Start this round's selection.

        Args:
            available: clients that can be reached, sorted.
            budget: places of the cohort.
            excluded: those of them that a policy leaves out, by the key of the rule; the selector does not see them.

        An earlier turn that is still open is abandoned without a trace, unless it is in flight: then this is refused.
        """
        with self._thread.inside():
            self._refuse_in_flight("begin")
            ids = as_ids("available", available, ordered=True).copy()  # the caller keeps his own
            left_out = {rule: as_ids("excluded", clients).copy() for rule, clients in (excluded or {}).items()}
            return self._begin(ids, budget, left_out)

    def _begin(self, ids: Ids, budget: int, excluded: Mapping[str, Ids]) -> Turn:
        self._check_known(ids)
        eligible = _without(ids, excluded)
        rng = stream(self.seed, "selection", self.index)
        round = Round(self.index, self.horizon, ids, budget, self._view, rng)
        admitted = self.eligibility.admit(eligible, int(budget), self.index, self.seed)
        if admitted.ids is not ids:
            round = replace(round, available=admitted.ids)
        self._abandon()
        context, played = self._context(ids, admitted, excluded), round if admitted.ids.size else None
        turn = self._open = Turn(context, self.state.copy(), played, admitted.notes)
        turn.scales = self.eligibility.remembered_scales(self.index)
        if self.observer is not None:
            self.observer.begun(turn, ids, int(budget))
        return turn

    def _check_known(self, ids: Ids) -> None:
        people = self.population
        if ids.size and ids[-1] >= people.n_clients:
            raise bad("available", f"ids below {people.n_clients}", int(ids[-1]), "Newcomers enter with join().")
        if self.needs.reads and not people.knows(ids):
            raise bad("available", "known clients", "clients whose facts are missing", f"{self.owner} reads them.")

    def _context(self, available: Ids, admitted: Admission, excluded: Mapping[str, Ids]) -> TurnContext:
        return TurnContext(
            selection=self._selection,
            selector=self.selector,
            guards=self.guards,
            seed=self.seed,
            index=self.index,
            shapes=self.lengths.in_force(self.shapes),
            longest=self.lengths.longest,
            available=available,
            excluded=excluded,
            kept_out=admitted.kept_out,
            just_come=admitted.just_come,
            scale=self._scale,
            capped=self.eligibility.capped,
            reweighted=self.eligibility.reweighted,
            observer=self.observer,
            late=lambda: self.count("late"),
            thread=self._thread,
        )

    def _scale(self, name: str) -> float | None:
        """How long the rows of a signal usually are, as remembered now."""
        scales = self.eligibility.scales
        return None if scales is None else scales.scale(name, self.index)

    def dispatch(self, turn: Turn) -> None:
        """Put the cohort in flight: its members are at work, so that no other turn may begin before this one ends."""
        with self._thread.inside():
            if turn is not self._open:
                raise bad("dispatch(turn)", "the turn that is open", "a turn that has ended")
            if turn.cohort is None:
                raise bad("dispatch(turn)", "a turn whose questions are answered", "one with an open question")
            turn.in_flight = True

    def give_up(self, turn: Turn) -> None:
        """End a turn without a trace, in flight or not: nobody's update counts, and the round can be played anew."""
        with self._thread.inside():
            if turn is self._open:
                self._abandon()

    def _refuse_in_flight(self, what: str) -> None:
        if self._open is not None and self._open.in_flight:
            hint = "Call finish(turn) with those who answered, or give_up(turn)."
            raise bad(what, "called when no round is in flight", f"a call during round {self.index}", hint)

    def finish(self, turn: Turn, ids: npt.ArrayLike | None = None, reports: Reports | None = None) -> Ids:
        """Close the round; returned are those whose updates may be aggregated: nobody, if fewer than the minimum.

        Args:
            turn: what :meth:`begin` gave.
            ids: members of the cohort whose updates arrived (default: all).
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
        """
        if not isinstance(turn, Turn):
            raise bad("finish(turn)", "what begin() gave", turn)
        with self._thread.inside():
            return self._finish(turn, ids, reports)

    def _finish(self, turn: Turn, ids: npt.ArrayLike | None, reports: Reports | None) -> Ids:
        if turn is not self._open:
            return self._not_open(turn)
        if turn.cohort is None:
            raise bad("finish(turn)", "a turn whose questions are answered", "one with an open question")
        done = turn.cohort.ids if ids is None else as_ids("finish(ids)", ids)
        outside = not_among(done, np.sort(turn.cohort.ids))
        if outside.size:
            raise bad("finish(ids)", "members of the cohort", f"client {int(outside[0])}")
        readings, usable = turn.reports(done, {} if reports is None else reports), done
        if done.size < min(self.guards.minimum, turn.cohort.ids.size):
            turn.guarded["too_few_completed"] = int(done.size)
            usable, readings = done[:0], dict.fromkeys(readings, Reading.empty())
        if turn.round is not None:
            self.selector.observe(turn.state, Feedback(turn.round, turn.cohort, usable, readings, self.owner))
        self._take_over(turn, usable)
        turn.usable = usable
        if self.observer is not None:
            self._tell_finished(self.observer, turn, done, reports or {})
        return usable

    @staticmethod
    def _tell_finished(observer: Observer, turn: Turn, done: Ids, reports: Reports) -> None:
        """Tell the observer; one that raises cannot undo the round, and its error says where the usable ids are."""
        try:
            observer.finished(turn, done, reports)
        except Exception as error:
            error.add_note(f"Round {turn.index} is finished all the same: turn.usable holds whose updates may be used.")
            raise

    def _not_open(self, turn: Turn) -> Ids:
        """Count a turn that was finished before, or abandoned; nobody's update counts."""
        if turn.selection is not self._selection:
            raise bad("finish(turn)", "a turn of this registrar", "a turn of another one")
        self.count("duplicate" if turn.index < self.index else "stale")
        return np.empty(0, np.int64)

    def _take_over(self, turn: Turn, used: Ids) -> None:
        """What the turn changed becomes the registrar's own, and the next round begins."""
        turn.close()
        turn.state.grow(self.population.n_clients)  # clients may have joined since it began
        self.state, self.shapes, self._open = turn.state, turn.shapes, None
        for what, count in turn.counters.items():
            self.counters[what] += count
        if turn.cohort is not None:
            self.eligibility.record(turn.available, turn.cohort.ids, used)
        self.eligibility.remember(turn.sent_norms(), self.index)
        overturned = self.lengths.vote(turn.votes, self.shapes)
        self.eligibility.blame(turn.strikes(overturned), self.index)
        self._forget(overturned)
        if overturned:
            turn.guarded["overturned"] = overturned
        self.index += 1

    def _forget(self, changed: Mapping[str, int]) -> None:
        """Where vectors have another length now, what was learnt from the others is of no use."""
        self.shapes = {**self.shapes, **{name: (length,) for name, length in changed.items()}}
        if changed:
            self.state = self.selector.init(self.population.n_clients, stream(self.seed, "initial state"))

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.close(abandoned=True)
            self._open = None

    # -- clients join; the server stops and goes on ----------------------------------------------------------------

    def join(self, population: Population) -> None:
        """Go on with a larger (or better known) population; ids never shift.

        An open turn goes on among those who were there when it began. A population that is refused leaves the registrar
        as it was.
        """
        if not isinstance(population, Population):
            raise bad("join(population)", "a Population", population)
        with self._thread.inside():
            self._join(population)

    def _join(self, population: Population) -> None:
        population.check_successor_of(self.population)
        eligibility = self.eligibility.grown(population)
        view, state = self._disclosed(population, eligibility), self.state.copy()
        state.grow(population.n_clients)
        self.population, self._view, self.eligibility, self.state = population, view, eligibility, state
        self.lengths = self.lengths.grown(population.n_clients)
        if self.observer is not None:
            self.observer.joined(population)

    def resize(self, model: ModelSize) -> None:
        """Go on with a model of another size; memory of vectors whose length changes is lost.

        An open turn is abandoned; while one is in flight, this is refused.
        """
        if model == self._model:
            return
        with self._thread.inside():
            self._refuse_in_flight("resize")
            lengths = self.lengths.resized(self._lengths_of(model, self.population.n_clients))
            self._abandon()
            self._model, self.lengths = model, lengths
            self._forget(self.lengths.other_than(self.shapes))

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything that the next round depends on, as named arrays and a JSON-able header."""
        with self._thread.inside():
            return registrar_snapshot.export(self)

    def options(self) -> dict[str, Any]:
        """Which optional facts the selection has used from its first round on."""
        wanted = self._unresolved.needs.optional
        return {"optional": [name for name in wanted if name in self.needs.reads]} if wanted else {}

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """Take over what :meth:`export` gave, refused if of another selection; another model acts as :meth:`resize`."""
        with self._thread.inside():
            twin = self._resolved_as(registrar_snapshot.optional(header, self._unresolved.needs))
            found = registrar_snapshot.parse(arrays, header, twin)  # what follows cannot be refused
            self.selector, self._view = twin.selector, twin._view
            self.state, self.counters, self.shapes, self.index = found.state, found.counters, found.shapes, found.index
            self.eligibility, self.lengths = found.eligibility, found.lengths
            self._abandon()
            self._forget(self.lengths.other_than(self.shapes))
        return self

    def _resolved_as(self, facts: list[str] | None) -> Registrar:
        """A registrar that uses the optional facts of a saved selection, whatever else is known by now."""
        if facts is None or facts == self.options().get("optional"):
            return self
        settings: dict[str, Any] = {"horizon": self.horizon, "seed": self.seed, "guards": self.guards}
        return Registrar(self._unresolved.resolved(facts), self.population, model=self._model, **settings)

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
        model: ModelSize | None = None,
    ) -> Registrar:
        """Go on from a snapshot; horizon and guards default to its own, another model acts as :meth:`resize`."""
        arrays, header = snapshot.load(path)
        seed, saved_horizon, saved_guards = registrar_snapshot.settings(header, path)
        horizon = saved_horizon if horizon is None else horizon
        guards = saved_guards if guards is None else guards
        return cls(selector, population, horizon=horizon, seed=seed, guards=guards, model=model).restore(arrays, header)


def _without(available: Ids, excluded: Mapping[str, Ids]) -> Ids:
    """The available clients without those that a policy leaves out."""
    if not excluded:
        return available
    left_out = np.concatenate(list(excluded.values()))
    outside = not_among(left_out, available)
    if outside.size:
        raise bad("begin(excluded)", "clients that are available", f"client {int(outside[0])}")
    return available[np.isin(available, left_out, invert=True)]
