"""The simulator as a backend of the driver: clients that answer and train in memory, on devices with a clock.

A round has two halves. :meth:`Simulation.before_training` chooses a cohort and says what is to be trained;
:meth:`Simulation.after_training` takes the updates, steps and records. Whoever calls them may train in between, for
several runs at once (:func:`train_all`); otherwise the second half trains by itself. The program of a round is
:class:`sortition.federation.driver.Driver`; here it is carried out, for whole cohorts at a time, and faults happen.

Whoever is asked or trains is charged in the round's ledger, whether or not the result arrives. Who falls silent or
comes too late is known beforehand here, so that such work is charged, but not done.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.aggregation.limits import shortened, shortened_rows
from sortition.aggregation.memory import UpdateMemory
from sortition.aggregation.step import StepState
from sortition.core.arrays import Array, Floats, Ids, frozen, worst_tenth
from sortition.core.errors import bad
from sortition.core.guards.screening import Answers, norms
from sortition.core.questions import Measure, Reading
from sortition.core.record import RoundRecord
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import UPDATE, ModelSize, Signal
from sortition.core.streams import stream
from sortition.core.turn import Turn
from sortition.federation.driver import Arrivals, Driver, Selection
from sortition.federation.pace import SEEN, Quantile
from sortition.federation.policies import Eligible, PolicyKeeper, facts_of
from sortition.federation.shadow import Shadows
from sortition.learning.together import train_together
from sortition.learning.vector import Vector
from sortition.simulation.devices import RoundEnd
from sortition.simulation.faults import FATES, POINTS
from sortition.simulation.habits import DailyLife
from sortition.simulation.ledger import LANES, NUMBER, Ledger
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import Training, Trainings
from sortition.simulation.setup import Setup, model_size
from sortition.simulation.world import TrainedCohort, World

PATIENCE = 600.0  # simulated seconds that a server waits for somebody eligible before it skips a round


def start(setup: Setup, played: int = 0) -> Simulation:
    """A simulation before its first round, or one that goes on after ``played`` rounds."""
    if setup.pace.overlaps:
        from sortition.simulation.overlap import OverlappingSimulation

        return OverlappingSimulation(setup, played)
    return Simulation(setup, played)


def run(
    setup: Setup,
    rounds: int | None = None,
    on_record: Callable[[Simulation, RoundRecord], object] | None = None,
    simulation: Simulation | None = None,
) -> Simulation:
    """Play until ``rounds`` (default: the horizon) have been played; stop early when ``on_record`` returns True."""
    playing = simulation or start(setup)
    while playing.played < (setup.horizon if rounds is None else rounds):
        record = playing.play_round()
        if on_record is not None and on_record(playing, record) is True:
            break
    return playing


def train_all(trainings: Sequence[Training | Trainings]) -> None:
    """Train for several runs at once; each has its share of the seconds, by examples."""
    begun = time.perf_counter()
    waiting = [(run, part) for run in trainings for part in run.parts if part.ids.size]
    cohorts = [part.drawn() for _, part in waiting]
    train_together(cohorts)
    work = [int(cohort.trained.examples.sum()) for cohort in cohorts]
    seconds = time.perf_counter() - begun
    for (run, part), cohort, examples in zip(waiting, cohorts, work, strict=True):
        part.keep(cohort.trained)
        run.seconds += seconds * examples / sum(work)


class Crash(Exception):  # noqa: N818  (it never reaches a user)
    """The simulated server crashes; nothing of the round is left."""


@dataclass
class InRound:
    """What one round of the simulator is made of, from its choice to its record.

    Attributes:
        setup: the set-up with this round's owners of data and states of optimisers.
        t: the round.
        ledger: what it costs.
        watch: wall-clock seconds of its steps.
        joined: ids of newcomers, and of those whose place was taken.
        lost: answers that never came.
        late: readings that came when their question was closed.
        asking: wall-clock seconds that questions took.
        asked_seconds: simulated ones.
        training: what is to be trained.
        left: when the first half was over.
        nobody_eligible: whether the policy leaves out everybody who is there.
        cohort: who was sent to work.
        end: who answers in time, and when the round is closed.
        fates: (k,) when each member falls silent, an index of FATES; −1: never.
        answering: members whose answers come in time.
        seconds: (k,) how long they take.
        trained: what their training gave.
        updates: (k, P) sound updates; none of a cohort that was folded.
        folded: (P,) the weighted sum of the updates of such a cohort.
        longest: the largest length that the guards allow an update, and their combination.
        losses: (k,) mean training losses of sound members.
        reports: what they report, by signal.
        repeated: reports that came twice, or for a selection that was given up.
        late_answers: how many answers came after all questions.
        dispatched: clients that were sent to work before the step, a selection each, and their fates.
    """

    setup: Setup
    t: int
    ledger: Ledger
    watch: Stopwatch
    joined: dict[str, list[int]] = field(default_factory=dict)
    lost: int = 0
    late: list[Reading] = field(default_factory=list)
    asking: float = 0.0
    asked_seconds: float = 0.0
    training: Training | Trainings | None = None
    left: float = 0.0
    nobody_eligible: bool = False
    cohort: Cohort | None = None
    end: RoundEnd | None = None
    fates: Array | None = None
    answering: Ids | None = None
    seconds: Floats = field(default_factory=lambda: np.empty(0))
    trained: TrainedCohort | None = None
    updates: Vector | None = None
    folded: Vector | None = None
    longest: float = np.inf
    losses: Vector | None = None
    reports: dict[str, Answers] = field(default_factory=dict)
    repeated: dict[str, int] = field(default_factory=dict)
    late_answers: int = 0
    dispatched: list[tuple[Ids, Array]] = field(default_factory=list)


class Stopwatch:
    """Wall-clock seconds of the steps of a round; each lap takes the time since the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str, less: float = 0.0) -> None:
        """End a step, ``less`` the seconds that are counted elsewhere."""
        now = time.perf_counter()
        self.seconds[name] = now - self._last - less
        self._last = now


