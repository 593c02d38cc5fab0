"""Shadow selection: other selectors choose beside the live one, from what it learns anyway, and send nothing.

A shadow has a registrar of its own. When a round is over, it chooses among the same available clients. Its questions
are answered by the rows that clients sent to the live method's own questions; nobody else is asked, so to a shadow
they are silent. Of its cohort those count as trained whose updates came to the live method, with the reports that came.
What a shadow wanted and could not know stands in the record. Whatever it raises is caught: live cohorts do not depend
on shadows in any way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, StorageError
from sortition.core.guards.screening import Answers
from sortition.core.intake import with_ids
from sortition.core.mixtures import cohort_mixture, label_mixtures, population_mixture, total_variation
from sortition.core.observer import Reports, together
from sortition.core.questions import Measure, Reading
from sortition.core.record import ShadowRecord
from sortition.core.registrar import Registrar
from sortition.core.rounds import Cohort, Population
from sortition.core.selector import Selector, resolved_for
from sortition.core.turn import Turn
from sortition.federation.participation import Participation

MOST_QUESTIONS = 1000  # of one shadow in a round; more is an endless loop
MOST_IDS = 100  # of a shadow's cohort in a record
LONGEST_ERROR = 200  # characters of what a shadow raised, in a record
LABELS = "label_counts"

Exported = tuple[dict[str, Array], dict[str, Any]]


@dataclass
class Seen:
    """What a shadow may know of a live round.

    Attributes:
        turn: the live turn.
        available: who could be chosen.
        budget: places.
        strikes: (N,) rounds in which each client was unsound, before this one.
        until: (N,) until when each is in quarantine.
        answers: what clients answered to the live method's questions.
        done: whose updates came.
        reports: what these reported, by signal.
    """

    turn: Turn
    available: Ids
    budget: int
    strikes: Ids
    until: Ids
    answers: list[tuple[Measure, Answers]] = field(default_factory=list)
    done: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    reports: dict[str, Answers] = field(default_factory=dict)

    @property
    def cohort(self) -> Cohort:
        """The live one."""
        return self.turn.cohort or Cohort.uniform([])

    @property
    def eligible(self) -> Ids:
        """Who could be chosen, without those that a policy left out."""
        excluded = self.turn.excluded
        if not excluded:
            return self.available
        return np.setdiff1d(self.available, np.concatenate(list(excluded.values())))

    def rows(self, question: Measure) -> dict[int, Any]:
        """The rows that answer a shadow's question, of clients that were asked the same in this round."""
        rows: dict[int, Any] = {}
        if question.after is not None or question.signal.of == "pairs":
            return rows  # nobody rehearsed for the shadow, and products are of the pairs that were asked
        for asked, answers in self.answers:
            if asked.signal == question.signal and asked.after is None:
                rows |= _rows_by_client(answers)
        return {client: rows[client] for client in question.ids.tolist() if client in rows}


def _rows_by_client(answers: Answers) -> dict[int, Any]:
    """Copies of the rows: a shadow may do with them what it likes."""
    if isinstance(answers, Reading):
        return {client: np.array(row) for client, row in zip(answers.ids.tolist(), answers.values, strict=True)}
    return {int(client): np.array(row) for client, row in answers.items()}


@dataclass
class Wanted:
    """What a shadow wanted to know in a round.

    Attributes:
        asked: rows that it asked for, over all questions.
        known: of these, rows that clients had sent anyway.
        trainings: clients that would have trained for a question.
        unknown: signal → rows of questions and reports that nobody had sent.
    """

    asked: int = 0
    known: int = 0
    trainings: int = 0
    unknown: dict[str, int] = field(default_factory=dict)

    def count(self, question: Measure, known: int) -> None:
        """Count a question, of which so many rows are known."""
        self.asked += int(question.ids.size)
        self.known += known
        if question.signal.of == "training":
            self.trainings += int(question.ids.size)
        if question.after is not None:
            self.trainings += int(question.after.ids.size)
        self.miss(question.signal.name, int(question.ids.size) - known)

    def miss(self, signal: str, rows: int) -> None:
        """Count rows that are not known."""
        if rows:
            self.unknown[signal] = self.unknown.get(signal, 0) + rows


