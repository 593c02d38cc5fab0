"""The contract of a selector, as checks that anybody can run: ``check_selector(MyMethod)``.

Each check plays the method in scripted worlds over the class's ``examples()`` and says in one sentence what is broken.
"""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Cohort, InputError, Population, Registrar, Selector, SortitionError, State
from sortition.core.arrays import Ids
from sortition.testing.cost import cost
from sortition.testing.play import Faults, everybody, play, play_turn, some, turns
from sortition.testing.worlds import ScriptedWorld

Check = Callable[[type[Selector[Any]]], None]
ROUNDS, BUDGET = 8, 4


class ContractError(SortitionError):
    """A method does not keep the contract."""


def check_selector(make: type[Selector[Any]] | Callable[[], Selector[Any]]) -> None:
    """Raise :class:`ContractError` with a sentence at the first point of the contract that a method breaks."""
    for _, check in contract(make):
        check()


def contract(make: type[Selector[Any]] | Callable[[], Selector[Any]]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The points of the contract, each a name and a function to call."""
    cls = make if isinstance(make, type) else type(make())
    if not issubclass(cls, Selector):
        raise InputError(f"check_selector must be given a Selector class; got {cls!r}.")
    for check in CHECKS:
        yield (check.__doc__ or check.__name__).strip().rstrip("."), _bound(check, cls)


def _bound(check: Check, cls: type[Selector[Any]]) -> Callable[[], None]:
    def run() -> None:
        try:
            check(cls)
        except ContractError:
            raise
        except Exception as error:
            raise ContractError(
                f"{cls.__name__} breaks '{(check.__doc__ or '').strip()}': {type(error).__name__}: {error}"
            ) from error

    return run


def _instances(cls: type[Selector[Any]]) -> Iterator[Selector[Any]]:
    for parameters in cls.examples():
        yield cls.load(**parameters)


def _same(a: list[Cohort], b: list[Cohort]) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x.ids, y.ids) and np.array_equal(x.weights, y.weights) for x, y in zip(a, b, strict=True)
    )


def _require(cls: type[Selector[Any]], holds: bool, sentence: str) -> None:
    if not holds:
        raise ContractError(f"{cls.__name__} {sentence}")


def allowed_cohorts(cls: type[Selector[Any]]) -> None:
    """Cohorts are distinct, available and within the budget, whoever is there."""
    world = ScriptedWorld()
    odd, even = np.arange(1, 40, 2), np.arange(0, 40, 2)
    patterns = {
        "everybody": everybody(world),
        "one client": lambda t: np.array([37]),
        "fewer than the budget": lambda t: np.array([3, 17, 39]),
        "alternating halves": lambda t: odd if t % 2 else even,
        "nobody in every third round": lambda t: np.empty(0, np.int64) if t % 3 == 0 else odd,
        "high ids": lambda t: np.arange(25, 40),
    }
    for selector in _instances(cls):
        for name, available in patterns.items():
            cohorts = play(selector, world, ROUNDS, budget=BUDGET, available=available)
            chose = any(c.ids.size for c in cohorts) or name != "everybody"
            _require(cls, chose, f"never chose anybody with {name} available.")


def ties(cls: type[Selector[Any]]) -> None:
    """Clients that are all alike are no problem."""
    for selector in _instances(cls):
        cohorts = play(selector, ScriptedWorld(same=True), ROUNDS, budget=BUDGET)
        _require(cls, all(c.ids.size for c in cohorts), "chose nobody among clients that are all alike.")


def repeatable(cls: type[Selector[Any]]) -> None:
    """The same seed gives the same cohorts, and no global generator is touched."""
    world = ScriptedWorld()
    for selector in _instances(cls):
        before = (random.getstate(), np.random.get_state())  # noqa: NPY002 - looked at, not drawn from
        first = play(selector, world, ROUNDS, budget=BUDGET, available=some(world, 0.5))
        after = (random.getstate(), np.random.get_state())  # noqa: NPY002
        again = play(selector, world, ROUNDS, budget=BUDGET, available=some(world, 0.5))
        _require(cls, _same(first, again), "chose other clients under the same seed.")
        _require(cls, repr(before) == repr(after), "drew from a global random generator.")


def interleaved(cls: type[Selector[Any]]) -> None:
    """One instance serves two runs at once."""
    world = ScriptedWorld()
    for selector in _instances(cls):
        alone = [play(selector, world, ROUNDS, budget=BUDGET, available=some(world, 0.6, s), seed=s) for s in (0, 1)]
        runs = [Registrar(selector, world.population, horizon=ROUNDS, seed=s) for s in (0, 1)]
        both: list[list[Cohort]] = [[], []]
        for t in range(ROUNDS):
            for s in (0, 1):
                turn = play_turn(runs[s], world, some(world, 0.6, s)(t), BUDGET)
                both[s].append(turn.cohort or Cohort.uniform([]))
        _require(cls, all(_same(a, b) for a, b in zip(alone, both, strict=True)), "keeps memory outside its state.")


def resumable(cls: type[Selector[Any]]) -> None:
    """Saved and restored after every round, it chooses as if never stopped; an abandoned turn leaves no trace."""
    world = ScriptedWorld()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registrar.npz"
        for selector in _instances(cls):
            straight = play(selector, world, ROUNDS, budget=BUDGET, available=some(world, 0.6))
            registrar = Registrar(selector, world.population, horizon=ROUNDS)
            stopped: list[Cohort] = []
            for t in range(ROUNDS):
                registrar.begin(some(world, 0.6)(t), BUDGET)  # abandoned
                registrar.save(path)
                registrar = Registrar.load(path, selector, world.population)
                stopped.append(play_turn(registrar, world, some(world, 0.6)(t), BUDGET).cohort or Cohort.uniform([]))
            _require(
                cls, _same(straight, stopped), "chooses differently after a restart: something is not in its state."
            )


def unreliable(cls: type[Selector[Any]]) -> None:
    """Lost, spoiled and missing answers do not stop it."""
    world = ScriptedWorld()
    for selector in _instances(cls):
        for faults in (
            Faults(lost=0.2),
            Faults(lost=1.0),
            Faults(spoiled=0.3),
            Faults(spoiled=1.0),
            Faults(silent=0.5),
        ):
            registrar = Registrar(selector, world.population, horizon=ROUNDS)
            for turn in turns(registrar, world, ROUNDS, BUDGET, some(world, 0.6), faults):
                for name, array in turn.state.arrays().items():
                    _require(cls, array.dtype.kind != "O", f"keeps objects in state.{name}.")


def growing(cls: type[Selector[Any]]) -> None:
    """Clients join while it runs, and ids do not shift."""
    small, large = ScriptedWorld(20), ScriptedWorld(40)
    for selector in _instances(cls):
        registrar = Registrar(selector, small.population, horizon=2 * ROUNDS)
        list(turns(registrar, small, ROUNDS, BUDGET, everybody(small)))
        registrar.join(_extended(small.population, large.population))
        list(turns(registrar, large, ROUNDS, BUDGET, everybody(large)))


def _extended(small: Population, large: Population) -> Population:
    facts: dict[str, Any] = {
        name: np.concatenate([getattr(small, name), getattr(large, name)[small.n_clients :]]) for name in small.facts
    }
    return Population(**facts)


def known_facts(cls: type[Selector[Any]]) -> None:
    """Facts of clients that are not known are never read."""
    world, known = ScriptedWorld(), np.arange(30)
    told = [_known_only(world.population, known, filler) for filler in (0.0, np.nan)]
    for selector in _instances(cls):
        both = []
        for population in told:
            registrar = Registrar(selector, population, horizon=ROUNDS)
            played = turns(registrar, world, ROUNDS, BUDGET, lambda t: some(world, 0.6)(t)[some(world, 0.6)(t) < 30])
            both.append([turn.cohort or Cohort.uniform([]) for turn in played])
        _require(cls, _same(*both), "reads facts of clients beyond population.known.")


def _known_only(population: Population, known: Ids, filler: float) -> Population:
    facts: dict[str, Any] = {}
    for name in population.facts:
        rows = np.array(getattr(population, name))
        facts[name] = rows if name == "groups" else rows.astype(np.float64)
        facts[name][known.size :] = -1 if name == "groups" and np.isnan(filler) else filler
    return Population(**facts, known=known)


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
    for selector in _instances(cls):
        twin = cls.load(**selector.parameters())
        registrar = Registrar(twin, world.population, horizon=ROUNDS)
        object.__setattr__(twin, "__class__", Spied)
        twin.init(world.n_clients, np.random.default_rng(0))
        list(turns(registrar, world, ROUNDS, BUDGET, some(world, 0.6)))
        _ = twin.needs
    _require(cls, names <= read, f"never reads {sorted(names - read)}; examples() may not cover it.")


def parameters_checked(cls: type[Selector[Any]]) -> None:
    """Every bad hyper-parameter raises a sentence that names it."""
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
        _require(cls, named in str(error), f"does not name {named!r} in its error: {error}")
    except Exception as error:
        raise ContractError(
            f"{cls.__name__} answers {parameters} with {type(error).__name__}, not with a sentence."
        ) from error
    else:
        raise ContractError(f"{cls.__name__} accepts {parameters}.")


def plain(cls: type[Selector[Any]]) -> None:
    """Parameters are frozen, the state declares its axes, and notes are plain data."""
    world = ScriptedWorld()
    for selector in _instances(cls):
        for name in selector.parameters():
            try:
                setattr(selector, name, None)
            except dataclasses.FrozenInstanceError:
                continue
            raise ContractError(f"{cls.__name__} lets its parameter {name!r} be changed.")
        state = selector.init(10, np.random.default_rng(0))
        _require(cls, isinstance(state, State), "has a state that is not a State.")
        undeclared = {item.name for item in dataclasses.fields(state)} - set(state.axes()) - {"n_clients"}
        _require(cls, not undeclared, f"has state without declared axes: {sorted(undeclared)}.")
        for cohort in play(selector, world, ROUNDS, budget=BUDGET, available=some(world, 0.6)):
            json.dumps(dict(cohort.notes))


def scales(cls: type[Selector[Any]]) -> None:
    """Time and memory of a selection grow no faster than the number of clients (up to 100,000)."""
    if not cls.scales:
        return
    for selector in _instances(cls):
        if any(signal.of == "pairs" for signal in selector.needs.asks):
            continue  # a table of all pairs is quadratic by its nature
        spent = {n: cost(selector, n) for n in (10_000, 100_000)}
        seconds, peak = (spent[100_000][i] / max(spent[10_000][i], floor) for i, floor in ((0, 5e-3), (1, 2**20)))
        parameters = selector.parameters()
        _require(cls, seconds < 40, f"takes {seconds:.0f} × the time for 10 × the clients, with {parameters}.")
        _require(cls, peak < 20, f"takes {peak:.0f} × the memory for 10 × the clients, with {parameters}.")


CHECKS: tuple[Check, ...] = (
    allowed_cohorts,
    ties,
    repeatable,
    interleaved,
    resumable,
    unreliable,
    growing,
    known_facts,
    parameters_read,
    parameters_checked,
    plain,
    scales,
)
