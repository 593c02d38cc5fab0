"""The series of a federation: its records folded into counters, gauges and histograms, without any library.

Counters are sums over the records of all rounds, those of before a restart included: they equal the history. What no
record has (seconds of a selection, bytes on the way) counts from the start of this server. No series names a client, an
owner or a label, unless :class:`~sortition.federation.monitoring.Metrics` is asked to.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from sortition.audit.encoding import decode_ids
from sortition.core.arrays import Ids
from sortition.core.round_record import ENDINGS, RoundRecord, ShadowRecord, answered_ids
from sortition.federation.participation import Participation

SELECTION_BUCKETS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)  # seconds
ROUND_BUCKETS = (1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0)  # seconds
STALENESS_BUCKETS = (0.0, 1.0, 2.0, 5.0, 10.0, 50.0)  # versions of the model
QUANTILES = (0.5, 0.9, 1.0)  # of the rounds since each client was last chosen
NO_ROUND = -1  # the index before the first round
GUARD_RULES = {"quarantined": "quarantine", "at_ceiling": "ceiling", "thinned": "quota"}  # notes → rule
REASONS = (
    ("not finite", "not-finite"),
    ("negative", "negative"),
    ("norm above", "norm"),
    ("shape", "shape"),
    ("missing or unknown", "arrays"),
    ("no model", "no-model"),
    ("not a number", "not-a-number"),
    ("holds no numbers", "not-a-number"),
    ("of type", "type"),
)  # words of a reason in a record → the label of a series; anything else is "other"

Kind = Literal["counter", "gauge", "histogram"]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One number of a series.

    Attributes:
        value: the number; of a histogram, the sum of what was observed.
        labels: what tells it from the other samples of the series.
        buckets: of a histogram, how many observations were at most each bound, the last one infinite.
    """

    value: float
    labels: Labels = field(default_factory=dict)
    buckets: Sequence[tuple[float, int]] = ()


@dataclass(frozen=True)
class Series:
    """A series with its samples.

    Attributes:
        name: without the prefix ``sortition_``, and without the suffix ``_total`` of a counter.
        kind: counter, gauge or histogram.
        help: what it counts, in a sentence.
        samples: its numbers.
    """

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]


