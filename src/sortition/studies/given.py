"""Objects that Python code gave to a study, each under a name that a configuration can hold.

A study is plain text, so that it can be stored, compared and resumed. An array, a function or a class is kept here
under ``sortition.studies.given:<kind>_<digest>``: an import path like any other, which this process can resolve. The
digest covers what the object is, so that a run is never resumed on another one.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType
from typing import Any

import numpy as np

from sortition.core.errors import InputError

PREFIX = f"{__name__}:"
PLAIN = (str, int, float, bool, bytes, np.generic, np.ndarray, type(None))
_held: dict[str, Any] = {}
_digests: dict[str, str] = {}


def keep(kind: str, value: Any, digest: str = "") -> str:
    """Keep an object; the import path under which a study can name it."""
    digest = digest or fingerprint(value)
    name = f"{kind}_{digest[:16]}"
    _held[name], _digests[name] = value, digest
    return PREFIX + name


def __getattr__(name: str) -> Any:
    """The object under a name; only in a process that was given it."""
    if name.startswith("__") or name not in _held:
        raise AttributeError(f"{name} was given from Python, and not to this process; run it from there")
    return _held[name]


def fingerprints(table: Mapping[str, Any]) -> dict[str, str]:
    """What of a run's table came from Python: dotted key → SHA-256 of the object."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": digest for inner, digest in fingerprints(value).items()}
        elif isinstance(value, str) and value.startswith(PREFIX):
            name = value.removeprefix(PREFIX)
            found[key] = _digests.get(name, name.rpartition("_")[2])
    return found


def objects() -> dict[str, tuple[Any, str]]:
    """All that is held, with digests, to be sent to other processes."""
    return {name: (value, _digests[name]) for name, value in _held.items()}


def hold(sent: Mapping[str, tuple[Any, str]]) -> None:
    """Take what another process sent."""
    for name, (value, digest) in sent.items():
        _held[name], _digests[name] = value, digest


@contextmanager
def lent() -> Iterator[None]:
    """Until this ends, objects are kept; then those that came meanwhile are let go."""
    before = set(_held)
    try:
        yield
    finally:
        for name in set(_held) - before:
            del _held[name], _digests[name]


def cannot_be_sent(others: Mapping[str, Any]) -> str:
    """The first object, also of ``others``, that another process cannot be given, and why; empty if all can."""
    for name, value in {**_held, **others}.items():
        try:
            sent = pickle.dumps(value)
        except Exception as error:  # whatever an object's own __reduce__ raises
            return f"{name}: {' '.join(str(error).split()) or type(error).__name__}"
        if b"__main__" in sent or not _importable(value):
            return f"{name}: it is defined in a script or notebook"
    return ""


def _importable(value: Any) -> bool:
    """Whether another process finds the module in which a class, a function or an object's class is defined."""
    owner = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    module = sys.modules.get(owner.__module__)
    return module is None or module.__spec__ is not None


def fingerprint(value: Any) -> str:
    """SHA-256 of what an object is: the numbers of arrays and modules, the code of functions, the source of classes."""
    total = hashlib.sha256()
    for part in _parts(value, set()):
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    if id(value) in seen:
        return
    yield type(value).__qualname__.encode()
    if value is None or isinstance(value, str | int | float | bool | bytes | np.generic):
        yield repr(value).encode()
        return
    seen = seen | {id(value)}
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        yield f"{little.dtype.str} {little.shape}".encode()
        yield little.tobytes()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from (part for item in (key, value[key]) for part in _parts(item, seen))
    elif isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value  # sets have no order
        yield from (part for item in ordered for part in _parts(item, seen))
    elif inspect.isfunction(value):
        yield from _function(value, seen)
    elif inspect.isclass(value):
        yield _source(value, seen)
    else:
        yield from _instance(value, seen)


def _function(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Byte code, constants, defaults and what it finds around it: where it was written does not count."""
    names = list[str]()
    yield from _code(value.__code__, names, seen)
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    yield from _parts([value.__defaults__, value.__kwdefaults__, cells], seen)
    for name in sorted({one for one in names if one in value.__globals__}):
        found = value.__globals__[name]
        if isinstance(found, PLAIN) or (inspect.isfunction(found) and found.__module__ == value.__module__):
            yield from _parts([name, found], seen)


def _code(code: CodeType, names: list[str], seen: set[int]) -> Iterator[bytes]:
    """A code's instructions and constants, those of the code within it too; ``names`` takes what it looks up."""
    names += code.co_names
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        yield from _code(constant, names, seen) if inspect.iscode(constant) else _parts(constant, seen)


def _source(value: type, seen: set[int]) -> bytes:
    try:
        return inspect.getsource(value).encode()
    except (OSError, TypeError):  # written at a prompt: the code of its methods remains
        methods = {name: item for name, item in vars(value).items() if inspect.isfunction(item)}
        return b"".join(_parts(methods, seen | {id(value)}))


def _instance(value: Any, seen: set[int]) -> Iterator[bytes]:
    """An object of some class: a tensor or module by its numbers, anything else by its attributes."""
    yield _source(type(value), seen)
    if hasattr(value, "state_dict"):
        state = {name: tensor.detach().cpu().numpy() for name, tensor in value.state_dict().items()}
        yield from _parts({"layers": str(value), **state}, seen)
    elif hasattr(value, "detach"):
        yield from _parts(value.detach().cpu().numpy(), seen)
    elif attributes := getattr(value, "__dict__", None):
        yield from _parts(attributes, seen)
    else:
        try:
            yield pickle.dumps(value)
        except Exception as error:
            raise InputError(f"{type(value).__name__} must be an object that can be hashed; got {error}.") from None
