"""Whose code may run: names such as ``package.module:Class`` in a file import a module, and importing runs it.

Python callers, and names typed on the command line, are trusted. A file may come from somebody else: commands that read
one do so inside :func:`only`, so that it can name nothing that the user did not allow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sortition.core.errors import InputError, bad
from sortition.moved import current


@dataclass(frozen=True)
class _Policy:
    modules: tuple[str, ...]  # everything that they hold may be named
    own: tuple[str, ...]  # only what they define themselves


_policy: ContextVar[_Policy | None] = ContextVar("policy", default=None)


@contextmanager
def only(modules: Iterable[str], own: Iterable[str] = ()) -> Iterator[None]:
    """Until this ends, nothing is imported by name but these modules and what is inside them.

    Of ``own``, packages of ours, only what a module defines itself can be named, not what it imports.
    """
    before = _policy.set(_Policy(tuple(modules), tuple(own)))
    try:
        yield
    finally:
        _policy.reset(before)


def imported(path: str, what: str) -> Any:
    """What ``package.module:name`` means, if it may be imported; names of before are understood."""
    name, _, attribute = path.partition(":")
    module, policy = current(name), _policy.get()
    own = policy is not None and _inside(module, policy.own)
    if policy is not None and not own and not _inside(module, policy.modules):
        raise InputError(
            f"{what} {path!r} would import and run code of the module {module!r}. "
            f"If you trust it, add --allow {module}."
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise bad(what, "importable as package.module:name", path, f"{str(error).rstrip('.')}.") from error
    if own and getattr(found, "__module__", "") != module:
        raise bad(what, f"something that {module} defines", path)
    return found


def _inside(module: str, packages: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)
