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

from sortition.core import Cohort, Selector
from sortition.testing.play import BUDGET, ROUNDS, play, share_of
from sortition.testing.worlds import ScriptedWorld

REMEDY = "Draw from round.rng, and keep memory in the state alone."
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)
MAKERS = {"default_rng": np.random.default_rng, "RandomState": np.random.RandomState, "Random": random.Random}
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL")
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
MEMORY = (list, dict, set, bytearray, np.ndarray, int, float, str, type(None))  # values that a function may change


def outside_sources(selector: Selector[Any]) -> list[str]:
    """What is outside, one sentence each that follows the method's name; empty for a method that keeps the contract.

    Global generators are left as they were.
    """
    values = dict(_looked_up(type(selector)))
    before, states = _pickled(values), _global_states()
    try:
        first, second, other_seed = (_cohorts(selector, seed) for seed in (0, 0, 1))
        drawn = [name for name, state in _global_states().items() if repr(state) != repr(states[name])]
    finally:
        _restore(states)
    repeats = same_cohorts(first, second)
    # cohorts of another seed that are the same: no generator is made from round.rng
    generators = _generators(values, made=not repeats or same_cohorts(first, other_seed))
    after = _pickled(dict(_looked_up(type(selector))))
    changed = [name for name in before if before[name] != after.get(name)]
    found = []
    if drawn:
        found.append(f"drew from a global random generator ({', '.join(drawn)}). Draw from round.rng.")
    if generators:
        found.append(f"has a random generator of its own ({', '.join(generators)}). Draw from round.rng.")
    if changed:
        found.append(f"keeps memory outside its state ({', '.join(changed)}), which all runs share. {REMEDY}")
    if not found and not repeats:
        found.append(f"chose other clients under the same seed. {REMEDY}")
    return found


def _generators(values: Mapping[str, Any], *, made: bool) -> list[str]:
    """The names of generators among some values; with ``made`` also those under which a method makes some."""
    held = [name for name, value in values.items() if isinstance(value, GENERATORS)]
    makers = [name for name, value in values.items() if any(value is maker for maker in MAKERS.values())]
    return [*held, *makers] if made else held


def _cohorts(selector: Selector[Any], seed: int) -> list[Cohort]:
    world = ScriptedWorld()
    return play(selector, world, ROUNDS, budget=BUDGET, available=share_of(world, 0.5), seed=seed)


def same_cohorts(a: list[Cohort], b: list[Cohort]) -> bool:
    """Whether two runs chose the same clients with the same weights."""
    return len(a) == len(b) and all(
        np.array_equal(x.ids, y.ids) and np.array_equal(x.weights, y.weights) for x, y in zip(a, b, strict=True)
    )


def _looked_up(cls: type) -> Iterator[tuple[str, Any]]:
    """Names and values that the functions of a class and of its file look up, and the class's own attributes."""
    own = [base for base in cls.__mro__ if base.__module__.partition(".")[0] != "sortition" and base is not object]
    waiting: list[FunctionType] = []
    for base in own:
        for name, value in vars(base).items():
            function = _function(value)
            if function is not None:
                waiting.append(function)
            elif not name.startswith("__") and name not in ("cite", "scales", "isolates"):
                yield f"{base.__name__}.{name}", value
    seen: set[int] = set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen or (function.__module__ or "").partition(".")[0] in ("sortition", "numpy"):
            continue
        seen.add(id(function))
        for name, value in _found_by(function):
            if isinstance(value, FunctionType):
                waiting.append(value)
            else:
                yield name, value


def _function(value: Any) -> FunctionType | None:
    """The function behind a method, a property, a class or static method."""
    for inner in (getattr(value, "__func__", None), getattr(value, "fget", None), value):
        unwrapped = inspect.unwrap(inner) if callable(inner) else None
        if isinstance(unwrapped, FunctionType):
            return unwrapped
    return None


def _found_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function finds under the names of its code: in its closure, among its globals, in numpy and random."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for name in sorted(set(_names(function.__code__, GLOBAL))):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name in sorted(set(_names(function.__code__, ATTRIBUTE)) & MAKERS.keys()):
        yield name, MAKERS[name]


def _names(code: CodeType, instructions: tuple[str, ...]) -> Iterator[str]:
    """The names that code, and the code within it, looks up by some instructions: ``rng`` is not ``round.rng``."""
    yield from (str(one.argval) for one in dis.get_instructions(code) if one.opname in instructions)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant, instructions)


def _pickled(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Numbers, texts and containers as bytes, so that a change is seen; those that cannot be stored are left out."""
    stored = {}
    for name, value in values.items():
        if not isinstance(value, MEMORY):
            continue
        with suppress(Exception):  # whatever an object's own __reduce__ raises
            stored[name] = pickle.dumps(value)
    return stored


def _global_states() -> dict[str, Any]:
    """The states of the global generators, torch's only where it is in use."""
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": np.random.get_state()}  # noqa: NPY002
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


def _restore(states: Mapping[str, Any]) -> None:
    random.setstate(states["random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.frombuffer(bytearray(states["torch"]), dtype=torch.uint8))
