"""The contract: a selector is frozen parameters, declared needs, and one function that chooses and may ask."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from types import FunctionType
from typing import Any, ClassVar, Generic, Literal, NoReturn, TypeAlias, TypeVar, cast, dataclass_transform, get_args

import numpy as np
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from sortition.core.cohort import Cohort, Round
from sortition.core.errors import InputError, bad, unknown
from sortition.core.population import Population, check_names
from sortition.core.questions import Feedback, Measure, Reading
from sortition.core.signals import Signal
from sortition.core.state import State
from sortition.core.validation import translate_error

S = TypeVar("S", bound=State)
C = TypeVar("C", bound=type)

Sampling: TypeAlias = Literal["poisson", "without-replacement", "full"]
Asking = Generator[Measure, Reading, Cohort]
Choice = Cohort | Asking


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method wants to know: enforced, metered and printed. The privacy label.

    Attributes:
        reads: static facts of the population (``sizes``, ``label_counts``, ``features``, ``groups``, or your own).
        asks: signals that it may ask for during ``select``; a client that cannot answer them cannot take part.
        may_ask: signals that it also asks for, of those clients that can answer them; it does without where nobody can.
        reports: signals that the cohort sends back with its updates, or that the server computes from them.
        may_report: signals that may be among its reports once it is resolved; they are part of its label, and nobody is
            kept out for them.
        horizon: whether it needs to know how many rounds there will be.
        optional: facts that it uses where all known clients give them; see :meth:`Selector.resolve`.
    """

    reads: tuple[str, ...] = ()
    asks: tuple[Signal, ...] = ()
    reports: tuple[Signal, ...] = ()
    horizon: bool = False
    optional: tuple[str, ...] = ()
    may_ask: tuple[Signal, ...] = ()
    may_report: tuple[Signal, ...] = ()

    def __post_init__(self) -> None:
        for name, kind, rule in (
            ("reads", str, "a tuple of names, such as ('sizes',)"),
            ("optional", str, "a tuple of names, such as ('speed',)"),
            ("asks", Signal, "a tuple of signals, such as (LOSS,)"),
            ("may_ask", Signal, "a tuple of signals, such as (RESOURCES,)"),
            ("reports", Signal, "a tuple of signals, such as (TRAINING_LOSS,)"),
            ("may_report", Signal, "a tuple of signals, such as (UPDATE,)"),
        ):
            values = getattr(self, name)
            if not isinstance(values, tuple | list) or not all(isinstance(value, kind) for value in values):
                raise bad(f"Needs.{name}", rule, values)
        check_names((*self.reads, *self.optional), "Needs.reads: Population")
        for signal in self.questions:
            if signal.of == "server":
                hint = "What the server computes itself is in reports."
                raise bad("Needs.asks", "of signals of clients", signal.name, hint)

    @property
    def questions(self) -> tuple[Signal, ...]:
        """All signals that it may ask for during ``select``."""
        return (*self.asks, *self.may_ask)

    @property
    def of_server(self) -> tuple[Signal, ...]:
        """The signals that the server answers itself."""
        return tuple(signal for signal in self.reports if signal.of == "server")

    @property
    def individual(self) -> bool:
        """Whether single clients' updates must be visible, which rules secure aggregation out."""
        return any(signal.exact for signal in (*self.questions, *self.reports, *self.may_report))


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known of a federation before its first round, beside its clients' facts.

    Attributes:
        deadline: seconds after which the server no longer waits for a cohort; None where it waits for everybody, or
            where nobody knows them yet.
        devices_differ: whether some clients are faster than others; None where nobody knows.
        deadline_follows: whether the deadline follows the durations of the trainings so far.
    """

    deadline: float | None = None
    devices_differ: bool | None = None
    deadline_follows: bool = False


class Selector(ABC, Generic[S]):
    """A client-selection method. Subclasses are final and decorated with :func:`method`.

    Class attributes:
        memory: the type of its state.
        cite: BibTeX of the paper.
        scales: False if time or memory per round grows faster than the number of clients.
        counts_rounds: True if it reads ``round.index`` as the number of a round (cool-downs, rehearsals, a horizon): it
            is refused where selections are more than steps.
        can_isolate_a_client: False if cohorts are unions of fixed groups, so that no combination of their sums isolates
            a client.
        sampling: how clients are drawn, where that is a scheme for which accountants of differential privacy have a
            bound: "poisson" (each independently, with one probability), "without-replacement" (each set of the cohort's
            size is equally likely) or "full" (everybody); None for all other methods.
    """

    memory: ClassVar[type[State]] = State
    cite: ClassVar[str] = ""
    scales: ClassVar[bool] = True
    counts_rounds: ClassVar[bool] = False
    can_isolate_a_client: ClassVar[bool] = True
    sampling: ClassVar[Sampling | None] = None

    def __init__(self) -> None:
        """Refuse a class without the decorator, which gives every other one an ``__init__`` of its own."""
        raise undecorated_error(type(self))

    @property
    def needs(self) -> Needs:
        """What it reads, asks and wants reported; nothing unless said."""
        return Needs()

    def resolve(self, facts: Collection[str]) -> Selector[S]:
        """Return the same method for a federation that gives these of its ``needs.optional``.

        The registrar resolves its selector once, before the first round; what was resolved stands in snapshots, records
        and audit logs, and a federation that is resumed keeps it. So ``needs`` of what is returned have no options.
        """
        return self

    def remarks(self, conditions: Conditions) -> tuple[str, ...]:
        """Return sentences on what a reader should know of the method here, such as that a rule of it is idle."""
        return ()

    def init(self, n_clients: int, rng: np.random.Generator) -> S:
        """Return the state before the first round."""
        return cast(S, self.memory(n_clients))

    @abstractmethod
    def select(self, state: S, round: Round) -> Choice:
        """Choose from ``round.available``: return a Cohort, or yield questions first and return it then."""

    def observe(self, state: S, feedback: Feedback) -> None:
        """Learn from what came back of the round; clients that did not answer are absent from it."""

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return parameters that together cover the variants; the contract is checked on each."""
        return [{}]

    @classmethod
    def load(cls, **parameters: Any) -> AnySelector:
        """Make an instance with these parameters; an unknown name is refused, with the nearest known one."""
        if not is_dataclass(cls):
            raise undecorated_error(cls)
        known_names = [item.name for item in fields(cls)]
        for name in parameters:
            if name not in known_names:
                raise unknown("parameter", name, known_names, cls.__name__)
        return cls(**parameters)

    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {item.name: getattr(self, item.name) for item in fields(cast(Any, self))}


