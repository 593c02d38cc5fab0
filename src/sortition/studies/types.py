"""The types of a study: what ``compare``, ``run``, ``simulate`` and ``study`` take, and what tables hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Required, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from sortition.core.arrays import Ids
from sortition.core.selector import Selector
from sortition.data.load import DataObject
from sortition.data.partitions import Partition

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from sortition.aggregation import ServerRule
    from sortition.core.cost import Until
    from sortition.core.guards.settings import Guards
    from sortition.core.policy import Policy
    from sortition.federation.pace import Pace
    from sortition.learning.rule import LocalRule
    from sortition.learning.task import TaskRule
    from sortition.privacy import Promises
    from sortition.simulation import Devices, Faults, Habits
    from sortition.simulation.attacks import Attacks
    from sortition.studies.runs.callback import Callback
    from sortition.studies.runs.progress import Progress

# -- tables and documents -------------------------------------------------------------------------------------------

TomlTable = dict[str, Any]
"""A table of a study's file: a key leads to any value of TOML."""

ReadOnlyTable = Mapping[str, Any]
"""The same, where it is only read."""

AnySelector = Selector[Any]
"""A method, whatever its state is."""

SelectorClass = type[Selector[Any]]
"""The class of a method."""


class RunSummary(TypedDict, total=False):
    """How a run ended, as in summary.json; empty for a run that was stopped or failed.

    Attributes:
        status: "done".
        rounds: how many rounds were played.
        figures: the standard figures, such as ``final-accuracy``; None where a run has no such figure.
        totals: what all rounds cost together, by kind.
        clock: simulated seconds.
        audit: number of entries and last hash of the audit log.
    """

    status: str
    rounds: int
    figures: Mapping[str, float | None]
    totals: Mapping[str, float]
    clock: float
    audit: Mapping[str, int | str]


# -- what Python code gives -----------------------------------------------------------------------------------------


class TraceFrame(Protocol):
    """A table with named columns, such as a polars or pandas frame."""

    @property
    def columns(self) -> Iterable[str]:
        """Return the names of the columns."""

    def __getitem__(self, column: str, /) -> Iterable[object]:
        """Return the values of one column."""


MethodLike = str | ReadOnlyTable | AnySelector | SelectorClass
"""A name, an import path, a table as in a study's file, an instance or a class."""

MethodsLike = MethodLike | Iterable[MethodLike]

DataLike = str | Path | ReadOnlyTable | DataObject
"""A name or file, a table, ``(x, y)`` with or without a test set, ``{client: (x, y)}`` or a torch Dataset."""

ClientsLike = int | ArrayLike
"""How many clients there are; or, beside ``(x, y)``, the client of each example."""

PartitionRule = Callable[[Ids, int, np.random.Generator], Sequence[ArrayLike]]
"""A function ``(labels, clients, rng)`` that returns the rows of each client."""

PartitionLike = str | Path | ReadOnlyTable | Partition | Sequence[ArrayLike] | PartitionRule
"""A name or file, a table, a Partition, the rows of each client, or a function that returns them."""

AvailabilityRule = Callable[[int, int, np.random.Generator], ArrayLike]
"""A function ``(t, clients, rng)`` that returns a mask of the clients that can be reached in round t."""

AvailabilityLike = str | ReadOnlyTable | ArrayLike | TraceFrame | AvailabilityRule
"""A name, a table, a 0/1 matrix (rounds, clients), a frame with a trace, or a function."""

ModelLike: TypeAlias = "str | ReadOnlyTable | Module | Callable[..., Module]"
"""A name, a table, a torch module, or a function of ``inputs`` and ``classes`` that makes one."""

LossFunction: TypeAlias = "Callable[[Tensor, Tensor], Tensor]"
"""A function ``(outputs, targets)`` that returns the mean loss of a batch."""

MetricFunction: TypeAlias = "Callable[[Tensor, Tensor], object]"
"""A function ``(outputs, targets)`` that returns a number for a set of examples."""

LocalLike: TypeAlias = "ReadOnlyTable | LocalRule"
"""How a client trains: a table as in a study's file, or the rule."""


class StudyOptions(TypedDict, total=False):
    """The keys of a study's file that ``compare``, ``run`` and ``simulate`` take as they are; see docs/studies.md."""

    title: str
    task: ReadOnlyTable | TaskRule
    server: ReadOnlyTable | ServerRule
    devices: ReadOnlyTable | Devices
    pace: ReadOnlyTable | Pace
    guards: ReadOnlyTable | Guards
    policy: ReadOnlyTable | Policy | Sequence[ReadOnlyTable | Policy]
    habits: ReadOnlyTable | Habits
    owners: int
    faults: ReadOnlyTable | Faults
    attacks: ReadOnlyTable | Attacks
    shadow: Sequence[str | ReadOnlyTable]
    privacy: ReadOnlyTable | Promises
    target: ReadOnlyTable
    until: ReadOnlyTable | Until
    evaluate_every: int
    clients_every: int
    stop_at_target: bool
    audit: bool
    device: str
    engine: str
    precision: str
    setting: Sequence[ReadOnlyTable]
    cost: str
    all_pairs: bool
    track: str | ReadOnlyTable | Sequence[str | ReadOnlyTable]
    lockstep: bool


class FederationOptions(StudyOptions, total=False):
    """The options of ``simulate``: those of ``compare`` that describe the federation."""

    data: Required[DataLike]
    clients: ClientsLike | None
    partition: PartitionLike | None
    model: ModelLike
    availability: AvailabilityLike
    local: LocalLike | None
    loss: str | LossFunction | None
    metric: str | MetricFunction | None
    higher_is_better: bool | None
    rounds: int | None
    cohort: int


class CompareOptions(FederationOptions, total=False):
    """The options of ``run``: all of ``compare``."""

    seeds: int | Sequence[int]
    sweep: ReadOnlyTable | None
    margin: float
    baseline: str
    callbacks: Sequence[Callback]
    out: str | Path | None
    jobs: int | None
    on: str | None
    progress: bool | Progress
