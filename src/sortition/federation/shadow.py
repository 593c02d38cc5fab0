"""Shadow selection: other selectors choose beside the live one, from what it learns anyway, and send nothing.

A shadow has a registrar of its own. When a round is over, it chooses among the same available clients. Its questions
are answered by the rows that clients sent to the live method's own questions; nobody else is asked, so to a shadow
they are silent. Of its cohort those count as trained whose updates came to the live method, with the reports that came.
What a shadow wanted and could not know stands in the record. Whatever it raises is caught: live cohorts do not depend
on shadows in any way.

Where work outlives a step, a shadow goes through the same selections, endings and steps in the same order. Members
that the live method did not choose are given up at once, since nobody trains for a shadow; the others are in flight for
the shadow as long as for the live method.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.errors import InputError, StorageError
from sortition.core.guards.answer_screening import Answers
from sortition.core.in_flight import ServerStep
from sortition.core.intake import attach_ids
from sortition.core.mixtures import cohort_mixture, label_mixtures, population_mixture, total_variation
from sortition.core.observer import Reports, add_observer
from sortition.core.population import Population
from sortition.core.questions import Measure, Reading
from sortition.core.registrar import Registrar
from sortition.core.round_record import ShadowRecord
from sortition.core.selector import AnySelector, resolve_for
from sortition.core.storage.snapshot import add_prefix, take_part
from sortition.core.turn import Turn
from sortition.federation.pace import Pace
from sortition.federation.participation import Participation

MOST_QUESTIONS = 1000  # of one shadow in a round; more is an endless loop
MOST_IDS = 100  # of a shadow's cohort in a record
LONGEST_ERROR = 200  # characters of what a shadow raised, in a record
LABELS = "label_counts"
NOT_TRAINED = "the live method did not choose it"
UNSOUND = "its update is unsound"
UNDER_WAY = ("chosen", "online", "last_available")  # arrays of a registrar's snapshot, beside those of the flights

Header = dict[str, Any]  # as JSON knows it
Exported = tuple[dict[str, Array], Header]


@dataclass
class Seen:
    """What a shadow may know of a live round.

    Attributes:
        turn: the live turn.
        available: who could be chosen.
        budget: places.
        strikes: (N,) rounds in which each client was unsound, before this one.
        quarantined_until: (N,) until when each is in quarantine.
        answers: what clients answered to the live method's questions.
        finished: whose updates came.
        reports: what these reported, by signal.
    """

    turn: Turn
    available: Ids
    budget: int
    strikes: Ids
    quarantined_until: Ids
    answers: list[tuple[Measure, Answers]] = field(default_factory=list)
    finished: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    reports: dict[str, Answers] = field(default_factory=dict)

    @property
    def cohort(self) -> Cohort:
        """Return whom the live method chose."""
        return self.turn.cohort or Cohort.uniform([])

    @property
    def eligible(self) -> Ids:
        """Return who could be chosen, without those that a policy left out."""
        excluded = self.turn.excluded
        if not excluded:
            return self.available
        return np.setdiff1d(self.available, np.concatenate(list(excluded.values())))

    def rows(self, question: Measure) -> dict[int, Array]:
        """Return the rows that answer a shadow's question, of clients that were asked the same in this round."""
        rows: dict[int, Array] = {}
        if question.after is not None or question.signal.of == "pairs":
            return rows  # nobody rehearsed for the shadow, and products are of the pairs that were asked
        for live_question, answers in self.answers:
            if live_question.signal == question.signal and live_question.after is None:
                rows |= _rows_by_client(answers)
        return {client: rows[client] for client in question.ids.tolist() if client in rows}


def _rows_by_client(answers: Answers) -> dict[int, Array]:
    """Return copies of the rows: a shadow may do with them what it likes."""
    if isinstance(answers, Reading):
        return {client: np.array(row) for client, row in zip(answers.ids.tolist(), answers.values, strict=True)}
    return {int(client): np.array(row) for client, row in answers.items()}


