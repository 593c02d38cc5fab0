"""Whose code may run: names such as ``package.module:Class`` in a file import a module, and importing runs it.

Python callers, and names typed on the command line, are trusted. A file may come from somebody else: commands that read
one do so inside :func:`allow_only`, so that it can name nothing that the user did not allow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sortition.core.errors import InputError, bad


@dataclass(frozen=True)
class _Policy:
    """What files may name.

    Attributes:
        modules: modules and packages of which everything may be named.
        our_packages: packages of ours, of which only what a module defines itself may be named.
    """

    modules: tuple[str, ...]
    our_packages: tuple[str, ...]


_policy: ContextVar[_Policy | None] = ContextVar("policy", default=None)


@contextmanager
def allow_only(modules: Iterable[str], own: Iterable[str] = ()) -> Iterator[None]:
    """Allow imports by name from these modules and what is inside them, and from nowhere else, until the block ends.

    Of ``own``, packages of ours, only what a module defines itself can be named, not what it imports.
    """
    token = _policy.set(_Policy(modules=tuple(modules), our_packages=tuple(own)))
    try:
        yield
    finally:
        _policy.reset(token)


def import_named(path: str, what: str) -> Any:
    """Import what ``package.module:name`` names, if the policy allows it; ``what`` names the value in messages."""
    module, _, attribute = path.partition(":")
    policy = _policy.get()
    is_ours = policy is not None and _is_inside(module, policy.our_packages)
    if policy is not None and not is_ours and not _is_inside(module, policy.modules):
        raise InputError(
            f"{what} {path!r} would import and run code of the module {module!r}. "
            f"If you trust it, add --allow {module}."
        )
    try:
        value = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise bad(what, "importable as package.module:name", path, f"{str(error).rstrip('.')}.") from error
    if is_ours and getattr(value, "__module__", "") != module:
        raise bad(what, f"something that {module} defines", path)
    return value


def _is_inside(module: str, packages: Iterable[str]) -> bool:
    """Tell whether a module is one of these packages or inside one."""
    return any(f"{module}.".startswith(f"{package}.") for package in packages)
