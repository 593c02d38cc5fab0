"""The simulator as a backend of the driver: clients that answer and train in memory, on devices with a clock.

A round has two halves. :meth:`Simulation.before_training` chooses a cohort and returns what is to be trained;
:meth:`Simulation.after_training` takes the updates, makes the step and returns the record. The caller may train in
between, for several runs at once (:func:`train_all`); otherwise the second half trains by itself. The program of a
round is :class:`sortition.federation.driver.Driver`; here it is carried out, for whole cohorts at a time, and faults
happen.

Clients that are asked or that train are charged in the round's ledger, whether or not the result arrives. It is known
beforehand who falls silent or comes too late, so that such work is charged, but not done.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.aggregation.clipping import clip_update
from sortition.aggregation.memory import UpdateMemory
from sortition.aggregation.step import StepState
from sortition.core.arrays import Array, Floats, Ids, as_read_only, worst_tenth
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER, Currency
from sortition.core.guards.answer_screening import Answers, row_norms
from sortition.core.population import Population
from sortition.core.questions import Measure, Reading
from sortition.core.registrar import Registrar
from sortition.core.round_record import RoundRecord
from sortition.core.signals import UPDATE, ModelSize, Signal
from sortition.core.streams import stream
from sortition.core.turn import Turn
from sortition.federation.driver import AnyTurn, Arrivals, Driver, Selection
from sortition.federation.pace import QUANTILE_TRAININGS, Quantile
from sortition.federation.policies import Eligible, PolicyKeeper, SavedCounts, facts_of
from sortition.federation.shadow import Shadows
from sortition.learning.resident import ResidentArray
from sortition.learning.together import train_together
from sortition.learning.vector import Vector
from sortition.simulation.batteries import DailyLife
from sortition.simulation.current_round import (
    TRAFFIC_PURPOSES,
    CohortAtWork,
    CurrentRound,
    ScreenedTraining,
    SentCohort,
    SoundUpdates,
    screen_updates,
    stack_received_updates,
)
from sortition.simulation.faults import FATES, POINTS
from sortition.simulation.foresight import check_limit
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import PendingTrainings, joined_readings
from sortition.simulation.setup import Setup, model_size
from sortition.simulation.world import CohortReturn, World, is_evaluation_due

PATIENCE = 600.0  # simulated seconds that a server waits for somebody eligible before it skips a round
NO_CRASH = len(POINTS)  # a point that no round reaches
SAVED_ATTRIBUTES = (
    "params",
    "server_state",
    "update_memory",
    "optimiser_states",
    "clock",
    "totals",
    "test_figures",
)  # that a crash must not change


def start(setup: Setup, played: int = 0) -> Simulation:
    """Return a simulation before its first round, or one that goes on after ``played`` rounds."""
    if setup.pace.overlaps:
        from sortition.simulation.event_loop import OverlappingSimulation

        return OverlappingSimulation(setup, played)
    return Simulation(setup, played)


def run(
    setup: Setup,
    rounds: int | None = None,
    on_record: Callable[[Simulation, RoundRecord], object] | None = None,
    simulation: Simulation | None = None,
) -> Simulation:
    """Play until ``rounds`` have been played, or to the end; stop early when ``on_record`` returns True."""
    if simulation is None:
        simulation = start(setup)
    while _goes_on(simulation, rounds):
        record = simulation.play_round()
        if on_record is not None and on_record(simulation, record) is True:
            break
    return simulation


def _goes_on(simulation: Simulation, rounds: int | None) -> bool:
    """Tell whether another round is to be played: until so many have been, or to the end."""
    if rounds is None:
        return not simulation.has_ended
    return simulation.played < rounds


def train_all(trainings: Sequence[PendingTrainings]) -> None:
    """Train for several runs at once; each is charged its share of the seconds, by examples."""
    started_at = time.perf_counter()
    waiting = [(training, part) for training in trainings for part in training.parts if part.ids.size]
    cohorts = [part.drawn() for _, part in waiting]
    train_together(cohorts)
    n_examples = [int(cohort.trained.examples.sum()) for cohort in cohorts]
    seconds = time.perf_counter() - started_at
    for (training, part), cohort, examples in zip(waiting, cohorts, n_examples, strict=True):
        part.keep(cohort.trained)
        training.seconds += seconds * examples / sum(n_examples)


class Crash(Exception):  # noqa: N818  (it never reaches a user)
    """The simulated server crashes; nothing of the round is left."""


@dataclass(frozen=True, eq=False)
class SavedServer:
    """What a server saves before a round in which it will crash.

    Attributes:
        attributes: the attributes of the simulation that a round changes.
        registrar_arrays: the registrar's arrays.
        registrar_header: the registrar's header, as JSON holds it.
        policy_counts: what the policy keeper counted.
    """

    attributes: Mapping[str, object]
    registrar_arrays: Mapping[str, Array]
    registrar_header: Mapping[str, Any]
    policy_counts: SavedCounts


class DisturbedDriver(Driver):
    """The driver of a server that gives selections up, crashes, and receives reports twice."""

    backend: Simulation
    _abandoned_turn: Turn | None = None

    def begin(self, registrar: Registrar, available: Ids) -> Turn:
        """Begin the turn, sometimes after another one that is abandoned."""
        self.backend.crash_if_due("select")
        self._abandoned_turn = None
        if self.backend.setup.faults.stale(registrar.index):
            self._abandoned_turn = super().begin(registrar, available)
        return super().begin(registrar, available)

    def finish(self, turn: Turn, arrivals: Arrivals) -> Ids:
        """Close the turn; reports that come twice, or for an abandoned turn, are counted and ignored."""
        repeated = self.backend.current.repeated
        if self._abandoned_turn is not None:
            super().finish(self._abandoned_turn, arrivals)
            repeated["stale"] = 1
        usable = super().finish(turn, arrivals)
        if self.backend.setup.faults.duplicated(turn.index):
            super().finish(turn, arrivals)
            repeated["duplicated"] = 1
        return usable


class Simulation:
    """One federation in memory, played round by round.

    Args:
        setup: what is played.
        played: how many rounds were played before, of a run that goes on.

    Attributes:
        params: the model (P,).
        server_state: what the server's step remembers.
        update_memory: what the combining rule remembers.
        optimiser_states: what the clients' optimisers remember.
        clock: simulated seconds.
        totals: traffic and computing so far.
        test_figures: the test figures of these params, where they are known.
        client_scores: (N,) every client's accuracy, or the task's metric, after a round that evaluated them; else None.
        timings: wall-clock seconds of the last round, by part.
        registrar: the registrar, one object over all rounds.
        recent_durations: durations of the last trainings, in simulated seconds; infinite where no answer came.
        current: the round that is being played.
    """

    def __init__(self, setup: Setup, played: int = 0) -> None:
        setup.check_deadline()
        check_limit(setup)
        initial = setup.world.initial
        self.setup = setup
        self.params: Vector = sealed(initial)
        self.server_state: StepState = setup.step.init(initial.size)
        self.update_memory: UpdateMemory | None = setup.combine.init(initial.size, setup.world.n_clients)
        self.optimiser_states: LocalStates | None = setup.world.states
        self.clock = 0.0
        self.totals: dict[str, int] = dict.fromkeys((*TRAFFIC_PURPOSES, "passes", "steps"), 0)
        self.test_figures: dict[str, float] | None = None
        self.client_scores: Floats | None = None
        self.timings: dict[str, float] = {}
        self.recent_durations: deque[float] = deque(maxlen=QUANTILE_TRAININGS)
        self.current = CurrentRound.of(setup.world, 0)
        self._size = model_size(setup.world)
        self._crash_index = NO_CRASH  # the first of POINTS at which the server crashes
        self._saved: SavedServer | None = None
        self.policy = PolicyKeeper(setup.policies, SimulatedDirectory(self), seed=setup.seed)
        self.life = DailyLife(setup.habits, setup.world.n_clients, setup.world.seed)
        selection = Selection(setup.selector, setup.horizon, setup.seed, setup.guards)
        driver_class = DisturbedDriver if setup.faults.faults.disturb_server else Driver
        self.driver = driver_class(self, selection, setup.cohort_pace, policy=self.policy)
        self.driver.durations = self.recent_durations
        self.registrar = selection.registrar(setup.known(max(0, played - 1)), self._size)
        self.driver.registrar = self.registrar
        if setup.shadows:
            self.driver.shadows = Shadows(
                setup.shadows, type(setup.selector).__name__, only_read=True, pace=setup.cohort_pace.settings
            )
            self.driver.shadows.watch(self.registrar)

    @property
    def played(self) -> int:
        """Return how many steps were made, each of which made a version of the model."""
        return self.registrar.version

    @property
    def has_ended(self) -> bool:
        """Tell whether all rounds have been played, or their cost has reached the limit."""
        return self._ends_with(self.played, self.totals)

    @property
    def share_of_limit(self) -> float | None:
        """Return how near its end a run is, 0 to 1, by its cost or by its rounds; None where no cost ends it."""
        until = self.setup.until
        if until is None:
            return None
        by_cost = costs_so_far(self.played, self.clock, self.totals)[until.currency] / until.limit
        return min(max(by_cost, self.played / self.setup.most_rounds), 1.0)

    def _ends_with(self, played: int, totals: Mapping[str, int]) -> bool:
        """Say whether a run ends that has played so many rounds, at such totals and at this clock."""
        if played >= self.setup.most_rounds:
            return True
        until = self.setup.until
        return until is not None and until.is_reached(costs_so_far(played, self.clock, totals))

    @property
    def reported(self) -> tuple[Signal, ...]:
        """Return the signals that clients report with their updates."""
        return tuple(signal for signal in self.registrar.needs.reports if signal.of != "server")

    # -- a round -------------------------------------------------------------------------------------------------------

    def play_round(self) -> RoundRecord:
        """Play one round; if the server crashes in it, play it once more from what was saved before."""
        self.before_training()
        return self.after_training()

    def before_training(self) -> PendingTrainings:
        """Play the first half of a round: choose a cohort and return its training, which the caller may do beforehand.

        If the server crashes here, start over from the saved state; it crashes at most once a round.
        """
        crash_index = self.setup.faults.crash_index(self.registrar.index)
        if crash_index is None:
            self._crash_index = NO_CRASH
            self._saved = None
        else:
            self._crash_index = crash_index
            self._saved = self._save()
        try:
            return self._open_round()
        except Crash:
            self._restore()
            return self._open_round()

    def after_training(self) -> RoundRecord:
        """Play the second half: train what nobody has trained yet, take the updates, step, record."""
        try:
            return self._close_round()
        except Crash:
            self._restore()
            self._open_round()
            return self._close_round()

    def _open_round(self) -> PendingTrainings:
        self.driver.open_round()
        self.driver.dispatch()
        self.current.opened_at = time.perf_counter()
        return self.current.training

    def _close_round(self) -> RoundRecord:
        self._train_cohort()
        return self.driver.close_round()

    def _train_cohort(self) -> None:
        """Train those who have not trained with others."""
        training = self.current.training
        started_at = time.perf_counter()
        for part in training.parts:
            part.cache.train(part.ids, part.tracked)
        training.seconds += time.perf_counter() - started_at

    def crash_if_due(self, point: str) -> None:
        """Crash at this point, if the server does so in this round."""
        if POINTS.index(point) >= self._crash_index:
            raise Crash(point)

    def _save(self) -> SavedServer:
        """Copy, in memory, what a server that crashes in this round is restored to."""
        arrays, header = self.registrar.export()
        attributes = {name: getattr(self, name) for name in SAVED_ATTRIBUTES}
        attributes["recent_durations"] = self.recent_durations.copy()
        return SavedServer(
            attributes=attributes,
            registrar_arrays={name: array.copy() for name, array in arrays.items()},
            registrar_header=json.loads(json.dumps(header)),  # a deep copy
            policy_counts=self.policy.export(),
        )

    def _restore(self) -> None:
        """Go on from what was saved; the server does not crash twice in a round."""
        if self._saved is not None:
            for name, value in self._saved.attributes.items():
                setattr(self, name, value)
            self.driver.durations = self.recent_durations
            self.registrar.restore(self._saved.registrar_arrays, self._saved.registrar_header)
            self.policy.restore(self._saved.policy_counts)
        self._crash_index = NO_CRASH
        self._saved = None

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Begin a round, and return who can be reached; clients that took an id over bring other data."""
        t = self.registrar.index
        world = self.setup.world_at(t)
        self.current = CurrentRound.of(world, t)
        self._note_newcomers(t)
        self.current.world = world.beginning(self.clock, self.optimiser_states)
        return self._admitted(np.flatnonzero(self.setup.reachable(t, self.clock)), t)

    def _admitted(self, reachable: Ids, t: int) -> Ids:
        """Ask the policy who is eligible; return all, of whom the driver leaves out those that the policy excludes."""
        self.policy.round = t
        admitted = self.policy.admit(reachable, self._with_facts)
        self.current.nobody_eligible = bool(self.policy.excluded) and not admitted.size
        return self.policy.with_excluded(admitted)

    def _with_facts(self, ids: Ids) -> Eligible:
        """Return clients with the facts that policies read."""
        names = facts_of(self.setup.policies)
        if not names:
            return Eligible(ids, {})
        population = self.setup.known(self.current.t)
        facts: dict[str, Array] = {}
        if any(name not in population.facts for name in names):
            facts = self.life.facts(self.clock)
        facts |= {name: np.asarray(getattr(population, name)) for name in names if name in population.facts}
        return Eligible(ids, {name: facts[name][ids] for name in names})

    def _note_newcomers(self, t: int) -> None:
        """Note who joined, and drop stored updates and optimiser states of clients whose ids others took."""
        faults = self.setup.faults
        taken_ids = faults.taken(t)
        new_ids = faults.newcomers(t)
        if new_ids.size:
            self.current.joined["joined"] = new_ids.tolist()
        if taken_ids.size:
            self.current.joined["taken"] = taken_ids.tolist()
            if self.update_memory is not None:
                self.update_memory = self.update_memory.without(taken_ids)
            if self.optimiser_states is not None:
                self.optimiser_states = self.optimiser_states.without(taken_ids)

    def population(self) -> Population | None:
        """Return what is known of the clients if some joined or took an id over; charge the facts that they send."""
        t = self.current.t
        faults = self.setup.faults
        n_taken = faults.taken(t).size
        n_clients = faults.size(t)
        n_senders = n_clients  # in the first round everybody sends its facts
        if t > 0:
            n_senders = faults.newcomers(t).size + n_taken
        population = self.registrar.population
        numbers_per_client = sum(getattr(population, name)[:1].size for name in self.registrar.needs.reads)
        self.current.ledger.charge_facts(numbers_per_client * n_senders)
        if n_clients > population.n_clients or n_taken:
            return self.setup.known(t)
        return None

    def model_size(self) -> ModelSize:
        """Return how long the vectors are that belong to the model."""
        return self._size

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, turn: Turn, question: Measure) -> Answers:
        """Return the answers that come in time, some of them damaged; others are lost, or come after all questions."""
        current = self.current
        world = current.world
        faults = self.setup.faults
        started_at = time.perf_counter()
        reading = world.measure(self.params, question, turn.index)
        self.crash_if_due("answer")
        in_time, too_late = faults.answers(turn.index, question, reading)
        current.n_lost_answers += len(reading) - len(in_time) - len(too_late)
        current.late_readings.append(too_late)
        current.n_late_answers += len(too_late)
        current.ledger.charge_question(question, in_time)
        current.ledger.bytes["wasted_up"] += BYTES_PER_NUMBER * int(too_late.values.size)
        current.seconds_asking += self._charge_question(world, question, turn.index)
        current.wall_seconds_asking += time.perf_counter() - started_at
        return faults.damage(turn.index, in_time)

    def _charge_question(self, world: World, question: Measure, t: int) -> float:
        """Charge the clients' computing for a question; return the simulated seconds that the slowest takes."""
        ids = question.ids
        signal = question.signal
        ledger = self.current.ledger
        seconds = 0.0
        if question.after is not None:
            members = question.after.ids
            ledger.charge_rehearsal(world.costs.examples(members), world.costs.steps(members))
            seconds += float(world.costs.seconds(members, t).max(initial=0.0))
        if signal.of in ("pairs", "device"):
            return seconds
        if signal.of == "training":
            ledger.charge_computing(ids, world.costs.examples(ids), world.costs.steps(ids))
            return seconds + float(world.costs.seconds(ids, t).max(initial=0.0))
        purpose = "training" if signal.backward else "forward"  # a gradient costs what a step of training does
        ledger.passes[purpose] += int(world.costs.examples_read(signal, ids).sum())
        return seconds + float(world.costs.seconds_read(signal, ids, t).max(initial=0.0))

    def _end_questions(self, turn: Turn) -> None:
        """Deliver the answers that came too late, which the turn refuses, and stop the watch of the choice."""
        current = self.current
        for reading in current.late_readings:
            for client, row in zip(reading.ids.tolist(), reading.values, strict=True):
                turn.answer({client: row})
        if "select" not in current.watch.seconds:
            current.watch.lap("select", less=current.wall_seconds_asking)
            current.watch.seconds["measure"] = current.wall_seconds_asking

    # -- training ------------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Find out who will answer in time, and charge everybody's work."""
        current = self.current
        world = current.world
        ids = cohort.ids
        t = turn.index
        members, examples = self._sent_to_work(turn, cohort)
        seconds = world.costs.seconds(ids, t)
        end = world.fleet.close(
            ids,
            seconds,
            target=self.setup.cohort_pace.target(cohort),
            t=t,
            silent=members.fates >= 0,
            limit=self.setup.cohort_pace.deadline_after(self.recent_durations),
        )
        current.ledger.passes["wasted"] += int(examples[~end.answered].sum())
        current.at_work = CohortAtWork(
            cohort=cohort, members=members, end=end, answering=ids[end.answered], seconds=seconds[end.answered]
        )
        to_train = current.at_work.answering
        if self._folds(to_train.size):  # then it is trained when the round is closed, block by block
            to_train = NOBODY
        current.training = PendingTrainings([world.training(self.params, to_train, self.reported, t)])

    def _sent_to_work(self, turn: Turn, cohort: Cohort) -> tuple[SentCohort, Ids]:
        """Charge the computing of a cohort; return who falls silent, and on how many examples each client computes."""
        self._end_questions(turn)
        ids = cohort.ids
        fates, progress = self.setup.faults.fates(turn.index, ids)
        members = SentCohort(ids, fates)
        self.current.sent_cohorts.append(members)
        costs = self.current.world.costs
        examples = _done_part(costs.examples(ids), progress)
        steps = _done_part(costs.steps(ids), progress)
        started = fates != FATES.index("before")
        self.current.ledger.charge_computing(ids[started], examples[started], steps[started])
        return members, examples

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """Train those whose answers come in time; return whose updates are sound."""
        current = self.current
        at_work = current.at_work
        idle_seconds = time.perf_counter() - current.opened_at - current.training.seconds
        screened = self._train(turn, cohort, at_work.answering)
        outcome = screened.outcome
        n_unused = int(at_work.end.late.sum()) + at_work.members.with_fate("after").size
        current.ledger.charge_training(at_work.members.started, int(at_work.end.answered.sum()), n_unused)
        reports = self.setup.faults.reports(turn.index, outcome)
        reports = self._keep_results(screened, reports, examples=current.world.costs.examples(outcome.ids))
        current.watch.lap("train", less=idle_seconds)
        self.crash_if_due("finish")
        self.note_durations(at_work.seconds, n_unanswered=int((~at_work.end.answered).sum()))
        durations = at_work.seconds[screened.is_sound]
        return Arrivals(screened.sound_ids, screened.reasons, durations=durations, reports=reports)

    def _keep_results(
        self, screened: ScreenedTraining, reports: dict[str, Answers], examples: Ids
    ) -> dict[str, Answers]:
        """Keep the results of a training for the step: sound updates with their losses, and optimisers' states.

        Return what the clients of sound updates, and the server, report.

        Args:
            screened: what the training gave.
            reports: what clients report, as it arrives, by signal.
            examples: (k,) on how many examples each client computed.
        """
        current = self.current
        outcome = screened.outcome
        current.ledger.charge_reports(self.reported, outcome.reports)
        current.updates = screened.updates
        sound_ids = screened.sound_ids
        if screened.refused:
            reports = {name: _restricted(answers, sound_ids) for name, answers in reports.items()}
            if self.setup.faults.faults.damaged:  # otherwise the method diverged, and its work counts as done
                current.ledger.passes["wasted"] += int(examples[~screened.is_sound].sum())
        if outcome.states is not None and self.optimiser_states is not None:
            self.optimiser_states = self.optimiser_states.after(outcome.ids, outcome.states)
        return reports | self._server_reports(sound_ids)

    def note_durations(self, seconds: Floats, n_unanswered: int) -> None:
        """Remember how long trainings took, where the deadline follows them."""
        if isinstance(self.setup.pace.deadline, Quantile):
            self.recent_durations.extend(seconds.tolist())
            self.recent_durations.extend([math.inf] * n_unanswered)

    def _train(self, turn: Turn, cohort: Cohort, ids: Ids) -> ScreenedTraining:
        """Train these members, and let the guards judge their updates."""
        if self._folds(ids.size):
            return self._train_folded(turn, cohort, ids)
        outcome = self.current.world.train(self.params, ids, self.reported, turn.index)
        updates = stack_received_updates(self.setup.faults.updates(turn.index, outcome), self.params)
        return screen_updates(outcome, updates, turn.judge_updates)

    def _train_folded(self, turn: Turn, cohort: Cohort, ids: Ids) -> ScreenedTraining:
        """Train a large cohort block by block, and keep only the weighted sum of its updates."""
        outcome, lengths, total = self._train_and_sum(ids, cohort.weights_of(ids)[0], self.reported)
        refused_rows = turn.judge_updates(ids, lengths).refused_rows
        sound_ids = np.delete(ids, list(refused_rows))
        if refused_rows and sound_ids.size:  # the others train once more, to the same bits
            _, _, total = self._train_and_sum(sound_ids, cohort.weights_of(sound_ids)[0], ())
        losses = np.delete(outcome.losses, list(refused_rows))
        return ScreenedTraining(outcome, refused_rows, SoundUpdates(rows=outcome.deltas, losses=losses, total=total))

    def _folds(self, n_clients: int) -> bool:
        """Say whether a cohort is larger than one block, and nothing looks at single updates.

        Then of each block only Σ a_k Δ_k, norms, losses and reports are left: memory does not grow with the cohort.
        """
        world = self.current.world
        if n_clients <= world.cache.block:
            return False
        needs = self.registrar.needs
        updates_are_reported = any(signal.compute is UPDATE.compute or signal.of == "pairs" for signal in needs.reports)
        updates_are_kept = self.setup.combine.individual or world.rule.keep_state
        return not (
            needs.of_server
            or updates_are_reported
            or updates_are_kept
            or world.adversaries is not None
            or self.setup.guards.clip
        )

    def _train_and_sum(
        self, ids: Ids, weights: Floats, signals: Sequence[Signal]
    ) -> tuple[CohortReturn, Floats, Vector]:
        """Train block by block; return what is left of the cohort, its updates' norms (k,), and Σ a_k Δ_k (P,)."""
        current = self.current
        params = self.params
        total: Array = np.zeros(())
        lengths: list[Floats] = []
        blocks: list[CohortReturn] = []
        n_trained = 0
        for block in current.world.train_in_blocks(params, ids, signals, current.t):
            deltas = stack_received_updates(self.setup.faults.updates(current.t, block), params)
            lengths.append(row_norms(deltas))
            block_weights = weights[n_trained : n_trained + block.ids.size]
            with np.errstate(over="ignore", invalid="ignore"):  # of updates that are refused when all have been made
                total = total + weighted_sum(block_weights, deltas).astype(np.float64)
            n_trained += block.ids.size
            blocks.append(replace(block, deltas=np.empty((0, params.size), np.float32)))
            del block, deltas  # before the next block trains
        with np.errstate(over="ignore", invalid="ignore"):
            update = total.astype(np.float32)
        return _joined(blocks, signals), np.concatenate([np.empty(0), *lengths]), update

    def _server_reports(self, ids: Ids) -> dict[str, Answers]:
        """Return what the server computes itself from the updates of these clients, by signal."""
        signals = self.registrar.needs.of_server
        if not signals or not ids.size:
            return {}
        server = ServerData(
            world=self.current.world,
            params=self.params,
            ids=ids,
            deltas=self.current.updates.rows,
            weights=self._weights_of(ids),
            t=self.current.t,
        )
        reports: dict[str, Answers] = {signal.name: Reading(ids, signal.of_cohort(server)) for signal in signals}
        self.current.ledger.server_passes += server.examples
        return reports

    def _weights_of(self, ids: Ids) -> Floats:
        """Return the weights that the updates of these clients have in the step."""
        return self.current.at_work.cohort.weights_of(ids)[0]

    # -- the next model, and the record of the round -------------------------------------------------------------------

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Combine the updates, and make the server's step."""
        current = self.current
        self.clock = self.clock + current.seconds_asking + current.at_work.end.seconds
        if not cohort.ids.size:
            self._wait_for_somebody()
        if done.size:
            self._advance_model(cohort, done, weights, current.updates)
        return {}

    def _advance_model(self, cohort: Cohort, ids: Ids, weights: Floats, updates: SoundUpdates) -> None:
        """Make the next model."""
        update = updates.total
        if update is None:
            update, self.update_memory = self.setup.combine.apply(
                ids,
                weights,
                updates.rows,
                self.update_memory,
                clients=self.registrar.population.n_clients,
                rate=self.current.world.rule.lr_at(self.current.t),
                mass=cohort.mass,
            )
        update = clip_update(update, updates.norm_limit)
        params, self.server_state = self.setup.step.apply(self.params, update, self.server_state)
        self.params = sealed(params)
        self.test_figures = None

    def elapsed(self) -> float | None:
        """Return the simulated seconds since the start; None where all devices are alike.

        There seconds are another count of rounds, and no method should spend anything to save them.
        """
        if self.current.world.fleet.devices_differ:
            return self.clock
        return None

    def _wait_for_somebody(self) -> None:
        """Let the clock run to the next slot, or until the server's patience ends, where nobody is at work."""
        if self.current.nobody_eligible:
            self.clock += PATIENCE
        slot = self.setup.pace.slot
        if slot is not None:
            self.clock = (self.clock // slot + 1) * slot

    def costs(self, turn: AnyTurn, arrivals: Arrivals) -> Mapping[str, Any]:
        """Return costs, clock, faults and test figures of the round."""
        current = self.current
        ledger = current.ledger
        everybody_sent = current.everybody_sent
        started = everybody_sent.started
        current.watch.lap("aggregate")
        totals = ledger.added_to(self.totals)
        record: dict[str, Any] = self._evaluation(current.t, is_last=self._ends_with(current.t + 1, totals))
        if started.size < everybody_sent.ids.size:
            record["started"] = started.tolist()
        if ledger.trainings > started.size:  # clients that were asked for a result of training, and not chosen
            record["trainings"] = ledger.trainings
            record["uploads"] = ledger.uploads
        record["bytes"] = dict(ledger.bytes)
        record["passes"] = dict(ledger.passes)
        if ledger.server_passes:
            record["server_passes"] = ledger.server_passes
        record["steps"] = ledger.steps
        record["clock"] = self.clock
        record["train_loss"] = None
        losses = current.updates.losses
        if losses.size:
            record["train_loss"] = float(losses.mean(dtype=np.float64))
        faults = self._faults(everybody_sent)
        if faults:
            record["faults"] = faults
        self.crash_if_due("record")
        current.watch.lap("evaluate")
        self.totals = totals
        self.timings = current.watch.seconds
        return record

    def _faults(self, everybody_sent: SentCohort) -> dict[str, list[int] | int]:
        """Return what went wrong: ids by what happened to them, or how often it happened."""
        current = self.current
        faults: dict[str, list[int] | int] = {**current.joined}
        if current.n_lost_answers:
            faults["lost"] = current.n_lost_answers
        if current.n_late_answers:
            faults["late"] = current.n_late_answers
        for fate in FATES:
            silent = everybody_sent.with_fate(fate)
            if silent.size:
                faults[fate] = silent.tolist()
        return {**faults, **current.repeated}

    def _evaluation(self, t: int, *, is_last: bool) -> dict[str, Any]:
        """Return test figures and clients' figures, in the rounds in which they are due, and in the last one."""
        evaluator = self.current.world.evaluator
        figures: dict[str, Any] = {}
        if is_evaluation_due(t, self.setup.evaluate_every, is_last=is_last):
            if self.test_figures is None:
                self.test_figures = evaluator.score(self.params)
            figures["test"] = self.test_figures
        self.client_scores = None
        if is_evaluation_due(t, self.setup.clients_every, is_last=is_last):
            self.client_scores = evaluator.client_scores(self.params)
            figures["clients"] = client_figures(self.client_scores, higher_is_better=evaluator.higher_is_better)
        return figures


class SimulatedDirectory:
    """What a policy must know of simulated clients: a client is its id, and time is that of the simulated clock."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def name(self, client: int) -> str:
        """Return the client's id, as text."""
        return str(client)

    def owner(self, client: int) -> str:
        """Return the client's group; empty where the population has none."""
        population = self._simulation.setup.population
        if "groups" not in population.facts:
            return ""
        return str(population.groups[client])

    def tags(self, client: int) -> tuple[str, ...]:
        """Return no tags: simulated clients have none."""
        return ()

    def now(self) -> float:
        """Return the simulated seconds since the start."""
        return self._simulation.clock

    def hour(self, utc: bool) -> float:
        """Return the simulated hour of the day; a run begins at midnight."""
        return (self._simulation.clock / 3600) % 24

    def model_size(self) -> ModelSize:
        """Return how long the vectors are that belong to the model."""
        return self._simulation.model_size()


class ServerData:
    """Implements core's ``CohortModels``: losses of parts of a cohort on examples that no client trains on.

    Args:
        world: the world with the server's examples.
        params: (P,) the model before the step.
        ids: (k,) the clients whose updates arrived.
        deltas: (k, P) their updates.
        weights: (k,) their weights.
        t: the round.

    Attributes:
        ids: the clients whose updates arrived.
        rng: the generator for signals that sample.
        examples: on how many examples the server has computed.
    """

    def __init__(self, *, world: World, params: Vector, ids: Ids, deltas: Vector, weights: Floats, t: int) -> None:
        self.ids = ids
        self.rng = stream(world.seed, "server signals", t)
        self.examples = 0
        self._world = world
        self._params = params
        self._deltas = deltas
        self._weights = weights
        self._row_of = {int(client): row for row, client in enumerate(ids)}

    def loss(self, members: Sequence[int]) -> float:
        """Return the mean loss, on the validation set, of the model that these members make."""
        params = self._params
        rows = [self._row_of[int(client)] for client in members]
        if rows:
            params = params + weighted_sum(self._shared_weights(rows), self._deltas[rows])
        validation = self._world.validation
        if validation is not None:
            self.examples += validation.size
        return float(self._world.learner.passes.losses_and_hits(params, validation)[0].mean(dtype=np.float64))

    def _shared_weights(self, rows: list[int]) -> Floats:
        """Return the weights of some members if they share the weight of the whole cohort."""
        total = float(self._weights.sum())
        weights = self._weights[rows]
        if weights.sum() > 0:
            return weights * (total / weights.sum())
        return np.full(len(rows), total / len(rows))


def client_figures(scores: Floats, *, higher_is_better: bool = True) -> dict[str, float]:
    """Return how fair the model is to clients: mean, spread, the mean of the worst tenth, and the worst client."""
    figures = {"mean": float(scores.mean()), "std": float(scores.std())}
    if higher_is_better:
        worst = worst_tenth(scores)
        return {**figures, "worst_tenth": float(worst.mean()), "min": float(worst[0])}
    worst = -worst_tenth(-scores)
    return {**figures, "worst_tenth": float(worst.mean()), "max": float(worst[0])}


def costs_so_far(played: int, clock: float, totals: Mapping[str, int]) -> dict[Currency, float]:
    """Return what a run has cost after so many rounds, at this clock, with these totals of traffic and computing."""
    megabytes = sum(totals[lane] for lane in TRAFFIC_PURPOSES) / BYTES_PER_MEGABYTE
    return {"rounds": float(played), "seconds": clock, "megabytes": megabytes, "passes": float(totals["passes"])}


def sealed(params: Vector) -> Vector:
    """Return the same model, read-only; nobody writes into one that lives on an accelerator."""
    if isinstance(params, ResidentArray):
        return params
    return as_read_only(np.ascontiguousarray(params, np.float32))


def _done_part(planned: Ids, progress: Floats) -> Ids:
    """Return the part of the planned work that was done; whole work stays as it is."""
    return np.where(progress < 1, np.floor(planned * progress), planned).astype(np.int64)


def _restricted(answers: Answers, ids: Ids) -> Answers:
    """Return the answers of these clients."""
    if isinstance(answers, Reading):
        return answers.restrict(ids)
    return {client: row for client, row in answers.items() if client in ids}


def _joined(blocks: Sequence[CohortReturn], signals: Sequence[Signal]) -> CohortReturn:
    """Return all blocks as one cohort."""
    ids = np.concatenate([block.ids for block in blocks])
    reports = {signal.name: joined_readings([block.reports[signal.name] for block in blocks]) for signal in signals}
    return CohortReturn(
        ids=ids,
        deltas=np.concatenate([block.deltas for block in blocks]),
        reports=reports,
        durations=np.concatenate([block.durations for block in blocks]),
        losses=np.concatenate([block.losses for block in blocks]),
    )
