"""What a check raises when a method breaks the contract."""

from __future__ import annotations

from sortition.core import SortitionError
from sortition.core.selector import AnySelector


class ContractError(SortitionError):
    """A method does not keep the contract."""


def require(cls: type[AnySelector], holds: bool, message: str) -> None:
    """Raise :class:`ContractError` with the class's name and the message unless it holds."""
    if not holds:
        raise ContractError(f"{cls.__name__} {message}")
