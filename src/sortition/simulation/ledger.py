"""What a round cost: bytes across the seam and the clients' computing, wasted work included.

A number is 4 bytes. A client that already holds this round's model is not sent it twice: power-of-choice's d candidates
receive it with the question, and those selected train on it. A signal that is a part of the update (an ``exact`` one
of training) is free in a report, since the update is uploaded anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.questions import Measure, Reading
from sortition.core.signals import Signal

NUMBER = 4
LANES = (
    "model_down",
    "model_up",
    "questions_down",
    "questions_up",
    "rehearsals_down",
    "rehearsals_up",
    "wasted_up",
    "metadata",
)


@dataclass
class Ledger:
    """One round's meter, for a model of ``size`` numbers and N clients."""

    size: int
    n_clients: int
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    passes: dict[str, int] = field(default_factory=lambda: {"training": 0, "forward": 0, "wasted": 0})
    steps: int = 0
    server_passes: int = 0  # examples of its own that the server computed on
    uploads: int = 0  # updates that were sent, late ones included

    def __post_init__(self) -> None:
        self._holding = np.zeros(self.n_clients, bool)
        self._trained = np.zeros(self.n_clients, bool)

    def _send_model(self, ids: Ids, lane: str) -> None:
        """The round's model down to those who do not hold it yet."""
        new = int(ids.size - self._holding[ids].sum())
        self._holding[ids] = True
        self.bytes[lane] += NUMBER * self.size * new

    @property
    def trainings(self) -> int:
        """How many clients trained with this round's model, rehearsals aside."""
        return int(self._trained.sum())

    def compute(self, ids: Ids, examples: Ids, steps: Ids) -> None:
        """Local training of this round; a client that was asked for a result of it and is then selected trains once."""
        new = ~self._trained[ids]
        self._trained[ids] = True
        self.rehearse(examples[new], steps[new])

    def rehearse(self, examples: Ids, steps: Ids) -> None:
        """Local training that nothing else can use."""
        self.passes["training"] += int(examples.sum())
        self.steps += int(steps.sum())

    def question(self, asked: Measure, answer: Reading) -> None:
        """A question and its answer."""
        signal, after = asked.signal, asked.after
        if after is not None:
            self._send_model(after.ids, "rehearsals_down")
            self.bytes["rehearsals_up"] += NUMBER * self.size * after.ids.size
            self.bytes["rehearsals_down"] += NUMBER * self.size * asked.ids.size  # the trial model, new to everybody
        elif signal.of not in ("pairs", "device"):
            self._send_model(asked.ids, "questions_down")
        self.bytes["questions_down"] += NUMBER * signal.floats_down * asked.ids.size
        self.bytes["questions_up"] += NUMBER * int(answer.values.size)

    def training(self, selected: Ids, answered: int, late: int) -> None:
        """The model to the selected, and back from those who answered; late answers are wasted."""
        self._send_model(selected, "model_down")
        self.uploads += answered + late
        self.bytes["model_up"] += NUMBER * self.size * answered
        self.bytes["wasted_up"] += NUMBER * self.size * late

    def reports(self, signals: tuple[Signal, ...], reports: Mapping[str, Reading]) -> None:
        """What the cohort reports beside its updates."""
        paid = [s for s in signals if s.of != "server" and not (s.of == "training" and s.exact)]
        self.bytes["metadata"] += NUMBER * sum(int(reports[s.name].values.size) for s in paid if s.name in reports)

    def facts(self, numbers: int) -> None:
        """Static facts that clients give once."""
        self.bytes["metadata"] += NUMBER * numbers

    def added_to(self, totals: Mapping[str, int]) -> dict[str, int]:
        """The totals of a run with this round's."""
        passes = self.passes["training"] + self.passes["forward"]
        own = {**self.bytes, "passes": passes, "steps": self.steps}
        return {name: totals[name] + value for name, value in own.items()}