class Shadow:
    """One method in the shadow of another.

    Args:
        label: what records call it.
        selector: the method.

    Attributes:
        registrar: its own; None before the first round, and where it cannot begin.
        participation: how often it would have chosen each client.
        cannot: why it cannot choose at all; empty where it can.
    """

    def __init__(self, label: str, selector: Selector[Any]) -> None:
        self.label = label
        self.selector = selector
        self.registrar: Registrar | None = None
        self.participation = Participation()
        self.cannot = ""

    def begin(self, live: Registrar, population: Population) -> None:
        """Make a registrar beside the live one; where that is impossible, ``cannot`` says why."""
        self.registrar = None
        self.cannot = ""
        try:
            selector = resolved_for(self.selector, population)
            missing = [fact for fact in selector.needs.reads if fact not in population.facts]
            if missing:
                self.cannot = f"it reads {', '.join(missing)}, which the live method does not"
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
        wanted = Wanted()
        turn = self._choose(seen, registrar, wanted)
        cohort = turn.cohort or Cohort.uniform([])
        came = cohort.ids[np.isin(cohort.ids, seen.done)]
        registrar.finish(turn, came, self._reports(seen, registrar, cohort, came, wanted))
        self.participation.count(
            cohort=cohort.ids,
            present=seen.eligible,
            round_index=seen.turn.version,
            clients=live.population.n_clients,
        )
        return self._remark(seen, live, cohort, came, wanted)

    def _choose(self, seen: Seen, registrar: Registrar, wanted: Wanted) -> Turn:
        """A turn of the shadow's own registrar, in step with the live one."""
        registrar.index = seen.turn.index
        registrar.version = seen.turn.version
        registrar.events = seen.turn.index
        registrar.eligibility = registrar.eligibility.copied()
        registrar.eligibility.strikes = seen.strikes.copy()
        registrar.eligibility.until = seen.until.copy()
        turn = registrar.begin(
            seen.available.copy(),
            seen.budget,
            clock=seen.turn.clock,
            deadline=seen.turn.deadline,
            excluded={rule: clients.copy() for rule, clients in seen.turn.excluded.items()},
        )
        while turn.question is not None:
            if len(turn.asked) >= MOST_QUESTIONS:
                raise InputError(f"{self.label} asked {MOST_QUESTIONS} questions in one round.")
            rows = seen.rows(turn.question)
            wanted.count(turn.question, len(rows))
            turn.answer(rows)
        return turn

    @staticmethod
    def _reports(seen: Seen, registrar: Registrar, cohort: Cohort, came: Ids, wanted: Wanted) -> dict[str, Answers]:
        """What members of the shadow's cohort reported to the live method anyway."""
        reports: dict[str, Answers] = {}
        for signal in registrar.needs.reports:
            rows = _rows_by_client(seen.reports.get(signal.name, {}))
            reports[signal.name] = {client: rows[client] for client in came.tolist() if client in rows}
            wanted.miss(signal.name, cohort.ids.size - len(reports[signal.name]))
        return reports

    def _remark(self, seen: Seen, live: Registrar, cohort: Cohort, came: Ids, wanted: Wanted) -> ShadowRecord:
        remark: ShadowRecord = {
            "chosen": int(cohort.ids.size),
            "cohort": cohort.ids[:MOST_IDS].tolist(),
            "trained": int(came.size),
            "trainings": int(cohort.ids.size) + wanted.trainings,
            "asked": wanted.asked,
            "known": wanted.known,
            "never_chosen": self.participation.never_chosen,
        }
        if cohort.ids.size:
            remark["overlap"] = float(np.isin(cohort.ids, seen.cohort.ids).mean())
        evenness = self.participation.evenness
        if evenness is not None:
            remark["evenness"] = evenness
        distance = mixture_distance(live.population, cohort)
        if distance is not None:
            remark["mixture"] = distance
        if wanted.unknown:
            remark["unknown"] = dict(wanted.unknown)
        return remark

    def export(self) -> Exported | None:
        """The state of its registrar; None where it has none, or its own code raises."""
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