@dataclass
class Inquiry:
    """What a shadow wanted to know in a round.

    Attributes:
        rows_asked: rows that it asked for, over all questions.
        rows_known: of these, rows that clients had sent anyway.
        trainings: clients that would have trained for a question.
        unknown: signal → rows of questions and reports that nobody had sent.
    """

    rows_asked: int = 0
    rows_known: int = 0
    trainings: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def count(self, question: Measure, known: int) -> None:
        """Count a question, of which so many rows are known."""
        self.rows_asked += int(question.ids.size)
        self.rows_known += known
        if question.signal.of == "training":
            self.trainings += int(question.ids.size)
        if question.after is not None:
            self.trainings += int(question.after.ids.size)
        self.miss(question.signal.name, int(question.ids.size) - known)

    def miss(self, signal: str, rows: int) -> None:
        """Count rows that are not known."""
        if rows:
            self.unknown[signal] = self.unknown.get(signal, 0) + rows


@dataclass(frozen=True)
class Ended:
    """The work of clients ended without an update."""

    clients: Ids
    reason: str


@dataclass(frozen=True)
class Stepped:
    """The live method made a step, with these reports."""

    step: ServerStep
    reports: Mapping[str, Answers]


Event = Seen | Ended | Stepped  # a selection that was dispatched, an end of work, a step


@dataclass
class Choices:
    """What a shadow chose between two steps.

    Attributes:
        inquiry: what it wanted to know.
        ids: whom it chose, selection after selection.
        weights: what their updates would weigh.
        chosen_live: of ``ids``, whether the live method chose it in the same selection.
        trained: how many of their updates came.
        error: what it raised; empty where it raised nothing.
    """

    inquiry: Inquiry = field(default_factory=Inquiry)
    ids: Ids = field(default_factory=lambda: NOBODY)
    weights: Floats = field(default_factory=lambda: np.empty(0))
    chosen_live: Array = field(default_factory=lambda: np.empty(0, bool))
    trained: int = 0
    error: str = ""

    def add(self, cohort: Cohort, live: Cohort) -> Array:
        """Count one selection; return a mask (k,) of its cohort: whom the live method chose, too."""
        chosen_live = np.isin(cohort.ids, live.ids)
        self.ids = np.concatenate([self.ids, cohort.ids])
        self.weights = np.concatenate([self.weights, cohort.weights])
        self.chosen_live = np.concatenate([self.chosen_live, chosen_live])
        return chosen_live


