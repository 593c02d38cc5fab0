"""Rounds in six steps: select (and ask), train, observe, aggregate, evaluate, record.

``play_round(setup, carry) -> (carry, record)`` drives core's registrar, so exactly one place advances a selection.
``carry.timings`` holds the wall-clock seconds of the round just played (timings.jsonl); the record holds none. The
carry's registrar is one object over all rounds; everything else of a carry is new in every round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.rounds import Cohort
from sortition.core.turn import Turn
from sortition.core.record import FaultRecord, RoundRecord
from sortition.simulation import exchange
from sortition.simulation.exchange import Arrived, AskedQuestions
from sortition.simulation.faults import POINTS
from sortition.simulation.ledger import Ledger
from sortition.simulation.record import Evaluation, client_figures, round_record
from sortition.simulation.round_cache import Training
from sortition.simulation.setup import Carry, Setup, sealed, start
from sortition.simulation.stopwatch import Stopwatch

T = TypeVar("T")
Alive = Callable[[str], None]  # called at each point where the server may crash
Steps = Generator[Training, None, tuple[Carry, RoundRecord]]


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
    """One round; where the server crashes in it, the round is played once more from what was saved before."""
    return alone(steps(setup, carry))


def steps(setup: Setup, carry: Carry) -> Steps:
    """The same round, stopped before it trains: whoever resumes it has done the training, or leaves it to the round."""
    registrar, t = carry.registrar, carry.registrar.index
    setup = setup.at(t)
    point = setup.faults.crash(t)
    if point is not None:
        arrays, header = registrar.export()
        saved = {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(header))
        with suppress(Crash):
            yield from _round(setup, carry, point)
        registrar.restore(*saved)
    return (yield from _round(setup, carry))


def alone(waiting: Generator[Training, None, T]) -> T:
    """Play what waits for training to its end, by itself."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            return cast(T, end.value)


class Crash(Exception):  # noqa: N818  (it never reaches a user)
    """The simulated server crashes; nothing of the round is left."""


def _round(setup: Setup, carry: Carry, crash: int = len(POINTS)) -> Steps:
    def alive(point: str) -> None:
        if POINTS.index(point) >= crash:
            raise Crash(point)

    watch, ledger = Stopwatch(), Ledger(carry.params.size, setup.world.n_clients)
    carry, joined = _join(setup, carry, ledger)
    setup = setup.remembering(carry.local)
    chosen = _select(setup, carry, ledger, alive)
    watch.lap("select", less=chosen.asked.spent)
    watch.seconds["measure"] = chosen.asked.spent
    arrived = yield from exchange.train(setup, carry, chosen.cohort, ledger)
    watch.lap("train", less=arrived.waited)
    carry = replace(carry, local=arrived.local)
    alive("finish")
    usable, repeated = _observe(setup, carry, chosen, arrived)
    carry, notes = _aggregate(setup, carry, chosen, arrived, usable)
    watch.lap("aggregate")
    carry, evaluation = _evaluate(setup, carry, chosen.turn.index)
    faults: FaultRecord = {**joined, **chosen.asked.faults, **arrived.dropped, **repeated}
    record = round_record(chosen.turn, chosen.available.size, arrived, ledger, carry.clock, faults, evaluation, notes)
    alive("record")
    watch.lap("evaluate")
    return replace(carry, totals=ledger.added_to(carry.totals), timings=watch.seconds), record


@dataclass(frozen=True)
class Selected:
    """What the selection of a round left."""

    turn: Turn
    given_up: Turn | None  # a selection that the server began before and gave up
    available: Ids
    asked: AskedQuestions

    @property
    def cohort(self) -> Cohort:
        """Who trains."""
        return self.turn.cohort or Cohort.uniform([])


