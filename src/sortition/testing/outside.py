"""What a method's choices depend on beside its state and ``round.rng``: other generators, and memory outside the state.

A method that draws elsewhere cannot be repeated or resumed, and one that remembers elsewhere mixes the runs of a
process. Neither raises anything. They are found by reading which names the method's functions look up, and by playing
the same rounds twice in a scripted world.
"""

from __future__ import annotations

import dis
import inspect
import pickle
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from sortition.core import Cohort
from sortition.core.selector import AnySelector
from sortition.testing.play import BUDGET, ROUNDS, play, share_of
from sortition.testing.worlds import ScriptedWorld

REMEDY = "Draw from round.rng, and keep memory in the state alone."
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
GENERATOR_MAKERS = {"default_rng": np.random.default_rng, "RandomState": np.random.RandomState, "Random": random.Random}
GLOBAL_INSTRUCTIONS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
ATTRIBUTE_INSTRUCTIONS = ("LOAD_ATTR", "LOAD_METHOD")
MEMORY_TYPES = (
    list,
    dict,
    set,
    bytearray,
    np.ndarray,
    int,
    float,
    str,
    type(None),
)  # values that a function may change


def outside_sources(selector: AnySelector, memory_at_first: Mapping[str, bytes] | None = None) -> list[str]:
    """Say what is outside, one sentence each that follows the method's name; nothing if it keeps the contract.

    Memory is compared with ``memory_at_first``, or with what it is now: give what :func:`stored_memory` returned before
    the method was played for the first time. Global generators are left as they were.
    """
    values = dict(_names_looked_up(type(selector)))
    if memory_at_first is None:
        memory_at_first = _pickled(values)
    states_at_first = _global_states()
    try:
        first = _cohorts(selector, seed=0)
        second = _cohorts(selector, seed=0)
        other_seed = _cohorts(selector, seed=1)
        used_global = [name for name, state in _global_states().items() if repr(state) != repr(states_at_first[name])]
    finally:
        _restore(states_at_first)
    repeats = same_cohorts(first, second)
    # cohorts of another seed that are the same: no generator is made from round.rng
    makes_its_own = not repeats or same_cohorts(first, other_seed)
    generators = _generators(values, with_makers=makes_its_own)
    memory_at_last = stored_memory(type(selector))
    changed = [name for name, stored in memory_at_first.items() if stored != memory_at_last.get(name)]
    sentences = []
    if used_global:
        sentences.append(f"drew from a global random generator ({', '.join(used_global)}). Draw from round.rng.")
    if generators:
        sentences.append(f"has a random generator of its own ({', '.join(generators)}). Draw from round.rng.")
    if changed:
        sentences.append(f"keeps memory outside its state ({', '.join(changed)}), which all runs share. {REMEDY}")
    if not sentences and not repeats:
        sentences.append(f"chose other clients under the same seed. {REMEDY}")
    return sentences


def stored_memory(cls: type[AnySelector]) -> dict[str, bytes]:
    """Return the values outside the state that a method's functions look up and may change, as bytes by name."""
    return _pickled(dict(_names_looked_up(cls)))


def _generators(values: Mapping[str, object], *, with_makers: bool) -> list[str]:
    """List the names of generators among some values; with ``with_makers`` also of what makes generators."""
    names = [name for name, value in values.items() if isinstance(value, GENERATORS)]
    if with_makers:
        names += [name for name, value in values.items() if any(value is maker for maker in GENERATOR_MAKERS.values())]
    return names


def _cohorts(selector: AnySelector, seed: int) -> list[Cohort]:
    """Play a run and return its cohorts."""
    world = ScriptedWorld()
    return play(selector, world, ROUNDS, budget=BUDGET, available=share_of(world, 0.5), seed=seed)


def same_cohorts(a: list[Cohort], b: list[Cohort]) -> bool:
    """Tell whether two runs chose the same clients with the same weights."""
    if len(a) != len(b):
        return False
    return all(
        np.array_equal(cohort.ids, twin.ids) and np.array_equal(cohort.weights, twin.weights)
        for cohort, twin in zip(a, b, strict=True)
    )


def _names_looked_up(cls: type) -> Iterator[tuple[str, object]]:
    """Give names and values that the functions of a class and of its file look up, and the class's own attributes."""
    authors_classes = [base for base in cls.__mro__ if _package_of(base) != "sortition" and base is not object]
    waiting: list[FunctionType] = []
    for base in authors_classes:
        for name, value in vars(base).items():
            function = _function_behind(value)
            if function is not None:
                waiting.append(function)
            elif not name.startswith("__") and name not in ("cite", "scales", "can_isolate_a_client"):
                yield f"{base.__name__}.{name}", value
    looked_at: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in looked_at or _package_of(function) in ("sortition", "numpy"):
            continue
        looked_at.add(id(function))
        for name, value in _names_and_values(function):
            if isinstance(value, FunctionType):
                waiting.append(value)
            else:
                yield name, value


def _package_of(definition: type | FunctionType) -> str:
    """Return the name of the package that defines a class or function."""
    return (definition.__module__ or "").partition(".")[0]


def _function_behind(value: object) -> FunctionType | None:
    """Return the function behind a method, a property, a class or static method; None where there is none."""
    for inner in (getattr(value, "__func__", None), getattr(value, "fget", None), value):
        if not callable(inner):
            continue
        unwrapped = inspect.unwrap(inner)
        if isinstance(unwrapped, FunctionType):
            return unwrapped
    return None


def _names_and_values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Give what a function finds under the names in its code: in its closure, its globals, in numpy and random."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for name in sorted(set(_names_in_code(function.__code__, GLOBAL_INSTRUCTIONS))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name in sorted(set(_names_in_code(function.__code__, ATTRIBUTE_INSTRUCTIONS)) & GENERATOR_MAKERS.keys()):
        yield name, GENERATOR_MAKERS[name]


def _names_in_code(code: CodeType, instructions: tuple[str, ...]) -> Iterator[str]:
    """Give the names that code, and the code within it, looks up by some instructions: ``rng`` is not ``round.rng``."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in instructions:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_code(constant, instructions)


def _pickled(values: Mapping[str, object]) -> dict[str, bytes]:
    """Store numbers, texts and containers as bytes, so that a change is seen; leave out what cannot be stored."""
    stored = {}
    for name, value in values.items():
        if not isinstance(value, MEMORY_TYPES):
            continue
        with suppress(Exception):  # whatever an object's own __reduce__ raises
            stored[name] = pickle.dumps(value)
    return stored


def _global_states() -> dict[str, Any]:
    """Return the states of the global generators, torch's only where it is in use."""
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": np.random.get_state()}  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def _restore(states: Mapping[str, Any]) -> None:
    """Set the global generators to these states."""
    random.setstate(states["random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