AnySelector: TypeAlias = Selector[Any]  # a method, whatever its memory


def resolve_for(selector: Selector[S], population: Population) -> Selector[S]:
    """Return the method resolved by the optional facts that all known clients of a population give."""
    return selector.resolve([name for name in selector.needs.optional if name in population.facts])


@dataclass_transform(kw_only_default=True, frozen_default=True)
def method(cls: C) -> C:
    """Turn a Selector class into a frozen dataclass that validates its parameters; errors have our messages."""
    _check_declaration(cls)
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
    frozen_class = pydantic_dataclass(frozen=True, kw_only=True, config=config)(cls)
    initialise: Callable[..., None] = frozen_class.__init__

    @functools.wraps(initialise)
    def initialise_with_our_errors(self: object, *args: object, **parameters: object) -> None:
        try:
            initialise(self, *args, **parameters)
        except ValidationError as error:
            names = [item.name for item in fields(frozen_class)]
            raise translate_error(error, cls.__name__, known=names) from None

    frozen_class.__init__ = initialise_with_our_errors  # type: ignore[method-assign]
    frozen_class.__setattr__ = _refuse_to_set  # type: ignore[method-assign]
    return cast(C, frozen_class)


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    """Refuse to set an attribute of a method, and say where its memory belongs."""
    hint = "What a method remembers belongs in its memory, a State: it is saved, resumed and kept apart for every run."
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be set: a method is frozen. {hint}")


def undecorated_error(cls: type) -> InputError:
    """Make the error for a Selector class without :func:`method`."""
    return bad(
        cls.__name__, "decorated with @method", "a plain class", "Write @method above it: from sortition import method."
    )


def _check_declaration(cls: type) -> None:
    """Refuse a class that is no Selector, has a memory that is no State, or needs that are no property."""
    if not (isinstance(cls, type) and issubclass(cls, Selector)):
        raise bad("@method", "above a class that derives from Selector", cls)
    _check_memory(cls)
    if isinstance(inspect.getattr_static(cls, "needs"), FunctionType):
        raise bad(f"{cls.__name__}.needs", "a property", "a function", "Write @property above it.")


def _check_memory(cls: type[AnySelector]) -> None:
    """Refuse a memory that is no State, no dataclass, or another one than ``Selector[…]`` names."""
    memory = cls.memory
    attribute = f"{cls.__name__}.memory"
    if not (isinstance(memory, type) and issubclass(memory, State)):
        hint = "Write class Memory(State), then memory = Memory."
        raise bad(attribute, "a class that derives from State", memory, hint)
    if vars(memory).get("__annotations__") and "__dataclass_fields__" not in vars(memory):
        raise bad(attribute, "a dataclass", memory, f"Write @dataclass above {memory.__name__}.")
    for base in vars(cls).get("__orig_bases__", ()):
        for argument in get_args(base):
            if isinstance(argument, type) and not issubclass(memory, argument):
                name = argument.__name__
                raise bad(attribute, f"{name}, as Selector[{name}] says", memory, f"Write memory = {name}.")
