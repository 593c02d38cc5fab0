"""Rounds: ask, choose, train, observe, aggregate, evaluate, record.

``play_round(setup, carry) -> (carry, record)`` is one plain function on core's ask/tell, so exactly one place advances
a selection. ``carry.timings`` holds the wall-clock seconds of the round just played (timings.jsonl); the record holds
none. The carry's registrar is one object over all rounds; everything else of a carry is new in every round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.core.questions import Measure
from sortition.core.rounds import Cohort
from sortition.core.turn import Turn
from sortition.learning.server import aggregate
from sortition.simulation import record as records
from sortition.simulation.devices import FORWARD
from sortition.simulation.ledger import NUMBER, Ledger
from sortition.simulation.record import RoundRecord
from sortition.simulation.setup import Carry, Setup, sealed, start
from sortition.simulation.world import Outcome, World


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
    """One round."""
    begun = time.perf_counter()
    world, registrar, t = setup.world, carry.registrar, carry.registrar.index
    ledger = Ledger(carry.params.size, world.n_clients)
    if t == 0 and setup.population is not None:
        ledger.facts(sum(int(getattr(setup.population, name).size) for name in registrar.needs.reads))
    available = _available(setup, t)
    turn = registrar.begin(available, world.fleet.devices.budget(setup.cohort))
    measured, asking = _ask(setup, carry, turn, ledger)
    cohort = turn.cohort or Cohort.uniform([])
    record = records.of_selection(turn, available.size)
    chosen = time.perf_counter()
    outcome, lost, waiting = _train(setup, carry, cohort, ledger, t)
    trained = time.perf_counter()
    registrar.finish(turn, outcome.ids, outcome.reports)
    notes = {**cohort.notes, **lost}
    carry = _aggregate(setup, carry, cohort, outcome, notes)
    carry = replace(carry, clock=carry.clock + asking + waiting)
    if outcome.ids.size < cohort.ids.size:
        record["answered"] = outcome.ids.tolist()
    record |= records.cost(ledger, carry.clock)
    record["train_loss"] = float(outcome.losses.mean(dtype=np.float64)) if outcome.losses.size else None
    if turn.rejected:
        record["rejected"] = dict(turn.rejected)
    aggregated = time.perf_counter()
    carry = _evaluate(setup, carry, t, record)
    record["notes"] = notes
    done = time.perf_counter()
    timings = {
        "select": chosen - begun - measured,
        "measure": measured,
        "train": trained - chosen,
        "aggregate": aggregated - trained,
        "evaluate": done - aggregated,
    }
    return replace(carry, totals=_added(carry.totals, ledger), timings=timings), records.plain(record)


def _available(setup: Setup, t: int) -> Ids:
    if setup.availability is None:
        return np.arange(setup.world.n_clients)
    mask = np.asarray(setup.availability.at(t))
    if mask.dtype != np.bool_ or mask.shape != (setup.world.n_clients,):
        raise bad("availability.at(t)", f"a mask of {setup.world.n_clients} clients", f"{mask.dtype} of {mask.shape}")
    return np.flatnonzero(mask)


def _ask(setup: Setup, carry: Carry, turn: Turn, ledger: Ledger) -> tuple[float, float]:
    """Answer the selector's questions; wall-clock seconds spent on answers, and simulated ones."""
    world, spent, waited = setup.world, 0.0, 0.0
    while turn.question is not None:
        question, begun = turn.question, time.perf_counter()
        reading = world.measure(carry.params, question, turn.index)
        if setup.faults is not None:
            reading = setup.faults.answers(turn.index, question, reading)
        ledger.question(question, reading)
        waited += _work(world, question, ledger, turn.index)
        spent += time.perf_counter() - begun
        turn.answer(reading)
    return spent, waited


def _work(world: World, question: Measure, ledger: Ledger, t: int) -> float:
    """Charge the clients' computing for a question; how long the slowest takes."""
    ids, signal, seconds = question.ids, question.signal, 0.0
    if question.after is not None:
        members = question.after.ids
        ledger.rehearse(world.work(members), world.steps(members))
        seconds += float(world.durations(members, t).max(initial=0.0))
    if signal.of == "pairs":
        return seconds
    if signal.of == "training":
        ledger.compute(ids, world.work(ids), world.steps(ids))
        return seconds + float(world.durations(ids, t).max(initial=0.0))
    examples = world.reading_work(signal, ids)
    ledger.passes["forward"] += int(examples.sum())
    sent = NUMBER * (ledger.size + signal.floats_down)
    return seconds + float(world.fleet.seconds(ids, t, FORWARD * examples, sent).max(initial=0.0))


def _train(setup: Setup, carry: Carry, cohort: Cohort, ledger: Ledger, t: int) -> tuple[Outcome, dict[str, Any], float]:
    """Train those whose answer will be used; what is lost on the way, and the simulated seconds.

    Who drops out or comes too late is known beforehand here, so that work is charged but not done.
    """
    world, ids = setup.world, cohort.ids
    overselected = world.fleet.devices.overselect > 1 and not cohort.full
    target = setup.cohort if overselected else ids.size
    closing = world.fleet.close(ids, world.durations(ids, t), target, t)
    examples = world.work(ids)
    ledger.compute(ids, examples, world.steps(ids))
    ledger.passes["wasted"] += int(examples[~closing.answered].sum())
    signals = carry.registrar.needs.reports
    outcome = world.train(carry.params, ids[closing.answered], signals, t)
    ledger.training(ids, int(closing.answered.sum()), int(closing.late.sum()))
    ledger.reports(signals, outcome.reports)
    lost: dict[str, Any] = {}
    if setup.faults is not None:
        outcome = setup.faults.outcome(t, outcome)
    with np.errstate(all="ignore"):
        sound = np.isfinite(outcome.deltas.sum(axis=1))
    if not sound.all():
        lost["unsound_updates"] = outcome.ids[~sound].tolist()
        kept = outcome.ids[sound]
        reports = {name: reading.restrict(kept) for name, reading in outcome.reports.items()}
        outcome = Outcome(kept, outcome.deltas[sound], reports, outcome.durations[sound], outcome.losses[sound])
    return outcome, lost, closing.seconds


def _aggregate(setup: Setup, carry: Carry, cohort: Cohort, outcome: Outcome, notes: dict[str, Any]) -> Carry:
    if outcome.ids.size == 0:
        if cohort.ids.size:
            notes["nothing_came_back"] = True
        return carry
    weights, told = cohort.weights_of(outcome.ids)
    notes |= told
    params, server = setup.server.step(carry.params, aggregate(outcome.deltas, weights), carry.server)
    return replace(carry, params=sealed(params), server=server, test=None)


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
