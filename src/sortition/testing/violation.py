"""What a check raises when a method breaks the contract."""

from __future__ import annotations

from typing import Any

from sortition.core import Selector, SortitionError


class ContractError(SortitionError):
    """A method does not keep the contract."""


def require(cls: type[Selector[Any]], holds: bool, message: str) -> None:
    """Raise :class:`ContractError` with the class's name and the message unless it holds."""
    if not holds:
        raise ContractError(f"{cls.__name__} {message}")
