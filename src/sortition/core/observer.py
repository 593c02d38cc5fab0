"""An observer sees everything that goes into a registrar and everything that comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy.typing as npt

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.guards.answer_screening import Answers
from sortition.core.population import Population
from sortition.core.questions import Measure

if TYPE_CHECKING:
    from sortition.core.in_flight import ServerStep
    from sortition.core.turn import Turn

Reports = Mapping[str, Answers | npt.ArrayLike]


class Observer(Protocol):
    """Follows each turn; it sees answers and reports as they arrived, before they are screened.

    An abandoned turn is never finished: what was seen of it is void once the next one begins. Where rounds do not
    overlap, a turn is begun, answered and finished; ``gave_up`` and ``stepped`` are of work that outlives a step.
    """

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """A turn began among these clients; it has its first question or its cohort."""
        ...

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """A question was answered; the turn does not yet have its next question or its cohort."""
        ...

    def finished(self, turn: Turn, completed: Ids, reports: Reports) -> None:
        """The turn is closed: who completed, and what they reported."""
        ...

    def dispatched(self, turn: Turn) -> None:
        """The turn's cohort was sent to work; ``finished`` follows where the same turn is finished next."""
        ...

    def gave_up(self, ids: Ids, reason: str) -> None:
        """The work of these clients has ended without an update."""
        ...

    def stepped(self, step: ServerStep, reports: Reports) -> None:
        """A step was made of what arrived from clients in flight."""
        ...

    def joined(self, population: Population) -> None:
        """The registrar goes on with a larger or better known population."""
        ...


def check_observer(subject: str, observer: object) -> None:
    """Refuse what is no observer, before a turn calls it; None means that nobody observes."""
    if observer is None:
        return
    for name in ("begun", "answered", "finished", "joined"):
        if not callable(getattr(observer, name, None)):
            raise bad(subject, f"an Observer, with a method {name}()", observer)


class Observers:
    """Several observers as one: each is told in turn, of what it has a method for."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """A turn began."""
        for observer in self.observers:
            observer.begun(turn, available, budget)

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """A question was answered."""
        for observer in self.observers:
            observer.answered(turn, question, answers)

    def finished(self, turn: Turn, completed: Ids, reports: Reports) -> None:
        """The turn is closed."""
        for observer in self.observers:
            observer.finished(turn, completed, reports)

    def dispatched(self, turn: Turn) -> None:
        """The turn's cohort was sent to work."""
        for observer in self.observers:
            if hasattr(observer, "dispatched"):
                observer.dispatched(turn)

    def gave_up(self, ids: Ids, reason: str) -> None:
        """The work of these clients has ended without an update."""
        for observer in self.observers:
            observer.gave_up(ids, reason)

    def stepped(self, step: ServerStep, reports: Reports) -> None:
        """A step was made of what arrived from clients in flight."""
        for observer in self.observers:
            observer.stepped(step, reports)

    def joined(self, population: Population) -> None:
        """The registrar goes on with another population."""
        for observer in self.observers:
            observer.joined(population)


def add_observer(present: Observer | None, newcomer: Observer) -> Observer:
    """Return an observer that tells whoever observes already, then the newcomer."""
    if present is None:
        return newcomer
    return Observers(present, newcomer)
