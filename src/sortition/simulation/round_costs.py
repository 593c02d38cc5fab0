"""What clients' work costs (examples, SGD steps, simulated seconds), and what a round cost (bytes, computing).

A number is 4 bytes. A client that already holds this round's model is not sent it twice: power-of-choice's d candidates
receive it with the question, and those selected train on it. A signal that is a part of the update (an ``exact`` one
of training) is free in a report, since the update is uploaded anyway. Wasted work counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.questions import Measure, Reading
from sortition.core.signals import BATCH_LOSS, Signal
from sortition.learning import LocalRule
from sortition.simulation.devices import FORWARD, Fleet
from sortition.simulation.holdings import Holdings

NUMBER = 4  # bytes
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


@dataclass(frozen=True)
class Costs:
    """The costs of training and of answering, for clients with their data and devices; nothing is computed for them.

    Attributes:
        rule: local training.
        trained: who trains on which examples.
        measured: who measures losses on which examples.
        fleet: the clients' devices.
        size: how many numbers the model has.
    """

    rule: LocalRule
    trained: Holdings
    measured: Holdings
    fleet: Fleet
    size: int

    def examples(self, ids: Ids) -> Ids:
        """Return on how many examples ``ids`` compute forward and backward when they train (k,)."""
        return self._examples_of_size[self._size_index[ids]]

    def steps(self, ids: Ids) -> Ids:
        """Return the SGD steps of ``ids`` in one round (k,)."""
        return self._steps_of_size[self._size_index[ids]]

    @cached_property
    def _unique_sizes(self) -> tuple[Ids, Ids]:
        """The different sizes of clients, and which of them each client has."""
        return np.unique(self.trained.sizes, return_inverse=True)

    @property
    def _size_index(self) -> Ids:
        return self._unique_sizes[1]

    @cached_property
    def _examples_of_size(self) -> Ids:
        return np.array([self.rule.examples_of(size) for size in self._unique_sizes[0].tolist()], np.int64)

    @cached_property
    def _steps_of_size(self) -> Ids:
        return np.array([self.rule.steps_of(size) for size in self._unique_sizes[0].tolist()], np.int64)

    def seconds(self, ids: Ids, t: int) -> Floats:
        """Return the time in which ``ids`` receive the model, train and answer (k,)."""
        model_bytes = NUMBER * self.size
        return self.fleet.seconds(ids, t, self.examples(ids), down=model_bytes, up=model_bytes)

    @property
    def quiet_seconds(self) -> Floats:
        """Time in which each client receives the model, trains and answers (N,), at no busy hour, without jitter."""
        fleet = self.fleet
        everybody = np.arange(fleet.n_clients)
        sending = NUMBER * self.size / fleet.bandwidth_down + NUMBER * self.size / fleet.bandwidth_up
        return np.asarray(self.examples(everybody) / fleet.speed + sending, np.float64)

    def resources(self, client: int, t: int) -> Floats:
        """Return the time (2,) in which a client trains, and in which it sends the model once."""
        n_examples = int(self.examples(np.array([client]))[0])
        return self.fleet.seconds(np.array([client, client]), t, [n_examples, 0], up=[0, NUMBER * self.size])

    def examples_read(self, signal: Signal, ids: Ids) -> Ids:
        """Return on how many examples ``ids`` compute when they answer a signal of the model (k,)."""
        if signal.backward:  # a gradient is that of the training part
            return self.trained.sizes[ids]
        sizes = self.measured.sizes[ids]
        if signal.compute is BATCH_LOSS.compute and self.rule.batch is not None:
            return np.minimum(sizes, self.rule.batch)
        return sizes

    def seconds_read(self, signal: Signal, ids: Ids, t: int) -> Floats:
        """Return the time in which ``ids`` receive the model and answer a signal of it (k,)."""
        n_bytes = NUMBER * (self.size + signal.floats_down)
        cost_of_pass = 1.0 if signal.backward else FORWARD
        return self.fleet.seconds(ids, t, cost_of_pass * self.examples_read(signal, ids), down=n_bytes)


@dataclass
class Ledger:
    """What one round cost.

    Attributes:
        size: how many numbers the model has.
        n_clients: how many clients there are.
        bytes: traffic by purpose and direction (LANES).
        passes: examples that clients computed on, by purpose; wasted ones are also counted by their purpose.
        steps: SGD steps.
        server_passes: examples of its own that the server computed on.
        uploads: updates that were sent, late ones included.
    """

    size: int
    n_clients: int
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LANES, 0))
    passes: dict[str, int] = field(default_factory=lambda: {"training": 0, "forward": 0, "wasted": 0})
    steps: int = 0
    server_passes: int = 0
    uploads: int = 0

    def __post_init__(self) -> None:
        self._has_model = np.zeros(self.n_clients, bool)
        self._has_trained = np.zeros(self.n_clients, bool)

    def _send_model(self, ids: Ids, lane: str) -> None:
        """Charge the round's model, sent to clients that do not have it yet."""
        n_receivers = int(ids.size - self._has_model[ids].sum())
        self._has_model[ids] = True
        self.bytes[lane] += NUMBER * self.size * n_receivers

    @property
    def trainings(self) -> int:
        """How many clients trained with this round's model, rehearsals aside."""
        return int(self._has_trained.sum())

    def compute(self, ids: Ids, examples: Ids, steps: Ids) -> None:
        """Charge this round's local training; a client that is asked for its result and then selected trains once."""
        trains_now = ~self._has_trained[ids]
        self._has_trained[ids] = True
        self.rehearse(examples[trains_now], steps[trains_now])

    def rehearse(self, examples: Ids, steps: Ids) -> None:
        """Charge local training that nothing else can use."""
        self.passes["training"] += int(examples.sum())
        self.steps += int(steps.sum())

    def question(self, question: Measure, answer: Reading) -> None:
        """Charge a question and its answer."""
        signal = question.signal
        rehearsal = question.after
        n_asked = question.ids.size
        if rehearsal is not None:
            self._send_model(rehearsal.ids, "rehearsals_down")
            self.bytes["rehearsals_up"] += NUMBER * self.size * rehearsal.ids.size
            self.bytes["rehearsals_down"] += NUMBER * self.size * n_asked  # the trial model, new to everybody
        elif signal.of not in ("pairs", "device"):
            self._send_model(question.ids, "questions_down")
        self.bytes["questions_down"] += NUMBER * signal.floats_down * n_asked
        self.bytes["questions_up"] += NUMBER * int(answer.values.size)

    def training(self, selected: Ids, n_answered: int, n_wasted: int) -> None:
        """Charge the model to the selected, and updates from those who answered; late or lost ones are wasted."""
        self._send_model(selected, "model_down")
        self.uploads += n_answered + n_wasted
        self.bytes["model_up"] += NUMBER * self.size * n_answered
        self.bytes["wasted_up"] += NUMBER * self.size * n_wasted

    def reports(self, signals: tuple[Signal, ...], reports: Mapping[str, Reading]) -> None:
        """Charge what the cohort reports beside its updates."""
        for signal in signals:
            is_part_of_update = signal.of == "training" and signal.exact
            if signal.of == "server" or is_part_of_update or signal.name not in reports:
                continue
            self.bytes["metadata"] += NUMBER * int(reports[signal.name].values.size)

    def facts(self, numbers: int) -> None:
        """Charge facts that clients send once."""
        self.bytes["metadata"] += NUMBER * numbers

    def added_to(self, totals: Mapping[str, int]) -> dict[str, int]:
        """Return the totals of a run with this round's costs."""
        passes = self.passes["training"] + self.passes["forward"]
        costs = {**self.bytes, "passes": passes, "steps": self.steps}
        return {name: totals[name] + cost for name, cost in costs.items()}
