"""The contract of a selector, as checks that anybody can run: ``check_selector(MyMethod)``.

Each check plays the method in scripted worlds over the class's ``examples()`` and says in one sentence what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial

from sortition.core import Selector
from sortition.core.errors import bad
from sortition.core.selector import AnySelector, undecorated_error
from sortition.testing.alignment import aligned_answers
from sortition.testing.declaration_checks import parameters_checked, parameters_read, plain_data
from sortition.testing.outside import stored_memory
from sortition.testing.selection_checks import (
    allowed_cohorts,
    growing,
    interleaved,
    known_facts,
    repeatable,
    resumable,
    ties,
    unreliable,
)
from sortition.testing.selection_cost import scales
from sortition.testing.violation import ContractError

Check = Callable[[type[AnySelector]], None]
MakesSelector = type[AnySelector] | Callable[[], AnySelector]  # a class, or a function that makes an instance
CHECKS: tuple[Check, ...] = (
    allowed_cohorts,
    ties,
    repeatable,
    interleaved,
    resumable,
    unreliable,
    aligned_answers,
    growing,
    known_facts,
    parameters_read,
    parameters_checked,
    plain_data,
    scales,
)


def check_selector(make: MakesSelector) -> None:
    """Raise :class:`ContractError` with a sentence at the first point of the contract that a method breaks."""
    for _, check in contract(make):
        check()


def contract(make: MakesSelector) -> Iterator[tuple[str, Callable[[], None]]]:
    """Give the points of the contract, each as a name and a function that checks it."""
    cls = _class_of(make)
    if not is_dataclass(cls):
        raise undecorated_error(cls)
    memory_at_first = stored_memory(cls)  # before other checks fill it: memory that is full no longer changes
    for check in CHECKS:
        rule = (check.__doc__ or check.__name__).strip().rstrip(".")
        if check is repeatable:
            yield rule, _guarded(partial(repeatable, memory_at_first=memory_at_first), rule, cls)
        else:
            yield rule, _guarded(check, rule, cls)


def _class_of(make: MakesSelector) -> type[AnySelector]:
    """Return the class that is meant."""
    cls: object = make
    if not isinstance(make, type) and callable(make):
        cls = type(make())
    if not (isinstance(cls, type) and issubclass(cls, Selector)):
        raise bad("check_selector", "given a Selector class, or a function that makes one", make)
    return cls


def _guarded(check: Check, rule: str, cls: type[AnySelector]) -> Callable[[], None]:
    """Return a function that runs a check and turns any error of the method into a ContractError."""

    def run() -> None:
        try:
            check(cls)
        except ContractError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise ContractError(f"{cls.__name__} breaks '{rule}.': {kind}: {error}") from error

    return run