class Shadow:
    """One method in the shadow of another.

    Args:
        label: what records call it.
        selector: the method.
        pace: of the federation; default: rounds.

    Attributes:
        registrar: its own; None before the first round, and where it cannot begin.
        participation: how often it would have chosen each client.
        cannot: why it cannot choose at all; empty where it can.
    """

    def __init__(self, label: str, selector: AnySelector, pace: Pace | None = None) -> None:
        self.label = label
        self.selector = selector
        self.pace = Pace() if pace is None else pace
        self.registrar: Registrar | None = None
        self.participation = Participation()
        self.cannot = ""
        self._choices = Choices()  # since the last step

    def begin(self, live: Registrar, population: Population) -> None:
        """Make a registrar beside the live one; where that is impossible, ``cannot`` says why."""
        self.registrar = None
        self.cannot = ""
        try:
            selector = resolve_for(self.selector, population)
            self.pace.check_selector(selector)
            missing_facts = [fact for fact in selector.needs.reads if fact not in population.facts]
            if missing_facts:
                self.cannot = f"it reads {', '.join(missing_facts)}, which the live method does not"
                return
            self.registrar = Registrar(
                self.selector, population, horizon=live.horizon, seed=live.seed, guards=live.guards
            )
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the shadow's own code
            self.cannot = _raised(error)

    def play(self, seen: Seen, live: Registrar) -> ShadowRecord:
        """Choose in a round that is over, and learn from what came; whatever it raises becomes a remark."""
        if self.registrar is None:
            return {"cannot": self.cannot}
        try:
            return self._play(seen, live, self.registrar)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the shadow's own code: its state stays as it was before the round
            return {"error": _raised(error)}

    def _play(self, seen: Seen, live: Registrar, registrar: Registrar) -> ShadowRecord:
        choices = Choices()
        turn = self._choose(seen, registrar, choices.inquiry)
        cohort = turn.cohort or Cohort.uniform([])
        arrived = cohort.ids[np.isin(cohort.ids, seen.finished)]
        reports = self._reports(
            seen.reports, registrar, arrived=arrived, n_expected=cohort.ids.size, inquiry=choices.inquiry
        )
        registrar.finish(turn, arrived, reports)
        self._count(seen, live, cohort)
        choices.add(cohort, seen.cohort)
        choices.trained = int(arrived.size)
        return self._remark(live, choices)

    def _count(self, seen: Seen, live: Registrar, cohort: Cohort) -> None:
        self.participation.count(
            cohort=cohort.ids,
            present=seen.eligible,
            round_index=seen.turn.version,
            clients=live.population.n_clients,
        )

    def _choose(self, seen: Seen, registrar: Registrar, inquiry: Inquiry) -> Turn:
        """Play a turn of the shadow's own registrar, in step with the live one."""
        registrar.index = seen.turn.index
        registrar.version = seen.turn.version
        registrar.n_log_entries = seen.turn.index
        registrar.eligibility = registrar.eligibility.copy()
        registrar.eligibility.strikes = seen.strikes.copy()
        registrar.eligibility.quarantined_until = seen.quarantined_until.copy()
        has_had_its_place = np.union1d(registrar.flights.ids, registrar.flights.ended_ids)
        turn = registrar.begin(
            np.setdiff1d(seen.available, has_had_its_place, assume_unique=True),
            seen.budget,
            in_flight=seen.turn.in_flight.copy(),
            clock=seen.turn.clock,
            deadline=seen.turn.deadline,
            excluded={rule: np.setdiff1d(ids, has_had_its_place) for rule, ids in seen.turn.excluded.items()},
        )
        while turn.question is not None:
            if len(turn.metered_questions) >= MOST_QUESTIONS:
                raise InputError(f"{self.label} asked {MOST_QUESTIONS} questions in one round.")
            rows = seen.rows(turn.question)
            inquiry.count(turn.question, len(rows))
            turn.answer(rows)
        return turn

    @staticmethod
    def _reports(
        live_reports: Mapping[str, Answers], registrar: Registrar, *, arrived: Ids, n_expected: int, inquiry: Inquiry
    ) -> dict[str, Answers]:
        """Return what the shadow's members reported to the live method anyway; count those of whom no row is known."""
        reports: dict[str, Answers] = {}
        for signal in registrar.needs.reports:
            rows = _rows_by_client(live_reports.get(signal.name, {}))
            reports[signal.name] = {client: rows[client] for client in arrived.tolist() if client in rows}
            inquiry.miss(signal.name, n_expected - len(reports[signal.name]))
        return reports

    def _remark(self, live: Registrar, choices: Choices) -> ShadowRecord:
        inquiry = choices.inquiry
        n_chosen = int(choices.ids.size)
        remark: ShadowRecord = {
            "chosen": n_chosen,
            "cohort": choices.ids[:MOST_IDS].tolist(),
            "trained": choices.trained,
            "trainings": n_chosen + inquiry.trainings,
            "asked": inquiry.rows_asked,
            "known": inquiry.rows_known,
            "never_chosen": self.participation.never_chosen,
        }
        if n_chosen:
            remark["overlap"] = float(choices.chosen_live.mean())
        evenness = self.participation.evenness
        if evenness is not None:
            remark["evenness"] = evenness
        distance = mixture_distance(live.population, choices.ids, choices.weights)
        if distance is not None:
            remark["mixture"] = distance
        if inquiry.unknown:
            remark["unknown"] = dict(inquiry.unknown)
        return remark

    # -- where work outlives a step ------------------------------------------------------------------------------------

    def follow(self, event: Event, live: Registrar) -> None:
        """Go through what happened to the live method; whatever the shadow raises is kept for the remark."""
        registrar = self.registrar
        if registrar is None:
            return
        try:
            if isinstance(event, Seen):
                self._select(event, live, registrar)
            elif isinstance(event, Ended):
                registrar.give_up(np.intersect1d(event.clients, registrar.in_flight), event.reason)
            else:
                self._step(event, registrar)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the shadow's own code: what it remembers stays as it was before the event
            self._choices.error = _raised(error)
        if isinstance(event, Stepped):  # a shadow that raised comes to the next version, too
            _end_step(registrar, event.step)

    def _select(self, seen: Seen, live: Registrar, registrar: Registrar) -> None:
        """Choose among those who were there; members that the live method did not choose are given up."""
        inquiry = self._choices.inquiry
        turn = self._choose(seen, registrar, inquiry)
        cohort = turn.cohort or Cohort.uniform([])
        registrar.dispatch(turn)
        chosen_live = self._choices.add(cohort, seen.cohort)
        not_trained = cohort.ids[~chosen_live]
        registrar.give_up(not_trained, NOT_TRAINED)
        for signal in registrar.needs.reports:
            inquiry.miss(signal.name, int(not_trained.size))
        self._count(seen, live, cohort)

    def _step(self, event: Stepped, registrar: Registrar) -> None:
        """Learn from the updates of a step that are of the shadow's own members."""
        step = event.step
        registrar.version = step.version
        unsound = np.array(sorted(step.blamed), np.int64)
        registrar.give_up(np.intersect1d(unsound, registrar.in_flight), UNSOUND)
        is_own = np.isin(step.arrived, registrar.in_flight)
        arrived = step.arrived[is_own]
        seconds = dict(zip(step.ids.tolist(), step.durations.tolist(), strict=True))
        reports = self._reports(
            event.reports, registrar, arrived=arrived, n_expected=int(arrived.size), inquiry=self._choices.inquiry
        )
        self._choices.trained += int(arrived.size)
        registrar.receive(
            arrived,
            reports,
            discounts=None if step.discounts is None else step.discounts[is_own],
            normalise=step.normalise,
            durations=[seconds.get(client, np.nan) for client in arrived.tolist()],
        )

    def end_step(self, live: Registrar) -> ShadowRecord:
        """Return what it did since the last step."""
        choices = self._choices
        self._choices = Choices()
        if self.registrar is None:
            return {"cannot": self.cannot}
        if choices.error:
            return {"error": choices.error}
        return self._remark(live, choices)

    def export(self) -> Exported | None:
        """Return the state of its registrar; None where it has none, or its own code raises."""
        if self.registrar is None:
            return None
        try:
            return self.registrar.export()
        except KeyboardInterrupt:
            raise
        except BaseException:  # the shadow's own code: it goes on without being saved
            return None

    def join(self, live: Registrar, population: Population) -> None:
        """Go on with another population; a shadow that could not begin tries again."""
        if self.registrar is None:
            self.begin(live, population)
            return
        try:
            self.registrar.join(population)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the shadow's own code
            self.registrar = None
            self.cannot = _raised(error)


