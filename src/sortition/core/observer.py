"""Who may look on while a selection is made: an observer sees all that goes into a registrar and all that comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy.typing as npt

from sortition.core.arrays import Ids
from sortition.core.guards.screening import Answers
from sortition.core.questions import Measure
from sortition.core.rounds import Population

if TYPE_CHECKING:
    from sortition.core.turn import Turn

Reports = Mapping[str, Answers | npt.ArrayLike]


class Observer(Protocol):
    """Is told of a turn as it goes; answers and reports are seen as they arrived, before they are sifted.

    A turn that is abandoned is never finished: what was told of it is void once the next one begins.
    """

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """A turn began among these clients; its first question or its cohort is there."""
        ...

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """A question was answered; the next one, or the cohort, is not there yet."""
        ...

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """The turn is closed: who completed, and what they reported."""
        ...

    def joined(self, population: Population) -> None:
        """The registrar goes on with a larger or better known population."""
        ...
