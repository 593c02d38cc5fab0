"""What client and server exchange in a round: questions and answers, models and updates; faults happen here.

Whoever is asked or trains is charged in the round's ledger, whether or not the result arrives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core.arrays import Ids
from sortition.core.guards.screening import Answers, norms
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort
from sortition.core.signals import Signal
from sortition.core.turn import Turn
from sortition.learning.vector import Vector
from sortition.core.record import FaultRecord
from sortition.simulation import folding
from sortition.simulation.faults import FATES
from sortition.simulation.ledger import NUMBER, Ledger
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import Training
from sortition.simulation.server import SimServer
from sortition.simulation.setup import Carry, Setup
from sortition.simulation.world import World


@dataclass
class AskedQuestions:
    """What the questions of a round cost, and how many answers were lost or late."""

    spent: float = 0.0  # wall-clock seconds
    waited: float = 0.0  # simulated ones
    lost: int = 0
    late: int = 0

    @property
    def faults(self) -> FaultRecord:
        """Answers that never came, or came when the question was closed."""
        return {name: count for name, count in (("lost", self.lost), ("late", self.late)) if count}


def ask(setup: Setup, carry: Carry, turn: Turn, ledger: Ledger, alive: Callable[[], None]) -> AskedQuestions:
    """Answer the selector's questions; answers that come too late are delivered when all questions are closed."""
    world, asked, late = setup.world, AskedQuestions(), list[Reading]()
    while turn.question is not None:
        question, begun = turn.question, time.perf_counter()
        whole = world.measure(carry.params, question, turn.index)
        alive()
        reading, behind = setup.faults.answers(turn.index, question, whole)
        asked.lost += len(whole) - len(reading) - len(behind)
        late.append(behind)
        ledger.question(question, reading)
        ledger.bytes["wasted_up"] += NUMBER * int(behind.values.size)
        asked.waited += _work(world, question, ledger, turn.index)
        asked.spent += time.perf_counter() - begun
        turn.answer(setup.faults.damage(turn.index, reading))
    for behind in late:
        for client, row in zip(behind.ids.tolist(), behind.values, strict=True):
            turn.answer({client: row})
            asked.late += 1
    return asked


def _work(world: World, question: Measure, ledger: Ledger, t: int) -> float:
    """Charge the clients' computing for a question; how long the slowest takes."""
    ids, signal, seconds = question.ids, question.signal, 0.0
    if question.after is not None:
        members = question.after.ids
        ledger.rehearse(world.costs.examples(members), world.costs.steps(members))
        seconds += float(world.costs.seconds(members, t).max(initial=0.0))
    if signal.of in ("pairs", "device"):
        return seconds
    if signal.of == "training":
        ledger.compute(ids, world.costs.examples(ids), world.costs.steps(ids))
        return seconds + float(world.costs.seconds(ids, t).max(initial=0.0))
    ledger.passes["forward"] += int(world.costs.examples_read(signal, ids).sum())
    return seconds + float(world.costs.seconds_read(signal, ids, t).max(initial=0.0))


@dataclass
class Arrived:
    """What a cohort's training brought: the updates that can be used, and all reports of those who sent them."""

    ids: Ids
    deltas: Vector  # (k, P); none of a cohort that was folded
    folded: Vector | None  # (P,) the weighted sum of the updates of such a cohort
    reports: dict[str, Answers]
    losses: Vector  # (k,) mean batch loss while training
    seconds: float  # simulated
    started: Ids
    dropped: FaultRecord  # ids by fate, see faults.FATES
    unsound: dict[int, str]  # ids whose updates were of no use, and why
    waited: float  # wall-clock seconds in which other runs went on
    local: LocalStates | None  # what the clients' optimisers remember now