def _end_step(registrar: Registrar, step: ServerStep) -> None:
    """Bring a registrar to the version after a step, also where the shadow raised when it was to learn from it."""
    if registrar.version > step.version:
        return
    used_ids = np.intersect1d(step.arrived, registrar.in_flight)
    registrar.flights = registrar.flights.after_step(used_ids)
    registrar.intake = None
    registrar.chosen_since_step = NOBODY
    registrar.version = step.version + 1


def mixture_distance(population: Population, ids: Ids, weights: Floats) -> float | None:
    """Return how far the labels behind an update of these lie from all clients' (total variation), where known."""
    if LABELS not in population.facts or not ids.size or weights.sum() <= 0:
        return None
    counts = population.label_counts
    mixture = cohort_mixture(weights, label_mixtures(counts[ids]))
    return float(total_variation(mixture, population_mixture(counts)))


def _raised(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # even its words may raise
        text = type(error).__name__
    return text[:LONGEST_ERROR]


class Shadows:
    """All shadows of one live registrar: an observer that collects, and plays them when the round is over.

    Args:
        selectors: the methods by label.
        live_label: what the live method is called.
        only_read: whether shadows see the facts that the live method reads alone; else all of the population, where
            clients have given everything that is in it.
        pace: of the federation; default: rounds.
        logger: where it is said once what a shadow cannot know.

    Attributes:
        remarks: what each shadow did in the last round, by label.
    """

    def __init__(
        self,
        selectors: Mapping[str, AnySelector],
        live_label: str,
        *,
        only_read: bool = False,
        pace: Pace | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.shadows = [Shadow(label, selector, pace) for label, selector in selectors.items()]
        self.overlaps = pace is not None and pace.overlaps
        self.live_label = live_label
        self.only_read = only_read
        self.remarks: dict[str, ShadowRecord] = {}
        self._logger = logger or logging.getLogger("sortition")
        self._live: Registrar | None = None
        self._seen: Seen | None = None
        self._events: list[Event] = []  # that the shadows have not gone through yet

    def watch(self, live: Registrar, saved: Exported | None = None) -> None:
        """Begin beside a live registrar, or go on from what :meth:`export` gave."""
        self._live = live
        for shadow in self.shadows:
            shadow.begin(live, self._visible(live.population))
            if shadow.cannot:
                self._logger.warning("The shadow %s cannot choose: %s", shadow.label, shadow.cannot)
        if saved is not None:
            self.restore(*saved)
        live.observer = add_observer(live.observer, self)

    def _visible(self, population: Population) -> Population:
        """Return what clients gave anyway."""
        if self._live is None or not self.only_read:
            return population
        reads = {*self._live.needs.reads, "groups"}
        if self._live.guards.size_cap or self._live.guards.reweight != "own":
            reads.add("sizes")
        facts = {name: getattr(population, name) for name in population.facts if name in reads}
        if population.known_ids.size == population.n_clients:
            return Population(**facts, n_clients=population.n_clients)
        return Population(**facts, known_ids=population.known_ids, n_clients=population.n_clients)

    # -- an observer of the live registrar -----------------------------------------------------------------------------

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Note who was there."""
        if self._live is None:
            return
        eligibility = self._live.eligibility
        self._seen = Seen(
            turn,
            available.copy(),
            budget,
            strikes=eligibility.strikes.copy(),
            quarantined_until=eligibility.quarantined_until.copy(),
        )

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Keep the answers."""
        if self._seen is not None:
            self._seen.answers.append((question, answers))

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Keep who trained, and the reports."""
        if self._seen is not None and self._seen.turn is turn:
            self._seen.finished = done.copy()
            self._seen.reports = {name: attach_ids(name, rows, done) for name, rows in reports.items()}

    def dispatched(self, turn: Turn) -> None:
        """Keep the selection, where work outlives a step; else a shadow chooses when the round is over."""
        if self.overlaps and self._seen is not None and self._seen.turn is turn:
            self._events.append(self._seen)
            self._seen = None

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Keep whose work has ended."""
        self._events.append(Ended(ids.copy(), reason))

    def stepped(self, step: ServerStep, reports: Reports) -> None:
        """Keep the step, and what was reported."""
        rows_by_signal = {name: attach_ids(name, rows, step.arrived) for name, rows in reports.items()}
        self._events.append(Stepped(step, rows_by_signal))

    def joined(self, population: Population) -> None:
        """Let the shadows go on with the same clients."""
        if self._live is not None:
            for shadow in self.shadows:
                shadow.join(self._live, self._visible(population))

    def play(self) -> dict[str, ShadowRecord]:
        """Let every shadow choose in the round or step that the live method has finished; return what each did."""
        live = self._live
        if live is None:
            return {}
        if self.overlaps:
            self._catch_up(live)
            return self._said({shadow.label: shadow.end_step(live) for shadow in self.shadows})
        live_round = self._seen
        self._seen = None
        if live_round is None:
            return {}
        return self._said({shadow.label: shadow.play(live_round, live) for shadow in self.shadows})

    def _catch_up(self, live: Registrar) -> None:
        """Let the shadows go through whatever has happened."""
        events = self._events
        self._events = []
        for event in events:
            for shadow in self.shadows:
                shadow.follow(event, live)

    def _said(self, remarks: dict[str, ShadowRecord]) -> dict[str, ShadowRecord]:
        """Keep the remarks, and log an error once."""
        for label, remark in remarks.items():
            error = remark.get("error")
            if error and self.remarks.get(label, {}).get("error") != error:
                self._logger.warning("The shadow %s raised %s", label, error)
        self.remarks = remarks
        return remarks

    # -- a checkpoint --------------------------------------------------------------------------------------------------

    def export(self) -> Exported:
        """Return the states of all shadows that have one, as named arrays and a JSON-able header."""
        if self._live is not None:
            self._catch_up(self._live)
        arrays: dict[str, Array] = {}
        tables: Header = {}
        for number, shadow in enumerate(self.shadows):
            exported = shadow.export()
            if exported is None:
                continue
            memory, header = exported
            arrays |= add_prefix(f"{number}.registrar.", memory)
            arrays |= add_prefix(f"{number}.participation.", shadow.participation.export())
            tables[shadow.label] = {"number": number, "registrar": header}
        return arrays, {"live": self.live_label, "shadows": tables}

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
        """Take over the states of shadows that were saved; one that does not fit begins anew, and the log says so."""
        for shadow in self.shadows:
            table = (header.get("shadows") or {}).get(shadow.label)
            if table is None or shadow.registrar is None:
                continue
            try:
                shadow.registrar.restore(take_part(arrays, f"{table['number']}.registrar."), table["registrar"])
                shadow.participation = Participation.restored(take_part(arrays, f"{table['number']}.participation."))
            except (StorageError, KeyError, TypeError, ValueError) as error:
                self._logger.warning("The shadow %s begins anew: %s", shadow.label, error)


@dataclass(frozen=True)
class SavedSelection:
    """What a checkpoint holds of the selection.

    Attributes:
        arrays: the live registrar's.
        registrar: its header.
        shadows: what :meth:`Shadows.export` gave; None where there were none.
    """

    arrays: dict[str, Array]
    registrar: Header
    shadows: Exported | None


def promoted_state(
    label: str, arrays: Mapping[str, Array], registrar: Mapping[str, object], header: Header
) -> SavedSelection:
    """Return the state of a shadow as the live method's, and the shadows with the live method's state in its place.

    Args:
        label: of the shadow that is promoted.
        arrays: of the checkpoint: ``registrar.…`` of the live method, ``shadow.…`` of the shadows.
        registrar: the live method's header.
        header: what :meth:`Shadows.export` gave.
    """
    former = str(header["live"])
    tables = dict(header["shadows"])
    if label not in tables:
        raise StorageError(
            f"the shadow {label!r} has no state in the checkpoint, which has those of {', '.join(tables) or 'nobody'}"
        )
    table = tables.pop(label)
    number = table["number"]
    shadow_arrays = take_part(arrays, "shadow.")
    promoted = take_part(shadow_arrays, f"{number}.registrar.")
    shadow_states = {name: value for name, value in shadow_arrays.items() if not name.startswith(f"{number}.")}
    shadow_states |= add_prefix(f"{number}.registrar.", take_part(arrays, "registrar."))
    shadow_states |= add_prefix(f"{number}.participation.", Participation().export())
    tables[former] = {"number": number, "registrar": dict(registrar)}
    live_fields = {name: registrar[name] for name in ("index", "counters", "horizon")}
    new_header = {**table["registrar"], **live_fields}
    new_header.pop("under_way", None)
    if "under_way" in registrar:  # clients go on with the work that they were sent, whoever chose them
        new_header["under_way"] = registrar["under_way"]
        promoted = {name: value for name, value in promoted.items() if not _is_under_way(name)}
        live = take_part(arrays, "registrar.")
        promoted |= {name: value for name, value in live.items() if _is_under_way(name)}
    return SavedSelection(promoted, new_header, (shadow_states, {"live": label, "shadows": tables}))


def _is_under_way(name: str) -> bool:
    """Tell whether an array of a registrar's snapshot is of work between two steps."""
    return name.startswith("flights.") or name in UNDER_WAY