def mixture_distance(population: Population, cohort: Cohort) -> float | None:
    """How far the labels behind a cohort's update lie from those of all clients (total variation), where known."""
    if LABELS not in population.facts or not cohort.ids.size or cohort.weights.sum() <= 0:
        return None
    counts = population.label_counts
    mixture = cohort_mixture(cohort.weights, label_mixtures(counts[cohort.ids]))
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
        logger: where it is said once what a shadow cannot know.

    Attributes:
        remarks: what each shadow did in the last round, by label.
    """

    def __init__(
        self,
        selectors: Mapping[str, Selector[Any]],
        live_label: str,
        *,
        only_read: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        self.shadows = [Shadow(label, selector) for label, selector in selectors.items()]
        self.live_label = live_label
        self.only_read = only_read
        self.remarks: dict[str, ShadowRecord] = {}
        self._logger = logger or logging.getLogger("sortition")
        self._live: Registrar | None = None
        self._seen: Seen | None = None

    def watch(self, live: Registrar, saved: Exported | None = None) -> None:
        """Begin beside a live registrar, or go on from what :meth:`export` gave."""
        self._live = live
        for shadow in self.shadows:
            shadow.begin(live, self._visible(live.population))
            if shadow.cannot:
                self._logger.warning("The shadow %s cannot choose: %s", shadow.label, shadow.cannot)
        if saved is not None:
            self.restore(*saved)
        live.observer = together(live.observer, self)

    def _visible(self, population: Population) -> Population:
        """What clients gave anyway."""
        if self._live is None or not self.only_read:
            return population
        reads = {*self._live.needs.reads, "groups"}
        if self._live.guards.size_cap or self._live.guards.reweight != "own":
            reads.add("sizes")
        facts = {name: getattr(population, name) for name in population.facts if name in reads}
        known = None if population.known.size == population.n_clients else population.known
        return Population(**facts, known=known, n_clients=population.n_clients)

    # -- an observer of the live registrar -----------------------------------------------------------------------------

    def begun(self, turn: Turn, available: Ids, budget: int) -> None:
        """Note who was there."""
        if self._live is None:
            return
        eligibility = self._live.eligibility
        self._seen = Seen(
            turn, available.copy(), budget, strikes=eligibility.strikes.copy(), until=eligibility.until.copy()
        )

    def answered(self, turn: Turn, question: Measure, answers: Answers) -> None:
        """Keep the answers."""
        if self._seen is not None:
            self._seen.answers.append((question, answers))

    def finished(self, turn: Turn, done: Ids, reports: Reports) -> None:
        """Keep who trained, and the reports."""
        if self._seen is not None and self._seen.turn is turn:
            self._seen.done = done.copy()
            self._seen.reports = {name: with_ids(name, rows, done) for name, rows in reports.items()}

    def dispatched(self, turn: Turn) -> None:
        """Nothing: a shadow chooses when the round is over."""

    def gave_up(self, ids: Ids, reason: str) -> None:
        """Nothing: shadows are refused where work outlives a step."""

    def stepped(self, step: Any, reports: Reports) -> None:
        """Nothing: shadows are refused where work outlives a step."""

    def joined(self, population: Population) -> None:
        """Let the shadows go on with the same clients."""
        if self._live is not None:
            for shadow in self.shadows:
                shadow.join(self._live, self._visible(population))

    def play(self) -> dict[str, ShadowRecord]:
        """Let every shadow choose in the round that the live method has finished; what each did, by label."""
        seen = self._seen
        live = self._live
        self._seen = None
        if seen is None or live is None:
            return {}
        remarks = {shadow.label: shadow.play(seen, live) for shadow in self.shadows}
        for label, remark in remarks.items():
            error = remark.get("error")
            if error and self.remarks.get(label, {}).get("error") != error:
                self._logger.warning("The shadow %s raised %s", label, error)
        self.remarks = remarks
        return remarks

    # -- a checkpoint --------------------------------------------------------------------------------------------------

    def export(self) -> Exported:
        """The states of all shadows that have one, as named arrays and a JSON-able header."""
        arrays: dict[str, Array] = {}
        tables: dict[str, Any] = {}
        for number, shadow in enumerate(self.shadows):
            exported = shadow.export()
            if exported is None:
                continue
            memory, header = exported
            arrays |= {f"{number}.registrar.{name}": value for name, value in memory.items()}
            counts = shadow.participation.export()
            arrays |= {f"{number}.participation.{name}": value for name, value in counts.items()}
            tables[shadow.label] = {"number": number, "registrar": header}
        return arrays, {"live": self.live_label, "shadows": tables}

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
        """Take over the states of shadows that were saved; one that does not fit begins anew, and the log says so."""
        for shadow in self.shadows:
            table = (header.get("shadows") or {}).get(shadow.label)
            if table is None or shadow.registrar is None:
                continue
            try:
                shadow.registrar.restore(_part(arrays, f"{table['number']}.registrar."), table["registrar"])
                shadow.participation = Participation.restored(_part(arrays, f"{table['number']}.participation."))
            except (StorageError, KeyError, TypeError, ValueError) as error:
                self._logger.warning("The shadow %s begins anew: %s", shadow.label, error)


def _part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class SavedSelection:
    """What a checkpoint holds of the selection.

    Attributes:
        arrays: the live registrar's.
        registrar: its header.
        shadows: what :meth:`Shadows.export` gave; None where there were none.
    """

    arrays: dict[str, Array]
    registrar: dict[str, Any]
    shadows: Exported | None


def promoted_state(
    label: str, arrays: Mapping[str, Array], registrar: Mapping[str, Any], header: Mapping[str, Any]
) -> SavedSelection:
    """The state of a shadow as that of the live method, and the shadows with the live method's state in its place.

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
    shadow_arrays = _part(arrays, "shadow.")
    promoted = _part(shadow_arrays, f"{number}.registrar.")
    others = {name: value for name, value in shadow_arrays.items() if not name.startswith(f"{number}.")}
    others |= {f"{number}.registrar.{name}": value for name, value in _part(arrays, "registrar.").items()}
    others |= {f"{number}.participation.{name}": value for name, value in Participation().export().items()}
    tables[former] = {"number": number, "registrar": dict(registrar)}
    same = {name: registrar[name] for name in ("index", "counters", "horizon")}
    return SavedSelection(promoted, {**table["registrar"], **same}, (others, {"live": label, "shadows": tables}))