@dataclass
class Histogram:
    """Counts observations by the bounds that they do not exceed."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def sample(self) -> Sample:
        """The counts so far, cumulative."""
        bounds = (*self.bounds, float("inf"))
        return Sample(self.total, buckets=list(zip(bounds, np.cumsum(self.counts).tolist(), strict=True)))


@dataclass(frozen=True)
class Now:
    """What the records do not say, when a round is over.

    Attributes:
        quarantined: clients that are in quarantine.
        selection_seconds: how long the method computed for its choice; None before a choice of this server.
        traffic: bytes of arrays since the start of this server, by direction.
        checkpoint: when the last checkpoint was written, in seconds of the epoch; None without one.
        owners: (N,) the owner of each client, as a number; None where owners are unknown.
        owner_names: of the owners by number, where a series may name them.
        client_names: of the clients by id, where a series may name them.
    """

    quarantined: int = 0
    selection_seconds: float | None = None
    traffic: Mapping[str, int] = field(default_factory=dict)
    checkpoint: float | None = None
    owners: Ids | None = None
    owner_names: Sequence[str] = ()
    client_names: Sequence[str] = ()


class SelectionSeries:
    """Folds the rounds of one federation into its series.

    Args:
        about: labels that tell this federation from others: method, backend, version.

    Attributes:
        lock: is held by whoever adds a round or reads the series.
    """

    def __init__(self, about: Labels) -> None:
        self.lock = threading.Lock()
        self.about = dict(about)
        self.participation = Participation()
        self.totals: Counter[str] = Counter()
        self.by_label: dict[str, Counter[str]] = {
            name: Counter() for name in ("rounds", "questions", "answers", "refused", "excluded")
        }
        self.last: RoundRecord | None = None
        self.now = Now()
        self.selection_seconds = Histogram(SELECTION_BUCKETS)
        self.round_seconds = Histogram(ROUND_BUCKETS)
        self.staleness = Histogram(STALENESS_BUCKETS)
        self._clock = 0.0

    def add(self, record: RoundRecord, now: Now | None = None) -> None:
        """Take one round into account; ``now`` is known of the rounds that this server played itself."""
        present = record.get("present")
        self.participation.count(
            cohort=np.array(record.get("cohort") or [], np.int64),
            present=None if present is None else decode_ids(present),
            round_index=record["round"],
            clients=record.get("members", 0),
        )
        self._count(record)
        self._count_refused(record)
        self._observe(record)
        self.last = record
        if now is None:
            return
        self.now = now
        if now.selection_seconds is not None:
            self.selection_seconds.add(now.selection_seconds)

    def _count(self, record: RoundRecord) -> None:
        used_ids = answered_ids(record)
        self.totals["chosen"] += len(record.get("cohort") or ())
        self.totals["used"] += len(used_ids)
        for key in ("late", *ENDINGS):
            self.totals[key] += len(_table(record).get(key) or ())
        self.by_label["rounds"][_result(record, used_ids)] += 1
        for question in record.get("questions") or ():
            self.by_label["questions"][question["signal"]] += question["asked"]
            self.by_label["answers"][question["signal"]] += question.get("answered", 0)
        for rule, clients in excluded(record).items():
            self.by_label["excluded"][rule] += clients

    def _count_refused(self, record: RoundRecord) -> None:
        for reason in (record.get("left_out") or {}).values():
            self.by_label["refused"][f"update: {reason_class(reason)}"] += 1
        for reason in (record.get("rejected") or {}).values():
            self.by_label["refused"][f"answer: {reason_class(str(reason))}"] += 1

    def _observe(self, record: RoundRecord) -> None:
        for versions in record.get("staleness") or [0] * len(answered_ids(record)):
            self.staleness.add(float(versions))
        clock = record.get("clock")
        if clock is not None:
            started_anew = clock < self._clock
            self.round_seconds.add(clock if started_anew else clock - self._clock)
            self._clock = clock

    # -- what is shown -------------------------------------------------------------------------------------------------

    def series(self, at: float | None = None) -> list[Series]:
        """All series; ``at`` is the time now in seconds of the epoch, for the age of the checkpoint."""
        return [*self._counters(), *self._gauges(at), *self._histograms(), *self._shadows(), *self._named()]

    def figures(self) -> dict[str, float]:
        """The numbers of the last round that trackers show, by ``selection/NAME``."""
        record = self.last
        if record is None:
            return {}
        values: dict[str, float | None] = {
            series.name: series.samples[0].value for series in self._gauges(None) if len(series.samples) == 1
        }
        values["chosen"] = len(record.get("cohort") or ())
        values["used"] = len(answered_ids(record))
        values["seconds"] = self.now.selection_seconds
        for series in self._shadows():
            for sample in series.samples:
                values[f"{series.name}/{sample.labels['shadow']}"] = sample.value
        for quantile, rounds in self._rounds_since_quantiles():
            values[f"rounds_since_chosen_{quantile:g}"] = rounds
        return {f"selection/{name}": float(value) for name, value in values.items() if value is not None}

    def _counters(self) -> list[Series]:
        def total(name: str, help: str, what: str) -> Series:
            return Series(name, "counter", help, (Sample(self.totals[what]),))

        def labelled(name: str, help: str, what: str, label: str) -> Series:
            counts = sorted(self.by_label[what].items())
            return Series(name, "counter", help, tuple(Sample(count, {label: key}) for key, count in counts))

        directions = sorted(self.now.traffic.items())
        return [
            labelled("rounds", "Rounds, by what became of them.", "rounds", "result"),
            total("chosen", "Places in cohorts.", "chosen"),
            total("used", "Updates that were used.", "used"),
            total("late", "Answers that came when their round was closed.", "late"),
            total("silent", "Chosen clients that did not answer in time.", "silent"),
            total("standby", "Chosen clients that were not needed in the end.", "standby"),
            total("failed", "Chosen clients whose program raised.", "failed"),
            total("given_up", "Trainings that nobody waits for any longer.", "given_up"),
            total("too_stale", "Updates that came and were too old.", "too_stale"),
            total("withdrawn", "Chosen clients that were not sent to work: another job had used them.", "withdrawn"),
            _refused(self.by_label["refused"]),
            labelled("excluded", "Available clients that a rule kept out of a choice.", "excluded", "rule"),
            labelled("questions", "Questions to clients before a choice.", "questions", "signal"),
            labelled("answers", "Answers to these questions.", "answers", "signal"),
            Series(
                "array_bytes",
                "counter",
                "Bytes of arrays that were sent to clients (down) and came from them (up).",
                tuple(Sample(count, {"direction": direction}) for direction, count in directions),
            ),
        ]

    def _gauges(self, at: float | None) -> list[Series]:
        record: RoundRecord = self.last or {"round": NO_ROUND}
        available = record.get("available") or 0
        values: list[tuple[str, str, float | None]] = [
            ("round", "Index of the last round, from 0.", record["round"]),
            ("clients", "Clients that the federation knows.", self.participation.chosen.size),
            ("available", "Clients that could be chosen in the last round.", available),
            ("eligible", "Of these, clients that no rule kept out.", available - sum(excluded(record).values())),
            ("busy", "Clients that were online and still at work.", record.get("busy")),
            ("in_flight", "Clients at work when the last step was made.", record.get("in_flight")),
            ("cohort", "Clients that were chosen in the last round.", len(record.get("cohort") or ())),
            ("quarantined", "Clients in quarantine.", self.now.quarantined),
            ("never_chosen", "Clients that could be chosen, and never were.", self.participation.never_chosen),
            ("evenness", "Jain's index of how often clients were chosen: 1 is even.", self.participation.evenness),
            ("owner_largest_share", "Share of all places that one owner's clients had.", self._largest_share()),
        ]
        if at is not None and self.now.checkpoint is not None:
            age = max(at - self.now.checkpoint, 0.0)
            values.append(("checkpoint_age_seconds", "Seconds since the last checkpoint was written.", age))
        return [Series(name, "gauge", help, (Sample(value),)) for name, help, value in values if value is not None]

    def _largest_share(self) -> float | None:
        if self.now.owners is None or not self.totals["chosen"]:
            return None
        return float(self.participation.places_by_owner(self.now.owners).max() / self.totals["chosen"])

    def _rounds_since_quantiles(self) -> list[tuple[float, float]]:
        if self.last is None:
            return []
        rounds = self.participation.rounds_since(self.last["round"])
        if not rounds.size:
            return []
        return list(zip(QUANTILES, np.quantile(rounds, QUANTILES).tolist(), strict=True))

    def _histograms(self) -> list[Series]:
        since = tuple(Sample(rounds, {"share": f"{share:g}"}) for share, rounds in self._rounds_since_quantiles())
        return [
            Series("rounds_since_chosen", "gauge", "Rounds since clients that were ever chosen last were.", since),
            Series(
                "selection_seconds",
                "histogram",
                "Seconds that the method computed for a choice, without waiting for clients.",
                (self.selection_seconds.sample(),),
            ),
            Series("round_seconds", "histogram", "Seconds of a round.", (self.round_seconds.sample(),)),
            Series(
                "staleness",
                "histogram",
                "Versions that were made while a client trained whose update was used.",
                (self.staleness.sample(),),
            ),
            Series("info", "gauge", "What runs here.", (Sample(1.0, self.about),)),
        ]

    def _shadows(self) -> list[Series]:
        """What shadows would have done in the last round; nothing where there are none."""
        remarks = (self.last or {"round": NO_ROUND}).get("shadows") or {}
        helps = {
            "overlap": "Share of a shadow's cohort that the live method chose, too.",
            "evenness": "Jain's index of how often a shadow would have chosen clients.",
            "never_chosen": "Clients that a shadow could have chosen, and never would have.",
            "mixture": "Distance of a shadow's label mixture from the population's.",
            "trainings": "Trainings that a shadow's cohort and questions would have cost.",
        }
        series: list[Series] = []
        for figure, help in helps.items():
            values = {label: _table(remark).get(figure) for label, remark in remarks.items()}
            samples = [Sample(value, {"shadow": label}) for label, value in values.items() if value is not None]
            if samples:
                series.append(Series(f"shadow_{figure}", "gauge", help, tuple(samples)))
        if remarks:
            failing = (Sample(float("cohort" not in remark), {"shadow": label}) for label, remark in remarks.items())
            series.append(Series("shadow_fails", "gauge", "1 where a shadow could not choose.", tuple(failing)))
        return series

    def _named(self) -> list[Series]:
        """Series that name owners or clients: only where they were asked for."""
        series: list[Series] = []
        moment = self.now
        if moment.owner_names and moment.owners is not None:
            places = self.participation.places_by_owner(moment.owners).tolist()
            named = zip(moment.owner_names, places, strict=False)
            samples = tuple(Sample(count, {"owner": owner}) for owner, count in named)
            series.append(Series("owner_places", "counter", "Places in cohorts, by owner.", samples))
        if moment.client_names:
            counts = zip(moment.client_names, self.participation.chosen.tolist(), strict=False)
            samples = tuple(Sample(count, {"client": client}) for client, count in counts)
            series.append(Series("client_places", "counter", "Places in cohorts, by client.", samples))
        return series


def _table(record: RoundRecord | ShadowRecord) -> Mapping[str, Any]:
    """The record by keys that are not written out."""
    return cast(Mapping[str, Any], record)


def _refused(counts: Counter[str]) -> Series:
    samples = []
    for key, count in sorted(counts.items()):
        kind, _, reason = key.partition(": ")
        samples.append(Sample(count, {"what": kind, "reason": reason}))
    return Series("refused", "counter", "Updates and answers that were refused, by reason.", tuple(samples))


def _result(record: RoundRecord, used: Sequence[int]) -> str:
    """What became of a round: ``used``, ``skipped`` where nobody was there, ``empty`` where nothing came back."""
    if record.get("skipped"):
        return "skipped"
    return "used" if used else "empty"


def excluded(record: RoundRecord) -> dict[str, int]:
    """How many available clients each rule kept out of the choice: the guards', and the policies'."""
    guards: Mapping[str, Any] = (record.get("notes") or {}).get("guards") or {}
    by_guard = {rule: int(guards[note]) for note, rule in GUARD_RULES.items() if guards.get(note)}
    by_policy = {str(rule): int(clients) for rule, clients in (record.get("excluded") or {}).items()}
    return {**by_guard, **by_policy}


def reason_class(reason: str) -> str:
    """One of a few words for a reason: what clients write must not become the label of a series."""
    for words, label in REASONS:
        if words in reason:
            return label
    return "other"