def _join(setup: Setup, carry: Carry, ledger: Ledger) -> tuple[Carry, FaultRecord]:
    """Let newcomers and those who took an id over join; who they are. Everybody sends the facts that are read once."""
    registrar, t = carry.registrar, carry.registrar.index
    taken, before, size = setup.faults.taken(t), setup.faults.size(max(0, t - 1)), setup.faults.size(t)
    if size > registrar.population.n_clients or taken.size:
        registrar.join(setup.known(t))
    facts = sum(getattr(registrar.population, name)[:1].size for name in registrar.needs.reads)
    ledger.facts(facts * (size if t == 0 else size - before + taken.size))
    found = {"joined": list(range(before, size)), "taken": taken.tolist()}
    if taken.size and carry.memory is not None:
        carry = replace(carry, memory=carry.memory.without(taken))
    if taken.size and carry.local is not None:
        carry = replace(carry, local=carry.local.without(taken))
    return carry, {name: ids for name, ids in found.items() if ids}


def _select(setup: Setup, carry: Carry, ledger: Ledger, alive: Alive) -> Selected:
    """Ask what the selector asks, until it has chosen a cohort."""
    registrar, t = carry.registrar, carry.registrar.index
    available = np.flatnonzero(setup.reachable(t))
    budget = setup.world.fleet.devices.budget(setup.cohort)
    alive("select")
    given_up = registrar.begin(available, budget) if setup.faults.stale(t) else None
    turn = registrar.begin(available, budget)
    return Selected(turn, given_up, available, exchange.ask(setup, carry, turn, ledger, lambda: alive("answer")))


def _observe(setup: Setup, carry: Carry, chosen: Selected, arrived: Arrived) -> tuple[Ids, FaultRecord]:
    """Close the turn; whose updates count. Reports that come twice, or for a turn given up, are counted and ignored."""
    registrar, turn, repeated = carry.registrar, chosen.turn, FaultRecord()
    turn.blame(arrived.unsound)
    if chosen.given_up is not None:
        registrar.finish(chosen.given_up, arrived.ids, arrived.reports)
        repeated["stale"] = 1
    usable = registrar.finish(turn, arrived.ids, arrived.reports)
    if setup.faults.duplicated(turn.index):
        registrar.finish(turn, arrived.ids, arrived.reports)
        repeated["duplicated"] = 1
    return usable, repeated


def _aggregate(
    setup: Setup, carry: Carry, chosen: Selected, arrived: Arrived, usable: Ids
) -> tuple[Carry, dict[str, Any]]:
    """The next model, where updates arrived and are used, and the notes of the round."""
    cohort, notes = chosen.cohort, dict(chosen.cohort.notes)
    if arrived.unsound:
        notes["unsound_updates"] = list(arrived.unsound)
    if chosen.turn.guarded:
        notes["guards"] = chosen.turn.guarded
    carry = replace(carry, clock=carry.clock + chosen.asked.waited + arrived.seconds)
    if arrived.ids.size == 0:
        return carry, notes | ({"nothing_came_back": True} if cohort.ids.size else {})
    if usable.size == 0:
        return carry, notes
    weights, remarks = cohort.weights_of(arrived.ids)
    update, memory = arrived.folded, carry.memory
    if update is None:
        update, memory = setup.combine.apply(
            arrived.ids,
            weights,
            arrived.deltas,
            carry.memory,
            clients=carry.registrar.population.n_clients,
            rate=setup.world.rule.lr_at(chosen.turn.index),
            mass=cohort.mass,
        )
    params, server = setup.step.apply(carry.params, update, carry.server)
    return replace(carry, params=sealed(params), server=server, memory=memory, test=None), notes | remarks


def _evaluate(setup: Setup, carry: Carry, t: int) -> tuple[Carry, Evaluation]:
    """Test figures and clients' figures, in the rounds in which they are due."""
    evaluator, test, clients = setup.world.evaluator, None, None
    if setup.due(t, setup.evaluate_every):
        carry = carry if carry.test is not None else replace(carry, test=evaluator.score(carry.params))
        test = carry.test
    if setup.due(t, setup.clients_every):
        carry = replace(carry, accuracies=(accuracies := evaluator.client_accuracies(carry.params)))
        clients = client_figures(accuracies)
    return carry, Evaluation(test, clients)
