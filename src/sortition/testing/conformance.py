"""The contract of a selector, as checks that anybody can run: ``check_selector(MyMethod)``.

Each check plays the method in scripted worlds over the class's ``examples()`` and says in one sentence what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

from sortition.core import Selector
from sortition.core.errors import bad
from sortition.core.selector import undecorated
from sortition.testing.alignment import aligned_answers
from sortition.testing.cost import scales
from sortition.testing.declaration_checks import parameters_checked, parameters_read, plain_data
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
from sortition.testing.violation import ContractError

Check = Callable[[type[Selector[Any]]], None]
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


def check_selector(make: type[Selector[Any]] | Callable[[], Selector[Any]]) -> None:
    """Raise :class:`ContractError` with a sentence at the first point of the contract that a method breaks."""
    for _, check in contract(make):
        check()


def contract(make: type[Selector[Any]] | Callable[[], Selector[Any]]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The points of the contract, each a name and a function to call."""
    cls = make if isinstance(make, type) else type(make()) if callable(make) else None
    if cls is None or not issubclass(cls, Selector):
        raise bad("check_selector", "given a Selector class, or a function that makes one", make)
    if not is_dataclass(cls):
        raise undecorated(cls)
    for check in CHECKS:
        yield (check.__doc__ or check.__name__).strip().rstrip("."), _guarded(check, cls)


def _guarded(check: Check, cls: type[Selector[Any]]) -> Callable[[], None]:
    def run() -> None:
        try:
            check(cls)
        except ContractError:
            raise
        except Exception as error:
            raise ContractError(
                f"{cls.__name__} breaks '{(check.__doc__ or '').strip()}': {type(error).__name__}: {error}"
            ) from error

    return run
