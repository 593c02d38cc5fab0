"""Joins, abandoned turns, numbers as JSON has them, and vectors of many lengths: attacks on a registrar's memory."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from campaign.fuzz import mutations
from campaign.fuzz.loop import Target
from campaign.fuzz.readings import BUDGET, CLIENTS, WORLD, methods
from sortition.core import Guards, Population, Registrar
from sortition.core.errors import SortitionError

GUARDS = Guards(strikes=1, quarantine=5, norm=5, winsorise=3, size_cap=2, ceiling=2)
NUMBERS = ("1e400", "-1e400", "1" + "0" * 400, "NaN", "Infinity", '"3"', "null", "[1]", "{}", "true", "1e308", "-0.0")


def _registrar(rng: random.Random) -> Registrar:
    guards = GUARDS if rng.random() < 0.5 else None
    return Registrar(rng.choice(methods()), WORLD.population, horizon=9, seed=rng.randrange(99), guards=guards)


def _round(registrar: Registrar, spoil: Any = lambda rows, t: rows, available: Any = None) -> None:
    """One whole round; the loop over the questions must end."""
    turn = registrar.begin(np.arange(CLIENTS) if available is None else available, BUDGET)
    asked = 0
    while turn.question is not None:
        turn.answer(spoil(WORLD.measure(turn.question, turn.index), turn.index))
        asked += 1
        if asked > 50:
            raise RuntimeError("the questions of a turn do not end")
    reports = WORLD.train(turn.cohort, registrar.needs.reports, turn.index) if turn.cohort.ids.size else {}
    registrar.finish(turn, turn.cohort.ids, {name: spoil(rows, turn.index) for name, rows in reports.items()})


def _facts(people: Population, n: int) -> dict[str, Any]:
    rows = np.arange(n) % people.n_clients
    return {name: getattr(people, name)[rows] for name in people.facts}


def play_joins(rng: random.Random) -> int:
    """Populations that may be wrong: one that is refused leaves the registrar as it was."""
    registrar = _registrar(rng)
    _round(registrar)
    for _ in range(4):
        n, before = rng.randrange(1, 2 * CLIENTS), registrar.export()
        facts = _facts(registrar.population, n)
        for name in list(facts):
            if rng.random() < 0.3:
                facts[name] = mutations.array(rng, facts[name])
            elif rng.random() < 0.2:
                del facts[name]
        try:
            registrar.join(None if rng.random() < 0.1 else Population(**facts, n_clients=n))  # type: ignore[arg-type]
        except SortitionError:
            after = registrar.export()
            same = all(np.array_equal(after[0][key], value, equal_nan=True) for key, value in before[0].items())
            if not same or before[1] != after[1] or registrar.state.n_clients != registrar.population.n_clients:
                raise RuntimeError("a refused population changed the registrar") from None
        _round(registrar)
    return 5


def play_turns(rng: random.Random) -> int:
    """Turns that are abandoned, answered late, finished twice or by another registrar: every loop ends."""
    registrar, other = _registrar(rng), _registrar(rng)
    turns = []
    for _ in range(6):
        turns.append(registrar.begin([k for k in range(CLIENTS) if rng.random() < 0.7], BUDGET))
        for turn in rng.sample(turns, min(2, len(turns))):
            asked = 0
            while turn.question is not None and rng.random() < 0.9:
                turn.answer(WORLD.measure(turn.question, turn.index))
                asked += 1
                if asked > 50:
                    raise RuntimeError("the questions of an abandoned turn do not end")
            try:
                rng.choice((registrar, registrar, other)).finish(turn)
            except SortitionError:
                continue
    _round(registrar)
    return 7


def play_numbers(rng: random.Random) -> int:
    """Rows that came as JSON: whatever a client writes, the server goes on."""
    registrar = _registrar(rng)

    def spoil(reading: Any, t: int) -> dict[int, Any]:
        rows: dict[int, Any] = dict(zip(reading.ids.tolist(), reading.values.tolist(), strict=True))
        for client in list(rows):
            if rng.random() < 0.3:
                text = rng.choice(NUMBERS)
                rows[client] = json.loads(text if rng.random() < 0.6 else f"[{text}, 1.0]")
        return rows

    for _ in range(4):
        _round(registrar, spoil)
    return 4


def play_lengths(rng: random.Random) -> int:
    """One client, at first alone, sends vectors of a length of its own: nobody else gets a strike for it."""
    registrar, lone, length = _registrar(rng), rng.randrange(CLIENTS), rng.randrange(1, 9)

    def spoil(reading: Any, t: int) -> Any:
        if reading.values.ndim != 2 or reading.values.shape[1] == length:
            return reading
        rows: dict[int, Any] = dict(zip(reading.ids.tolist(), reading.values, strict=True))
        return {client: np.ones(length) if client == lone else row for client, row in rows.items()}

    _round(registrar, spoil, available=[lone])
    for _ in range(6):
        _round(registrar, spoil)
    vectors = [s for s in (*registrar.needs.asks, *registrar.needs.reports) if not s.scalar and s.of != "pairs"]
    honest = np.delete(registrar.strikes, lone)
    if vectors and all(s.width is None or not isinstance(s.width, int) for s in vectors) and honest.any():
        raise RuntimeError("an honest client got a strike for the length that most clients send")
    return 7


JOINS = Target("joins", play_joins)
TURNS = Target("turns", play_turns)
NUMBERS_TARGET = Target("numbers", play_numbers)
LENGTHS = Target("lengths", play_lengths)
