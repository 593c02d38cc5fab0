"""Rounds: ask, choose, train, observe, aggregate, evaluate, record.

``play_round(setup, carry) -> (carry, record)`` is one plain function on core's ask/tell, so exactly one place advances
a selection. ``carry.timings`` holds the wall-clock seconds of the round just played (timings.jsonl); the record holds
none. The carry's registrar is one object over all rounds; everything else of a carry is new in every round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from sortition.audit.encoding import json_value
from sortition.core.arrays import Ids
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort
from sortition.core.turn import Turn
from sortition.simulation import exchange
from sortition.simulation import record as records
from sortition.simulation.exchange import Arrived
from sortition.simulation.faults import POINTS
from sortition.simulation.ledger import Ledger
from sortition.simulation.record import RoundRecord
from sortition.simulation.setup import Carry, Setup, sealed, start


def run(
    setup: Setup,
    rounds: int | None = None,
    on_record: Callable[[Carry, RoundRecord], object] | None = None,
    carry: Carry | None = None,
) -> Carry:
    """Play until ``rounds`` (default: the horizon) have been played; stop early when ``on_record`` returns True."""
    carry = carry or start(setup)
    while carry.registrar.index < (setup.horizon if rounds is None else rounds):
        carry, record = play_round(setup, carry)
        if on_record is not None and on_record(carry, record) is True:
            break
    return carry


def play_round(setup: Setup, carry: Carry) -> tuple[Carry, RoundRecord]:
    """One round; where the server falls over in it, the round is played again from what was saved before."""
    registrar, t = carry.registrar, carry.registrar.index
    setup = setup.at(t)
    point = setup.faults.crash(t)
    if point is not None:
        arrays, header = registrar.export()
        saved = {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(header))
        with suppress(Crash):
            _round(setup, carry, point)
        registrar.restore(*saved)
    return _round(setup, carry)


class Crash(Exception):  # noqa: N818  (nobody is told of it)
    """The simulated server falls over; nothing of the round is left."""


def _round(setup: Setup, carry: Carry, crash: int = len(POINTS)) -> tuple[Carry, RoundRecord]:
    begun = time.perf_counter()
    world, registrar, t = setup.world, carry.registrar, carry.registrar.index

    def standing(point: str) -> None:
        if POINTS.index(point) >= crash:
            raise Crash(point)

    ledger = Ledger(carry.params.size, world.n_clients)
    happened = _enter(setup, carry, ledger, t)
    available = np.flatnonzero(setup.reachable(t))
    budget = world.fleet.devices.budget(setup.cohort)
    standing("select")
    given_up = registrar.begin(available, budget) if setup.faults.stale(t) else None
    turn = registrar.begin(available, budget)
    asked = exchange.ask(setup, carry, turn, ledger, lambda: standing("answer"))
    cohort = turn.cohort or Cohort.uniform([])
    record = records.of_selection(turn, available.size)
    chosen = time.perf_counter()
    arrived = exchange.train(setup, carry, cohort, ledger, t)
    trained = time.perf_counter()
    standing("finish")
    turn.blame(arrived.unsound)
    usable, again = _finish(setup, registrar, turn, given_up, arrived)
    happened |= records.of_answers(asked.lost, asked.late) | arrived.dropped | again
    notes = {**cohort.notes, **({"unsound_updates": list(arrived.unsound)} if arrived.unsound else {})}
    notes |= {"guards": turn.guarded} if turn.guarded else {}
    if usable.size or not arrived.ids.size:
        carry = _aggregate(setup, carry, cohort, arrived, notes)
    carry = replace(carry, clock=carry.clock + asked.waited + arrived.seconds)
    if arrived.ids.size < cohort.ids.size:
        record["answered"] = arrived.ids.tolist()
    if arrived.started.size < cohort.ids.size:
        record["started"] = arrived.started.tolist()
    record |= records.cost(ledger, carry.clock)
    record["train_loss"] = float(arrived.losses.mean(dtype=np.float64)) if arrived.losses.size else None
    if turn.rejected:
        record["rejected"] = dict(turn.rejected)
    if happened:
        record["faults"] = happened
    aggregated = time.perf_counter()
    carry = _evaluate(setup, carry, t, record)
    record["notes"] = notes
    standing("record")
    done = time.perf_counter()
    timings = {
        "select": chosen - begun - asked.spent,
        "measure": asked.spent,
        "train": trained - chosen,
        "aggregate": aggregated - trained,
        "evaluate": done - aggregated,
    }
    return replace(carry, totals=_added(carry.totals, ledger), timings=timings), json_value(record)


def _enter(setup: Setup, carry: Carry, ledger: Ledger, t: int) -> dict[str, Any]:
    """Let newcomers and those who took an id over join; who they are. Everybody tells the facts that are read, once."""
    registrar, taken = carry.registrar, setup.faults.taken(t)
    before, size = setup.faults.size(max(0, t - 1)), setup.faults.size(t)
    if size > registrar.population.n_clients or taken.size:
        registrar.join(setup.known(t))
    facts = sum(getattr(registrar.population, name)[:1].size for name in registrar.needs.reads)
    ledger.facts(facts * (size if t == 0 else size - before + taken.size))
    told = {"joined": list(range(before, size)), "taken": taken.tolist()}
    return {name: ids for name, ids in told.items() if ids}


def _finish(
    setup: Setup, registrar: Registrar, turn: Turn, given_up: Turn | None, arrived: Arrived
) -> tuple[Ids, dict[str, int]]:
    """Close the round; whose updates count. What comes twice, or of a selection given up, is counted and ignored."""
    told = {}
    if given_up is not None:
        registrar.finish(given_up, arrived.ids, arrived.reports)
        told["stale"] = 1
    usable = registrar.finish(turn, arrived.ids, arrived.reports)
    if setup.faults.duplicated(turn.index):
        registrar.finish(turn, arrived.ids, arrived.reports)
        told["duplicated"] = 1
    return usable, told


def _aggregate(setup: Setup, carry: Carry, cohort: Cohort, arrived: Arrived, notes: dict[str, Any]) -> Carry:
    if arrived.ids.size == 0:
        if cohort.ids.size:
            notes["nothing_came_back"] = True
        return carry
    weights, told = cohort.weights_of(arrived.ids)
    notes |= told
    update, memory = setup.combine.apply(arrived.ids, weights, arrived.deltas, carry.memory)
    params, server = setup.step.apply(carry.params, update, carry.server)
    return replace(carry, params=sealed(params), server=server, memory=memory, test=None)


def _evaluate(setup: Setup, carry: Carry, t: int, record: RoundRecord) -> Carry:
    if setup.due(t, setup.evaluate_every):
        carry = carry if carry.test is not None else replace(carry, test=setup.world.score(carry.params))
        record["test"] = carry.test
    if setup.due(t, setup.clients_every):
        accuracies = setup.world.client_accuracies(carry.params)
        carry = replace(carry, accuracies=accuracies)
        record["clients"] = records.of_clients(accuracies)
    return carry


def _added(totals: dict[str, int], ledger: Ledger) -> dict[str, int]:
    round_totals = {
        **ledger.bytes,
        "passes": sum(ledger.passes[k] for k in ("training", "forward")),
        "steps": ledger.steps,
    }
    return {key: totals[key] + value for key, value in round_totals.items()}
