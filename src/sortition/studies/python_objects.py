"""Objects that Python code gave to a study, each under a name that a configuration can hold.

A study is plain text, so that it can be stored, compared and resumed. An array, a function or a class is registered
here under ``sortition.studies.python_objects:<kind>_<digest>``: an import path like any other, which this process can
resolve. The digest covers what the object is, so that a run is never resumed on another one.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from sortition.core.errors import InputError
from sortition.results.object_names import GIVEN_IN_PYTHON

PLAIN_TYPES = (str, int, float, bool, bytes, np.generic, np.ndarray, type(None))
DIGEST_IN_NAME = 16  # characters of the digest that stand in an object's name


@dataclass(frozen=True)
class RegisteredObject:
    """An object that Python code gave to a study.

    Attributes:
        value: the object itself.
        digest: SHA-256 of what the object is.
    """

    value: Any
    digest: str


_registry: dict[str, RegisteredObject] = {}


def register(kind: str, value: object, digest: str = "") -> str:
    """Register an object, and return the import path under which a study can name it."""
    digest = digest or fingerprint(value)
    name = f"{kind}_{digest[:DIGEST_IN_NAME]}"
    _registry[name] = RegisteredObject(value=value, digest=digest)
    return GIVEN_IN_PYTHON + name


def __getattr__(name: str) -> Any:
    """Return the object under a name; only a process that was given it has it."""
    if name.startswith("__") or name not in _registry:
        raise AttributeError(f"{name} was given from Python, and not to this process; run it from there")
    return _registry[name].value


def fingerprints(table: Mapping[str, object]) -> dict[str, str]:
    """Return the SHA-256 of every object that a run's table names, by dotted key."""
    digests: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            digests |= {f"{key}.{inner_key}": digest for inner_key, digest in fingerprints(value).items()}
        elif isinstance(value, str) and value.startswith(GIVEN_IN_PYTHON):
            name = value.removeprefix(GIVEN_IN_PYTHON)
            if name in _registry:
                digests[key] = _registry[name].digest
            else:
                digests[key] = name.rpartition("_")[2]
    return digests


def registered_objects() -> dict[str, RegisteredObject]:
    """Return all registered objects by name, to be sent to other processes."""
    return dict(_registry)


def receive(objects: Mapping[str, RegisteredObject]) -> None:
    """Register the objects that another process sent."""
    _registry.update(objects)


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Forget, at the end of the block, the objects that were registered inside it."""
    names_at_start = set(_registry)
    try:
        yield
    finally:
        for name in set(_registry) - names_at_start:
            del _registry[name]


def first_that_cannot_be_sent(others: Mapping[str, object]) -> str:
    """Return the first object, registered or of ``others``, that no other process can get, and why; else nothing."""
    objects = [(_spoken_name(name, entry.value), entry.value) for name, entry in _registry.items()]
    for name, value in [*objects, *others.items()]:
        try:
            pickled = pickle.dumps(value)
        except Exception as error:  # whatever an object's own __reduce__ raises
            return f"{name}: {' '.join(str(error).split()) or type(error).__name__}"
        if b"__main__" in pickled or not _importable(value):
            return f"{name}: it is defined in a script or notebook"
    return ""


def _spoken_name(registered_name: str, value: object) -> str:
    """Return what a user calls a registered object: its kind, and the name of the class or function."""
    kind = registered_name.rpartition("_")[0]
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{kind} {value.__qualname__}"
    return f"{kind} {type(value).__qualname__}"


def _importable(value: object) -> bool:
    """Tell whether another process finds the module that defines a class, a function or an object's class."""
    if inspect.isclass(value) or inspect.isfunction(value):
        module = sys.modules.get(value.__module__)
    else:
        module = sys.modules.get(type(value).__module__)
    return module is None or module.__spec__ is not None


def fingerprint(value: object) -> str:
    """Return the SHA-256 of an object: the numbers of arrays and modules, the code of functions and classes."""
    sha256 = hashlib.sha256()
    for part in _parts(value, frozenset()):
        sha256.update(len(part).to_bytes(8, "little") + part)
    return sha256.hexdigest()


def _parts(value: object, enclosing: frozenset[int]) -> Iterator[bytes]:
    """Yield the bytes that make an object what it is; ``enclosing`` are the ids of the objects around it."""
    if id(value) in enclosing:
        return
    yield type(value).__qualname__.encode()
    if value is None or isinstance(value, str | int | float | bool | bytes | np.generic):
        yield repr(value).encode()
        return
    enclosing = enclosing | {id(value)}
    if isinstance(value, np.ndarray):
        little_endian = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        yield f"{little_endian.dtype.str} {little_endian.shape}".encode()
        yield little_endian.tobytes()
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _parts(key, enclosing)
            yield from _parts(value[key], enclosing)
    elif isinstance(value, set | frozenset):
        for item in sorted(value, key=repr):  # sets have no order
            yield from _parts(item, enclosing)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item, enclosing)
    elif inspect.isfunction(value):
        yield from _function_parts(value, enclosing)
    elif inspect.isclass(value):
        yield _source(value, enclosing)
    else:
        yield from _instance_parts(value, enclosing)


def _function_parts(function: FunctionType, enclosing: frozenset[int]) -> Iterator[bytes]:
    """Yield byte code, constants, defaults and the values that a function uses; where it was written does not count."""
    used_names: list[str] = []
    yield from _code_parts(function.__code__, used_names, enclosing)
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    yield from _parts([function.__defaults__, function.__kwdefaults__, closure], enclosing)
    for name in sorted({name for name in used_names if name in function.__globals__}):
        value = function.__globals__[name]
        is_neighbour = inspect.isfunction(value) and value.__module__ == function.__module__
        if isinstance(value, PLAIN_TYPES) or is_neighbour:
            yield from _parts([name, value], enclosing)


def _code_parts(code: CodeType, used_names: list[str], enclosing: frozenset[int]) -> Iterator[bytes]:
    """Yield instructions and constants, also of the code inside; the names that it looks up go to ``used_names``."""
    used_names += code.co_names
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _code_parts(constant, used_names, enclosing)
        else:
            yield from _parts(constant, enclosing)


def _source(cls: type, enclosing: frozenset[int]) -> bytes:
    try:
        return inspect.getsource(cls).encode()
    except (OSError, TypeError):  # written at a prompt: the code of its methods remains
        methods = {name: item for name, item in vars(cls).items() if inspect.isfunction(item)}
        return b"".join(_parts(methods, enclosing | {id(cls)}))


def _instance_parts(value: Any, enclosing: frozenset[int]) -> Iterator[bytes]:
    """Yield the class of an object, then a tensor's or module's numbers, or the attributes of any other object."""
    yield _source(type(value), enclosing)
    if hasattr(value, "state_dict"):
        state = {name: tensor.detach().cpu().numpy() for name, tensor in value.state_dict().items()}
        yield from _parts({"layers": str(value), **state}, enclosing)
    elif hasattr(value, "detach"):
        yield from _parts(value.detach().cpu().numpy(), enclosing)
    elif attributes := getattr(value, "__dict__", None):
        yield from _parts(attributes, enclosing)
    else:
        try:
            yield pickle.dumps(value)
        except Exception as error:
            raise InputError(f"{type(value).__name__} must be an object that can be hashed; got {error}.") from None
