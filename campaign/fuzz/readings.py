"""Readings and reports, of every method: what a caller hands to the registrar."""

from __future__ import annotations

import functools
import random
from contextlib import suppress
from typing import Any

import numpy as np

from campaign.fuzz import mutations
from campaign.fuzz.loop import Target
from sortition.core import DURATION, LOSS, PRODUCTS, UPDATE, Reading, Registrar, Selector
from sortition.core.errors import SortitionError
from sortition.core.guards.answer_screening import screen, sort_as_asked
from sortition.selectors import discover, find
from sortition.testing.worlds import ScriptedWorld

CLIENTS, ROUNDS, BUDGET = 14, 6, 4
WORLD = ScriptedWorld(CLIENTS)


@functools.cache
def methods() -> tuple[Selector[Any], ...]:
    """Every example of every method."""
    return tuple(find(name).load(**example) for name in discover() for example in find(name).examples())


def play(rng: random.Random) -> int:
    """Some rounds of one method in which everything that is handed over may be wrong."""
    registrar = Registrar(rng.choice(methods()), WORLD.population, horizon=ROUNDS, seed=rng.randrange(1000))
    given = 0
    for _ in range(ROUNDS):
        turn = _begun(rng, registrar)
        given += 1
        while turn.question is not None:
            given += _answered(rng, turn)
        given += _finished(rng, registrar, turn)
    return given


def _begun(rng: random.Random, registrar: Registrar) -> Any:
    available = [k for k in range(CLIENTS) if rng.random() < 0.6]
    if rng.random() < 0.3:
        try:
            return registrar.begin(mutations.array(rng, available), rng.choice((BUDGET, 0, -1, 2**40, 2.5, True, None)))
        except SortitionError:
            pass
    return registrar.begin(available, BUDGET)


def _answered(rng: random.Random, turn: Any) -> int:
    sound = WORLD.measure(turn.question, turn.index)
    given = 0
    while turn.question is not None and rng.random() < 0.5 and given < 4:
        given += 1
        try:
            turn.answer(spoiled(rng, sound))
            return given
        except SortitionError:
            continue
    turn.answer(sound)
    return given + 1


def _finished(rng: random.Random, registrar: Registrar, turn: Any) -> int:
    reports = WORLD.train(turn.cohort, registrar.needs.reports, turn.index)
    given = 0
    while rng.random() < 0.5 and given < 4:
        given += 1
        wrong: dict[Any, Any] = {name: spoiled(rng, reading) for name, reading in reports.items()}
        if rng.random() < 0.2:
            wrong[rng.choice(("loss", "", 3, "no-such"))] = mutations.odd(rng)
        ids = turn.cohort.ids if rng.random() < 0.6 else mutations.array(rng, turn.cohort.ids)
        try:
            registrar.finish(turn, ids, wrong)
            return given
        except SortitionError:
            continue
    registrar.finish(turn, turn.cohort.ids, reports)
    return given + 1


def spoiled(rng: random.Random, reading: Reading) -> Any:
    """A reading or a mapping with something wrong in ids, rows or altogether."""
    act = rng.randrange(4)
    if act == 0:
        return mutations.odd(rng)
    if act == 1:
        return Reading(mutations.array(rng, reading.ids), mutations.array(rng, reading.values))
    rows: dict[Any, Any] = dict(zip(reading.ids.tolist(), reading.values, strict=True))
    for client in list(rows)[: rng.randrange(1, 4)]:
        rows[client] = mutations.array(rng, np.asarray(rows[client]))
    if act == 3:
        rows[rng.choice(mutations.TEXTS) if rng.random() < 0.5 else rng.randrange(-2, 30)] = 1.0
    return rows


SIGNALS = (LOSS, UPDATE, DURATION, PRODUCTS)
ASKED = np.arange(0, 12, 2)


def play_rows(rng: random.Random) -> int:
    """Spoiled answers to one question, sifted one after the other."""
    for _ in range(50):
        signal = rng.choice(SIGNALS)
        width = ASKED.size if signal.of == "pairs" else 3
        values = np.arange(1.0, ASKED.size + 1) if signal.scalar else np.ones((ASKED.size, width))
        with suppress(SortitionError):
            answer = sort_as_asked(signal, spoiled(rng, Reading(ASKED, values)), ASKED)
            kept, *_ = screen(signal, answer, ASKED, None if signal.scalar else (width,))
            flat = kept.values.reshape(len(kept), -1) if len(kept) else np.empty((0, 1))
            if signal.of != "pairs" and not (np.isfinite(flat).all() and np.abs(flat).max(initial=0.0) <= 1e15):
                raise RuntimeError("an unsound row was let in")
    return 50


TARGET = Target("readings", play)
ROWS = Target("rows", play_rows, share=0.25)