def train(setup: Setup, carry: Carry, cohort: Cohort, ledger: Ledger) -> Generator[Training, None, Arrived]:
    """Train those whose answer will be used; the training is yielded, for others to do it.

    Who falls silent or comes too late is known beforehand here, so that work is charged but not done.
    """
    world, ids, t = setup.world, cohort.ids, carry.registrar.index
    when, part = setup.faults.fates(t, ids)
    overselected = world.fleet.devices.overselect > 1 and not cohort.full
    target = setup.cohort if overselected else ids.size
    end = world.fleet.close(ids, world.costs.seconds(ids, t), target, t, silent=when >= 0)
    started = when != FATES.index("before")
    examples, steps = (_part(whole, part) for whole in (world.costs.examples(ids), world.costs.steps(ids)))
    ledger.compute(ids[started], examples[started], steps[started])
    ledger.passes["wasted"] += int(examples[~end.answered].sum())
    signals = tuple(signal for signal in carry.registrar.needs.reports if signal.of != "server")
    answered = ids[end.answered]
    if folding.applies(setup, carry, answered.size):
        waited = yield from _waiting(world.training(carry.params, answered[:0], signals, t))
        outcome, reasons, deltas, folded = folding.train(setup, carry, cohort, answered, signals)
    else:
        waited = yield from _waiting(world.training(carry.params, answered, signals, t))
        outcome, reasons, deltas, folded = _trained(setup, carry, answered, signals)
    unused = int(end.late.sum()) + int((when == FATES.index("after")).sum())
    ledger.training(ids[started], int(end.answered.sum()), unused)
    ledger.reports(signals, outcome.reports)
    reports = setup.faults.reports(t, outcome)
    sound = np.isin(np.arange(outcome.ids.size), list(reasons), invert=True)
    dropped = {fate: ids[when == at].tolist() for at, fate in enumerate(FATES) if (when == at).any()}
    kept, unsound = outcome.ids, {int(outcome.ids[at]): reason for at, reason in sorted(reasons.items())}
    if unsound:
        kept = outcome.ids[sound]
        if setup.faults.faults.damaged:  # otherwise the method diverged, and its work counts as done
            ledger.passes["wasted"] += int(world.costs.examples(outcome.ids[~sound]).sum())
        reports = {name: _only(rows, kept) for name, rows in reports.items()}
    reports |= _of_server(setup, carry, cohort, kept, deltas, ledger)
    local = (
        carry.local if outcome.states is None or carry.local is None else carry.local.after(outcome.ids, outcome.states)
    )
    return Arrived(
        kept, deltas, folded, reports, outcome.losses[sound], end.seconds, ids[started], dropped, unsound, waited, local
    )


def _waiting(training: Training) -> Generator[Training, None, float]:
    """Yield a training; the wall-clock seconds in which other runs went on."""
    left = time.perf_counter()
    yield training
    return time.perf_counter() - left - training.seconds


def _of_server(
    setup: Setup, carry: Carry, cohort: Cohort, ids: Ids, deltas: Vector, ledger: Ledger
) -> dict[str, Answers]:
    """What the server computes itself from the updates that arrived."""
    signals, t = carry.registrar.needs.of_server, carry.registrar.index
    if not signals or not ids.size:
        return {}
    server = SimServer(setup.world, carry.params, ids, deltas, cohort.weights_of(ids)[0], t)
    found: dict[str, Answers] = {signal.name: Reading(ids, signal.of_cohort(server)) for signal in signals}
    ledger.server_passes += server.examples
    return found


def _part(whole: Ids, part: Any) -> Ids:
    """The share that was done; wholes stay as they are."""
    return np.where(part < 1, np.floor(whole * part), whole).astype(np.int64)


def _trained(setup: Setup, carry: Carry, ids: Ids, signals: Sequence[Signal]) -> folding.TrainedUpdates:
    """Train those of a cohort who answer; updates can be used if they are finite, and short enough."""
    outcome = setup.world.train(carry.params, ids, signals, carry.registrar.index)
    updates = folding.as_rows(setup.faults.updates(carry.registrar.index, outcome), carry.params)
    reasons = setup.guards.absurd(norms(updates))
    return outcome, reasons, np.delete(updates, list(reasons), axis=0) if reasons else updates, None


def _only(rows: Answers, ids: Ids) -> Answers:
    if isinstance(rows, Reading):
        return rows.restrict(ids)
    return {client: row for client, row in rows.items() if client in ids}