class SimulatedDriver(Driver):
    """The driver of a server that gives selections up, crashes, and hears reports twice."""

    backend: Simulation

    def begin(self, registrar: Registrar, available: Ids) -> Turn:
        """Begin the turn, sometimes after one that is given up."""
        self.backend.survive("select")
        faults = self.backend.setup.faults
        self._given_up = super().begin(registrar, available) if faults.stale(registrar.index) else None
        return super().begin(registrar, available)

    def finish(self, turn: Turn, arrivals: Arrivals) -> Ids:
        """Close the turn; reports that come twice, or for a turn that was given up, are counted and ignored."""
        backend = self.backend
        if self._given_up is not None:
            super().finish(self._given_up, arrivals)
            backend.now.repeated["stale"] = 1
        usable = super().finish(turn, arrivals)
        if backend.setup.faults.duplicated(turn.index):
            super().finish(turn, arrivals)
            backend.now.repeated["duplicated"] = 1
        return usable

    _given_up: Turn | None = None


class Simulation:
    """One federation in memory, played round by round.

    Args:
        setup: what is played.
        played: rounds that were played before, of a run that goes on.

    Attributes:
        params: the model (P,).
        server: what the server's step remembers.
        memory: what the combining rule remembers.
        local: what the clients' optimisers remember.
        clock: simulated seconds.
        totals: traffic and computing so far.
        test: figures of these params, where known.
        client_scores: (N,) accuracies, or the task's metric, of the last evaluation of every client.
        timings: wall-clock seconds of the last round, by step.
    """

    def __init__(self, setup: Setup, played: int = 0) -> None:
        population = setup.population or setup.world.population()
        if population.n_clients != setup.world.n_clients:
            raise bad("Setup.population", f"of the world's {setup.world.n_clients} clients", population.n_clients)
        self.setup = setup
        initial = setup.world.initial
        self.params: Vector = sealed(initial)
        self.server: StepState = setup.step.init(initial.size)
        self.memory: UpdateMemory | None = setup.combine.init(initial.size, setup.world.n_clients)
        self.local: LocalStates | None = setup.world.states
        self.clock = 0.0
        self.totals: dict[str, int] = dict.fromkeys((*LANES, "passes", "steps"), 0)
        self.test: dict[str, float] | None = None
        self.client_scores: Floats | None = None
        self.timings: dict[str, float] = {}
        self.now = InRound(setup, 0, Ledger(initial.size, setup.world.n_clients), Stopwatch())
        self._size = model_size(setup.world)
        self._crash = len(POINTS)  # the first of POINTS at which the server falls over
        self._saved: tuple[dict[str, Any], tuple[Any, Any], list[dict[str, Any]]] | None = None
        self.policy = PolicyKeeper(setup.policies, SimulatedDirectory(self), seed=setup.seed)
        self.life = DailyLife(setup.habits, setup.world.n_clients, setup.world.seed)
        selection = Selection(setup.selector, setup.horizon, setup.seed, setup.guards)
        self.seen: deque[float] = deque(maxlen=SEEN)  # durations of the last trainings; infinite without an answer
        self.driver = SimulatedDriver(self, selection, setup.cohort_pace, policy=self.policy)
        self.driver.registrar = selection.registrar(setup.known(max(0, played - 1)), self._size)
        if setup.shadows:
            self.driver.shadows = Shadows(
                setup.shadows, type(setup.selector).__name__, only_read=True, pace=setup.cohort_pace.rule
            )
            self.driver.shadows.watch(self.driver.registrar)

    @property
    def registrar(self) -> Registrar:
        """The registrar, one object over all rounds."""
        registrar = self.driver.registrar
        if registrar is None:
            raise bad("Simulation.registrar", "there", None)
        return registrar

    @property
    def played(self) -> int:
        """How many steps were made: versions of the model, without the first."""
        return self.registrar.version

    # -- a round -------------------------------------------------------------------------------------------------------

    def play_round(self) -> RoundRecord:
        """Play one round; where the server crashes in it, it is played once more from what was saved before."""
        self.before_training()
        return self.after_training()

    def before_training(self) -> Training | Trainings:
        """The first half of a round: choose a cohort; what it has to train, for whoever does it beforehand."""
        point = self.setup.faults.crash(self.registrar.index)
        self._crash = len(POINTS) if point is None else point
        self._saved = None if point is None else self._snapshot()
        try:
            return self._open()
        except Crash:
            self._restore()
            return self._open()

    def after_training(self) -> RoundRecord:
        """The second half: take the updates, step, record; what is not trained yet is trained now."""
        try:
            return self.driver.close_round()
        except Crash:
            self._restore()
            self._open()
            return self.driver.close_round()

    def _open(self) -> Training | Trainings:
        self.driver.open_round()
        self.driver.dispatch()
        training = self.now.training
        if training is None:
            raise bad("before_training", "a training", None)
        self.now.left = time.perf_counter()
        return training

    def survive(self, point: str) -> None:
        """Crash at this point, if the server does so in this round."""
        if POINTS.index(point) >= self._crash:
            raise Crash(point)

    def _snapshot(self) -> tuple[dict[str, Any], tuple[Any, Any], list[dict[str, Any]]]:
        """What a server saves: what its next round depends on."""
        arrays, header = self.registrar.export()
        kept = {name: array.copy() for name, array in arrays.items()}
        state = {
            name: getattr(self, name) for name in ("params", "server", "memory", "local", "clock", "totals", "test")
        }
        state["seen"] = self.seen.copy()
        return state, (kept, json.loads(json.dumps(header))), self.policy.export()

    def _restore(self) -> None:
        """Go on from what was saved; the server does not fall over twice."""
        if self._saved is not None:
            state, selection, policy_counts = self._saved
            for name, value in state.items():
                setattr(self, name, value)
            self.registrar.restore(*selection)
            self.policy.restore(policy_counts)
        self._crash = len(POINTS)
        self._saved = None

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Who can be reached; those who took an id over bring other data."""
        t = self.registrar.index
        setup = self.setup.at(t)
        self.now = InRound(setup, t, Ledger(self.params.size, setup.world.n_clients), Stopwatch())
        self._note_newcomers(t)
        self.now.setup = setup.remembering(self.local)
        return self._admitted(np.flatnonzero(setup.reachable(t, self.clock)), t)

    def _admitted(self, there: Ids, t: int) -> Ids:
        """Ask the policy who is eligible; returned are all, of whom the driver leaves out those that it excludes."""
        self.policy.round = t
        admitted = self.policy.admit(there, self._with_facts)
        self.now.nobody_eligible = bool(self.policy.excluded) and not admitted.size
        return self.policy.with_excluded(admitted)

    def _with_facts(self, ids: Ids) -> Eligible:
        names = facts_of(self.setup.policies)
        if not names:
            return Eligible(ids, {})
        population = self.now.setup.known(self.now.t)
        facts: dict[str, Array] = {}
        if any(name not in population.facts for name in names):
            facts = self.life.facts(self.clock)
        facts |= {name: np.asarray(getattr(population, name)) for name in names if name in population.facts}
        return Eligible(ids, {name: facts[name][ids] for name in names})

    def _note_newcomers(self, t: int) -> None:
        """Note who joined, and forget what was remembered of those whose ids others took."""
        faults = self.setup.faults
        taken = faults.taken(t)
        before, size = faults.size(max(0, t - 1)), faults.size(t)
        ids = {"joined": list(range(before, size)), "taken": taken.tolist()}
        self.now.joined = {name: clients for name, clients in ids.items() if clients}
        if taken.size and self.memory is not None:
            self.memory = self.memory.without(taken)
        if taken.size and self.local is not None:
            self.local = self.local.without(taken)

    def population(self) -> Population | None:
        """What is known of the clients, where some joined or took an id over; everybody sends its facts once."""
        faults, t = self.setup.faults, self.now.t
        taken = faults.taken(t)
        before, size = faults.size(max(0, t - 1)), faults.size(t)
        known = self.registrar.population
        facts = sum(getattr(known, name)[:1].size for name in self.registrar.needs.reads)
        self.now.ledger.facts(facts * (size if t == 0 else size - before + taken.size))
        return self.now.setup.known(t) if size > known.n_clients or taken.size else None

    def model_size(self) -> ModelSize:
        """How long the vectors are that belong to the model."""
        return self._size

    # -- questions -----------------------------------------------------------------------------------------------------

    def ask(self, turn: Turn, question: Measure) -> Answers:
        """The answers that come in time, some of them damaged; others are lost, or come after all questions."""
        now = self.now
        world, faults = now.setup.world, now.setup.faults
        begun = time.perf_counter()
        whole = world.measure(self.params, question, turn.index)
        self.survive("answer")
        in_time, too_late = faults.answers(turn.index, question, whole)
        now.lost += len(whole) - len(in_time) - len(too_late)
        now.late.append(too_late)
        now.late_answers += len(too_late)
        now.ledger.question(question, in_time)
        now.ledger.bytes["wasted_up"] += NUMBER * int(too_late.values.size)
        now.asked_seconds += self._charge(world, question, turn.index)
        now.asking += time.perf_counter() - begun
        return faults.damage(turn.index, in_time)

    def _charge(self, world: World, question: Measure, t: int) -> float:
        """Charge the clients' computing for a question; how long the slowest takes."""
        ids, signal, ledger, seconds = question.ids, question.signal, self.now.ledger, 0.0
        if question.after is not None:
            members = question.after.ids
            ledger.rehearse(world.costs.examples(members), world.costs.steps(members))
            seconds += float(world.costs.seconds(members, t).max(initial=0.0))
        if signal.of in ("pairs", "device"):
            return seconds
        if signal.of == "training":
            ledger.compute(ids, world.costs.examples(ids), world.costs.steps(ids))
            return seconds + float(world.costs.seconds(ids, t).max(initial=0.0))
        purpose = "training" if signal.backward else "forward"  # a gradient costs what a step of training does
        ledger.passes[purpose] += int(world.costs.examples_read(signal, ids).sum())
        return seconds + float(world.costs.seconds_read(signal, ids, t).max(initial=0.0))

    # -- training ------------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Find out who will answer in time, and charge everybody's work."""
        now, ids, t = self.now, cohort.ids, turn.index
        now.cohort = cohort
        for reading in now.late:
            for client, row in zip(reading.ids.tolist(), reading.values, strict=True):
                turn.answer({client: row})
        now.watch.lap("select", less=now.asking)
        now.watch.seconds["measure"] = now.asking
        world = now.setup.world
        now.fates, progress = now.setup.faults.fates(t, ids)
        target = now.setup.cohort_pace.target(cohort)
        seconds = world.costs.seconds(ids, t)
        limit = now.setup.cohort_pace.deadline_after(self.seen)
        now.end = world.fleet.close(ids, seconds, target, t, silent=now.fates >= 0, limit=limit)
        now.seconds = seconds[now.end.answered]
        examples = _done_part(world.costs.examples(ids), progress)
        steps = _done_part(world.costs.steps(ids), progress)
        started = now.fates != FATES.index("before")
        now.ledger.compute(ids[started], examples[started], steps[started])
        now.ledger.passes["wasted"] += int(examples[~now.end.answered].sum())
        now.answering = ids[now.end.answered]
        to_train = now.answering[:0] if self._folds(now.answering.size) else now.answering
        now.training = world.training(self.params, to_train, self.reported, t)

    @property
    def reported(self) -> tuple[Signal, ...]:
        """The signals that clients report with their updates."""
        return tuple(signal for signal in self.registrar.needs.reports if signal.of != "server")

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """Train those whose answers come in time; their sound updates and reports."""
        now, t = self.now, turn.index
        if now.training is None or now.answering is None or now.end is None or now.fates is None:
            raise bad("collect", "called after dispatch", "a call without")
        waited = time.perf_counter() - now.left - now.training.seconds
        outcome, reasons = self._train(turn, cohort, now.answering)
        unused = int(now.end.late.sum()) + int((now.fates == FATES.index("after")).sum())
        started = cohort.ids[now.fates != FATES.index("before")]
        now.ledger.training(started, int(now.end.answered.sum()), unused)
        now.ledger.reports(self.reported, outcome.reports)
        reports = now.setup.faults.reports(t, outcome)
        sound = np.isin(np.arange(outcome.ids.size), list(reasons), invert=True)
        kept = outcome.ids
        if reasons:
            kept = outcome.ids[sound]
            if now.setup.faults.faults.damaged:  # otherwise the method diverged, and its work counts as done
                wasted = now.setup.world.costs.examples(outcome.ids[~sound])
                now.ledger.passes["wasted"] += int(wasted.sum())
            reports = {name: _rows_of(rows, kept) for name, rows in reports.items()}
        now.reports = reports | self._of_server(cohort, kept)
        now.losses = outcome.losses[sound]
        if outcome.states is not None and self.local is not None:
            self.local = self.local.after(outcome.ids, outcome.states)
        now.watch.lap("train", less=waited)
        self.survive("finish")
        unsound = {int(outcome.ids[row]): reason for row, reason in sorted(reasons.items())}
        self.note_durations(now.seconds, int((~now.end.answered).sum()))
        return Arrivals(kept, unsound, now.seconds[sound])

    def note_durations(self, seconds: Floats, unanswered: int) -> None:
        """Remember how long trainings took, where a deadline follows them."""
        if isinstance(self.setup.pace.deadline, Quantile):
            self.seen.extend(seconds.tolist())
            self.seen.extend([math.inf] * unanswered)

    def _train(self, turn: Turn, cohort: Cohort, ids: Ids) -> tuple[TrainedCohort, dict[int, str]]:
        """What the training of these gives, and which updates cannot be used, by row: not finite, or too long."""
        now = self.now
        t = turn.index
        if self._folds(ids.size):
            outcome, lengths, now.folded = self._folded(ids, cohort.weights_of(ids)[0], self.reported)
            reasons = turn.judge_updates(ids, lengths).refused
            kept = np.delete(ids, list(reasons))
            if reasons and kept.size:  # the others train once more, to the same bits
                _, _, now.folded = self._folded(kept, cohort.weights_of(kept)[0], ())
            now.updates = outcome.deltas
            return outcome, reasons
        outcome = now.setup.world.train(self.params, ids, self.reported, t)
        updates = _as_rows(now.setup.faults.updates(t, outcome), self.params)
        lengths = norms(updates)
        reasons, now.longest = turn.judge_updates(ids, lengths)
        if reasons:
            updates = np.delete(updates, list(reasons), axis=0)
            lengths = np.delete(lengths, list(reasons))
        now.updates = shortened_rows(updates, lengths, now.longest)
        return outcome, reasons

    def _folds(self, clients: int) -> bool:
        """Whether a cohort is larger than one block, and nobody looks at single updates or keeps them.

        Then of each block only Σ a_k Δ_k, norms, losses and reports are left: memory does not grow with the cohort.
        """
        world, needs = self.now.setup.world, self.registrar.needs
        reported = any(signal.compute is UPDATE.compute or signal.of == "pairs" for signal in needs.reports)
        kept = self.setup.combine.individual or world.rule.keep_state or world.adversaries is not None
        looked_at = needs.of_server or reported or kept or self.setup.guards.clip
        return clients > world.block and not looked_at

    def _folded(self, ids: Ids, weights: Floats, signals: Sequence[Signal]) -> tuple[TrainedCohort, Floats, Vector]:
        """What is left of a cohort, the norms of its updates (k,), and Σ a_k Δ_k (P,)."""
        now, params = self.now, self.params
        total = np.zeros(params.size)
        lengths: list[Floats] = []
        blocks: list[TrainedCohort] = []
        for block in now.setup.world.train_in_blocks(params, ids, signals, now.t):
            before = sum(earlier.ids.size for earlier in blocks)
            deltas = _as_rows(now.setup.faults.updates(now.t, block), params)
            lengths.append(norms(deltas))
            with np.errstate(over="ignore", invalid="ignore"):  # of updates that are refused when all have been made
                total += weighted_sum(weights[before : before + block.ids.size], deltas)
            blocks.append(replace(block, deltas=np.empty((0, params.size), np.float32)))
            del block, deltas  # before the next block trains
        with np.errstate(over="ignore", invalid="ignore"):
            update = total.astype(np.float32)
        return _joined(blocks, signals), np.concatenate([np.empty(0), *lengths]), update

    def _of_server(self, cohort: Cohort, ids: Ids) -> dict[str, Answers]:
        """What the server computes itself from the updates that arrived."""
        signals, updates = self.registrar.needs.of_server, self.now.updates
        if not signals or not ids.size or updates is None:
            return {}
        server = ServerData(self.now.setup.world, self.params, ids, updates, cohort.weights_of(ids)[0], self.now.t)
        answers: dict[str, Answers] = {signal.name: Reading(ids, signal.of_cohort(server)) for signal in signals}
        self.now.ledger.server_passes += server.examples
        return answers

    def reports(self, done: Ids) -> Mapping[str, Answers]:
        """What these members report."""
        return self.now.reports

    # -- the next model, and what the round was ------------------------------------------------------------------------

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Combine the updates, and make the server's step."""
        now = self.now
        if now.end is None or now.updates is None:
            raise bad("step", "called after collect", "a call without")
        self.clock = self.clock + now.asked_seconds + now.end.seconds
        if not cohort.ids.size:
            self._wait_for_somebody()
        if done.size:
            self._move(cohort, done, weights, now.updates)
        return {}

    def _move(self, cohort: Cohort, done: Ids, weights: Floats, updates: Vector) -> None:
        """The next model."""
        now = self.now
        update = now.folded
        if update is None:
            update, self.memory = now.setup.combine.apply(
                done,
                weights,
                updates,
                self.memory,
                clients=self.registrar.population.n_clients,
                rate=now.setup.world.rule.lr_at(now.t),
                mass=cohort.mass,
            )
        update = shortened(update, now.longest)
        params, self.server = now.setup.step.apply(self.params, update, self.server)
        self.params = sealed(params)
        self.test = None

    def elapsed(self) -> float:
        """Simulated seconds since the start."""
        return self.clock

    def _wait_for_somebody(self) -> None:
        """Where nobody is at work, the next one can be there in the next slot, or when the policy allows it."""
        if self.now.nobody_eligible:
            self.clock += PATIENCE
        slot = self.setup.pace.slot
        if slot is not None:
            self.clock = (self.clock // slot + 1) * slot

    def costs(self, turn: Turn, arrivals: Arrivals) -> Mapping[str, Any]:
        """Costs, clock, faults and test figures of the round."""
        cohort = self.now.cohort or Cohort.uniform([])
        started = cohort.ids if self.now.fates is None else cohort.ids[self.now.fates != FATES.index("before")]
        return self._costs(cohort.ids, started)

    def _costs(self, sent: Ids, started: Ids) -> dict[str, Any]:
        """Costs, clock, faults and test figures, of clients that were sent to work and those that began."""
        now = self.now
        ledger = now.ledger
        now.watch.lap("aggregate")
        record: dict[str, Any] = self._evaluation(now.t)
        if started.size < sent.size:
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
        losses = now.losses
        record["train_loss"] = None if losses is None or not losses.size else float(losses.mean(dtype=np.float64))
        if faults := self._faults(sent):
            record["faults"] = faults
        self.survive("record")
        now.watch.lap("evaluate")
        self.totals = ledger.added_to(self.totals)
        self.timings = now.watch.seconds
        return record

    def _faults(self, sent: Ids) -> dict[str, Any]:
        """What went wrong: ids by what befell them, or how often it happened."""
        now = self.now
        counts = {"lost": now.lost, "late": now.late_answers}
        dropped = {}
        if now.fates is not None:
            silent = {fate: sent[now.fates == index].tolist() for index, fate in enumerate(FATES)}
            dropped = {fate: ids for fate, ids in silent.items() if ids}
        return {**now.joined, **{name: count for name, count in counts.items() if count}, **dropped, **now.repeated}

    def _evaluation(self, t: int) -> dict[str, Any]:
        """Test figures and clients' figures, in the rounds in which they are due."""
        evaluator, figures = self.now.setup.world.evaluator, dict[str, Any]()
        if self.setup.due(t, self.setup.evaluate_every):
            if self.test is None:
                self.test = evaluator.score(self.params)
            figures["test"] = self.test
        if self.setup.due(t, self.setup.clients_every):
            self.client_scores = evaluator.client_scores(self.params)
            figures["clients"] = client_figures(self.client_scores, higher_is_better=evaluator.higher_is_better)
        return figures


class SimulatedDirectory:
    """What a policy must know of simulated clients: a client is its id, and time is that of the simulated clock."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def name(self, client: int) -> str:
        """The client's id, as text."""
        return str(client)

    def owner(self, client: int) -> str:
        """Its group; empty where the population has none."""
        population = self._simulation.setup.population
        if population is None or "groups" not in population.facts:
            return ""
        return str(population.groups[client])

    def tags(self, client: int) -> tuple[str, ...]:
        """None: simulated clients have no tags."""
        return ()

    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._simulation.clock

    def hour(self, utc: bool) -> float:
        """The simulated hour of the day; a run begins at midnight."""
        return (self._simulation.clock / 3600) % 24

    def model_size(self) -> ModelSize:
        """How long the vectors are that belong to the model."""
        return self._simulation.model_size()


class ServerData:
    """Implements core's ``CohortModels``: losses of parts of a cohort on examples that no client trains on."""

    def __init__(self, world: World, params: Vector, ids: Ids, deltas: Vector, weights: Floats, t: int) -> None:
        self.ids = ids
        self.rng = stream(world.seed, "server signals", t)
        self.examples = 0
        self._world = world
        self._params = params
        self._deltas = deltas
        self._weights = weights
        self._row = {int(client): row for row, client in enumerate(ids)}

    def loss(self, members: Sequence[int]) -> float:
        """Mean loss of the model of these members on the validation set."""
        params, examples = self._params, self._world.validation
        rows = [self._row[int(client)] for client in members]
        if rows:
            total = float(self._weights.sum())
            weights = np.full(len(rows), total / len(rows))
            given = self._weights[rows]
            if given.sum() > 0:
                weights = given * (total / given.sum())
            params = params + weighted_sum(weights, self._deltas[rows])
        self.examples += 0 if examples is None else examples.size
        return float(self._world.learner.passes.losses(params, examples)[0].mean(dtype=np.float64))


def client_figures(scores: Floats, *, higher_is_better: bool = True) -> dict[str, float]:
    """Fairness of the model over clients: mean, spread, the mean of the worst tenth, and the worst client."""
    figures = {"mean": float(scores.mean()), "std": float(scores.std())}
    if higher_is_better:
        worst = worst_tenth(scores)
        return {**figures, "worst_tenth": float(worst.mean()), "min": float(worst[0])}
    worst = -worst_tenth(-scores)
    return {**figures, "worst_tenth": float(worst.mean()), "max": float(worst[0])}


def sealed(params: Vector) -> Vector:
    """The same model, read-only."""
    return frozen(np.ascontiguousarray(params, np.float32))


def _done_part(whole: Ids, progress: Floats) -> Ids:
    """The share that was done; wholes stay as they are."""
    return np.where(progress < 1, np.floor(whole * progress), whole).astype(np.int64)


def _rows_of(rows: Answers, ids: Ids) -> Answers:
    if isinstance(rows, Reading):
        return rows.restrict(ids)
    return {client: row for client, row in rows.items() if client in ids}


def _as_rows(updates: Vector | list[Vector], params: Vector) -> Vector:
    """Updates as they arrive, as (k, P); those of another shape are rows of NaN."""
    if not isinstance(updates, list):
        return updates
    return np.stack([row if row.shape == params.shape else np.full_like(params, np.nan) for row in updates])


def _joined(blocks: Sequence[TrainedCohort], signals: Sequence[Signal]) -> TrainedCohort:
    """All blocks as one cohort."""

    def join(name: str) -> Any:
        return np.concatenate([getattr(block, name) for block in blocks])

    ids = join("ids")
    reports = {
        signal.name: Reading(ids, np.concatenate([block.reports[signal.name].values for block in blocks]))
        for signal in signals
    }
    return TrainedCohort(ids, join("deltas"), reports, join("durations"), join("losses"))
