"""Checks of what a method declares: hyper-parameters, state and notes."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from sortition.core import InputError, Registrar, SortitionError, State
from sortition.core.selector import AnySelector
from sortition.testing.play import BUDGET, ROUNDS, instances, play, share_of, turns
from sortition.testing.violation import ContractError, require
from sortition.testing.worlds import ScriptedWorld


def parameters_read(cls: type[AnySelector]) -> None:
    """Every hyper-parameter is read."""
    parameters = {item.name for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    names_read: set[str] = set()

    class Spied(cls):  # type: ignore[valid-type,misc]
        def __getattribute__(self, name: str) -> object:
            if name in parameters:
                names_read.add(name)
            return object.__getattribute__(self, name)

    world = ScriptedWorld(16)  # few, so that a warm-up that meets everybody once comes to its end
    for selector in instances(cls):
        twin = cls.load(**selector.parameters())
        registrar = Registrar(twin, world.population, horizon=ROUNDS)
        for spied in (twin, registrar.selector):  # the same one, unless the method has optional facts
            object.__setattr__(spied, "__class__", Spied)
        twin.init(world.n_clients, np.random.default_rng(0))
        list(turns(registrar, world, rounds=ROUNDS, budget=BUDGET, available=share_of(world, 0.6)))
        _ = twin.needs
    require(
        cls, parameters <= names_read, f"never reads {sorted(parameters - names_read)}; examples() may not cover it."
    )


def parameters_checked(cls: type[AnySelector]) -> None:
    """Every bad hyper-parameter raises an InputError that names it."""
    _check_refused(cls, "no_such_parameter", 1, message_names="no_such_parameter")
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        for wrong_value in (object(), float("nan"), "no such value", -(10**9)):
            if isinstance(wrong_value, str | int) and _accepts(cls, item.name, wrong_value):
                continue  # a free text, or a number without bounds
            _check_refused(cls, item.name, wrong_value, message_names=f"{cls.__name__}.{item.name}")


def _accepts(cls: type[AnySelector], parameter: str, value: object) -> bool:
    """Tell whether a method takes this value of a parameter."""
    try:
        cls.load(**{parameter: value})
    except SortitionError:
        return False
    return True


def _check_refused(cls: type[AnySelector], parameter: str, value: object, *, message_names: str) -> None:
    """Require that a method refuses this value with an InputError whose message has this name."""
    try:
        cls.load(**{parameter: value})
    except InputError as error:
        require(cls, message_names in str(error), f"does not name {message_names!r} in its error: {error}")
    except Exception as error:
        kind = type(error).__name__
        raise ContractError(
            f"{cls.__name__} answers { {parameter: value} } with {kind}, not with an InputError."
        ) from error
    else:
        raise ContractError(f"{cls.__name__} accepts { {parameter: value} }.")


def plain_data(cls: type[AnySelector]) -> None:
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
