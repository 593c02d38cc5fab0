"""Checks of what a method declares: hyper-parameters, state and notes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from sortition.core import InputError, Registrar, Selector, SortitionError, State
from sortition.testing.play import BUDGET, ROUNDS, instances, play, share_of, turns
from sortition.testing.violation import ContractError, require
from sortition.testing.worlds import ScriptedWorld


def parameters_read(cls: type[Selector[Any]]) -> None:
    """Every hyper-parameter is read."""
    names = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    read: set[str] = set()

    class Spied(cls):  # type: ignore[valid-type,misc]
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            return object.__getattribute__(self, name)

    world = ScriptedWorld(16)  # few, so that a warm-up that meets everybody once comes to its end
    for selector in instances(cls):
        twin = cls.load(**selector.parameters())
        registrar = Registrar(twin, world.population, horizon=ROUNDS)
        for one in (twin, registrar.selector):  # the same one, unless the method has optional facts
            object.__setattr__(one, "__class__", Spied)
        twin.init(world.n_clients, np.random.default_rng(0))
        list(turns(registrar, world, ROUNDS, BUDGET, share_of(world, 0.6)))
        _ = twin.needs
    require(cls, names <= read, f"never reads {sorted(names - read)}; examples() may not cover it.")


def parameters_checked(cls: type[Selector[Any]]) -> None:
    """Every bad hyper-parameter raises an InputError that names it."""
    _raises(cls, {"no_such_parameter": 1}, "no_such_parameter")
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        for wrong in (object(), float("nan"), "no such value", -(10**9)):
            if isinstance(wrong, str | int) and _accepts(cls, {item.name: wrong}):
                continue  # a free text, or a number without bounds
            _raises(cls, {item.name: wrong}, f"{cls.__name__}.{item.name}")


def _accepts(cls: type[Selector[Any]], parameters: dict[str, Any]) -> bool:
    try:
        cls.load(**parameters)
    except SortitionError:
        return False
    return True


def _raises(cls: type[Selector[Any]], parameters: dict[str, Any], named: str) -> None:
    try:
        cls.load(**parameters)
    except InputError as error:
        require(cls, named in str(error), f"does not name {named!r} in its error: {error}")
    except Exception as error:
        raise ContractError(
            f"{cls.__name__} answers {parameters} with {type(error).__name__}, not with an InputError."
        ) from error
    else:
        raise ContractError(f"{cls.__name__} accepts {parameters}.")


def plain_data(cls: type[Selector[Any]]) -> None:
    """Parameters are frozen, the state declares its axes, and notes are plain data."""
    world = ScriptedWorld()
    for selector in instances(cls):
        for name in selector.parameters():
            try:
                setattr(selector, name, None)
            except dataclasses.FrozenInstanceError:
                continue
            raise ContractError(f"{cls.__name__} lets its parameter {name!r} be changed.")
        state = selector.init(10, np.random.default_rng(0))
        require(cls, isinstance(state, State), "has a state that is not a State.")
        undeclared = {item.name for item in dataclasses.fields(state)} - set(state.axes()) - {"n_clients"}
        require(cls, not undeclared, f"has state without declared axes: {sorted(undeclared)}.")
        for cohort in play(selector, world, ROUNDS, budget=BUDGET, available=share_of(world, 0.6)):
            json.dumps(dict(cohort.notes))
