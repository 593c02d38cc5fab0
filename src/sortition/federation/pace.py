"""How fast a federation goes: how many places a selection fills, when a step is made, and what a late update counts.

One setting, with the same keys in a study's ``[pace]``, in Python, Flower, NVFlare and on one's own server:

- ``kind = "rounds"``: a selection fills cohort × overselect places; the step is made when the cohort has answered, or
  at the deadline; the rest is dropped.
- rounds with ``quorum``: the step is made when that share or number of the cohort has answered.
- rounds with ``late = "use"``: what comes after the step is used in the step in whose time it arrives, discounted
  (stale-synchronous; REFL's SAA). A selection chooses among the idle.
- ``kind = "buffered"``: a selection fills concurrency − in flight places; the step is made when ``buffer`` updates have
  arrived (asynchronous; FedBuff). Nothing is late.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import Cohort, count_with_standby
from sortition.core.errors import bad, unknown
from sortition.core.selector import AnySelector
from sortition.core.validation import is_number, is_whole, refuse_unknown_keys
from sortition.federation.staleness import RULES, Staleness

DEADLINE = 1800.0  # seconds of a round in a real federation
QUESTION_SHARE = 0.25  # the share of a round's seconds that its questions may take
QUANTILE_TRAININGS = 1000  # trainings over which the quantile of a deadline is taken
KINDS = ("rounds", "buffered")
LATE = ("drop", "use")
REFILLS = ("step", "arrival")
NORMALISE = ("mass", "count")
ADAPTIVE = "adaptive"
ONLY_ROUNDS = ("quorum", "late", "overselect")
ONLY_BUFFERED = ("concurrency", "buffer", "refill")
GIB = 1 << 30
DEFAULT_STALENESS = Staleness()


@refuse_unknown_keys
@dataclass(frozen=True)
class Quantile:
    """A deadline that follows the clients.

    Attributes:
        quantile: share of the trainings so far that took no longer; one without an answer took for ever.
    """

    quantile: float

    def __post_init__(self) -> None:
        if not (is_number(self.quantile) and 0 < self.quantile <= 1):
            raise bad("pace.deadline.quantile", "a share in (0, 1]", self.quantile)
        object.__setattr__(self, "quantile", float(self.quantile))

    def seconds(self, durations: Sequence[float]) -> float:
        """Return the deadline after trainings of these durations; infinite ones never ended."""
        ranked = sorted(durations)
        return float(ranked[math.ceil(round(self.quantile * len(ranked), 9)) - 1])


Setting = TypeVar("Setting", Staleness, Quantile)


@refuse_unknown_keys
@dataclass(frozen=True)
class Pace:
    """How fast a federation goes; the defaults are rounds in which everybody is waited for.

    Attributes:
        kind: ``rounds``: a cohort begins together; ``buffered``: so many are always at work (asynchronous, FedBuff).
        overselect: factor on the cohort of a round, which closes when the cohort's own number has answered.
        deadline: seconds of a round, from its first question on, or of a training where kind is ``buffered``;
            ``{ quantile = 0.8 }`` of the durations seen so far; without it, everybody is waited for.
        quorum: a share (0.8) or a number (8) of the cohort whose answers make the step (the aggregation goal).
        late: whether updates that come after the step are dropped, or used in the step in whose time they arrive.
        staleness: what a stale update counts: a rule's name, or a table of its parameters.
        max_staleness: versions after which an update is dropped as too stale.
        concurrency: clients at work at a time; default: the cohort.
        buffer: updates that make a step; ``adaptive``: a step is made when the seconds since the last one are a
            concurrency-th of the longest last training of those at work (Pisces).
        refill: when free places are filled: at a ``step``, at every ``arrival``, or when so many are free.
        normalise: ``mass``: the weights of a step sum to 1; ``count``: they are divided by the number of updates, and
            the discount makes the step smaller (FedBuff).
        slot: seconds of one step of the availability; without it, availability counts versions.
        memory_limit: GiB that models and updates of work in flight may take.
    """

    kind: str = "rounds"
    overselect: float = 1.0
    deadline: float | Quantile | None = None
    quorum: int | float = 1.0
    late: str = "drop"
    staleness: Staleness | str | None = None
    max_staleness: int | None = None
    concurrency: int | None = None
    buffer: int | str | None = None
    refill: int | str = "step"
    normalise: Literal["mass", "count"] = "mass"
    slot: float | None = None
    memory_limit: float = 4.0

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        for name in ("overselect", "deadline", "slot", "memory_limit"):
            value = getattr(self, name)
            if is_number(value):  # 3 and 3.0 seconds are one setting
                object.__setattr__(self, name, float(value))
        self._check_kind()

    @classmethod
    def of(cls, pace: Pace | Mapping[str, Any] | str | None, who: str) -> Pace:
        """Return a pace, or the one that its kind or a table of its keys describes."""
        if pace is None:
            return cls()
        if isinstance(pace, cls):
            return pace
        if isinstance(pace, str):
            return cls(kind=pace)
        if not isinstance(pace, Mapping):
            raise bad(f"{who}.pace", "a Pace or a table of its keys", pace)
        _check_keys(pace, cls, f"{who}.pace")
        values = dict(pace)
        if isinstance(values.get("deadline"), Mapping):
            values["deadline"] = _from_table("deadline", Quantile, values["deadline"])
        if isinstance(values.get("staleness"), Mapping):
            values["staleness"] = _from_table("staleness", Staleness, values["staleness"])
        return cls(**values)

    def _check_names(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind", self.kind, KINDS, "pace")
        if self.late not in LATE:
            raise unknown("late", self.late, LATE, "pace")
        if self.normalise not in NORMALISE:
            raise unknown("normalise", self.normalise, NORMALISE, "pace")
        if isinstance(self.staleness, str):
            object.__setattr__(self, "staleness", Staleness(self.staleness))
        elif self.staleness is not None and not isinstance(self.staleness, Staleness):
            raise bad("pace.staleness", f"one of {', '.join(RULES)}, or a table", self.staleness)
        if self.refill not in REFILLS and not is_whole(self.refill, 1):
            raise bad("pace.refill", "'step', 'arrival' or a whole number ≥ 1", self.refill)

    def _check_numbers(self) -> None:
        if not (is_number(self.overselect) and math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad("pace.overselect", "finite and ≥ 1", self.overselect)
        if self.max_staleness is not None and not is_whole(self.max_staleness, 0):
            raise bad("pace.max_staleness", "a whole number ≥ 0", self.max_staleness)
        if self.concurrency is not None and not is_whole(self.concurrency, 1):
            raise bad("pace.concurrency", "a whole number ≥ 1", self.concurrency)
        if self.buffer is not None and not self.is_adaptive and not is_whole(self.buffer, 1):
            raise bad("pace.buffer", f"a whole number ≥ 1, or {ADAPTIVE!r}", self.buffer)
        self._check_quorum()
        self._check_seconds()

    def _check_quorum(self) -> None:
        if is_whole(self.quorum, 1):
            return
        is_share = not isinstance(self.quorum, int) and is_number(self.quorum) and 0 < self.quorum <= 1
        if not is_share:
            hint = "A share is a number with a point: 0.8; a number of answers is whole: 8."
            raise bad("pace.quorum", "a share in (0, 1], or a whole number ≥ 1", self.quorum, hint)

    def _check_seconds(self) -> None:
        deadline = self.deadline
        if not (deadline is None or isinstance(deadline, Quantile) or (is_number(deadline) and deadline > 0)):
            raise bad("pace.deadline", "seconds > 0, or { quantile = 0.8 }", deadline)
        for name in ("slot", "memory_limit"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and math.isfinite(value) and value > 0):
                raise bad(f"pace.{name}", "finite and > 0", value)

    def _check_kind(self) -> None:
        if self.kind == "rounds":
            self._refuse_keys(ONLY_BUFFERED, other_kind="buffered")
        else:
            self._refuse_keys(ONLY_ROUNDS, other_kind="rounds")
        if self.kind == "buffered" and self.buffer is None:
            raise bad("pace.buffer", "given where kind = 'buffered'", None, "So many updates make a step: buffer = 10.")
        if not self.overlaps:
            for name in ("staleness", "max_staleness"):
                if getattr(self, name) is not None:
                    hint = "Nothing stale is used there; late = 'use' keeps late updates."
                    value = self.changed()[name]
                    raise bad(f"pace.{name}", "left out where late = 'drop'", value, hint)
        if self.kind == "rounds" and self.late == "use" and self.waits_for_all and self.deadline is None:
            hint = "Give a quorum (0.8) or a deadline."
            raise bad("pace.late", "'drop' where every answer is waited for", self.late, hint)

    def _refuse_keys(self, names: Sequence[str], *, other_kind: str) -> None:
        """Refuse keys that only another kind of pace has."""
        changed = self.changed()
        for name in names:
            if name in changed:
                hint = f"It belongs to kind = {other_kind!r}."
                raise bad(f"pace.{name}", f"left out where kind = {self.kind!r}", getattr(self, name), hint)

    @property
    def overlaps(self) -> bool:
        """Whether work can outlive the step after its dispatch."""
        return self.kind == "buffered" or self.late == "use"

    @property
    def is_adaptive(self) -> bool:
        """Whether steps follow the durations of those at work, and not the number of updates."""
        return self.buffer == ADAPTIVE

    @property
    def waits_for_all(self) -> bool:
        """Whether a round waits for its whole cohort: one answer (1) is a quorum, all of them (1.0) are none."""
        return isinstance(self.quorum, float) and self.quorum == 1.0

    @property
    def staleness_rule(self) -> Staleness:
        """What a stale update counts."""
        if isinstance(self.staleness, Staleness):
            return self.staleness
        return DEFAULT_STALENESS

    def changed(self) -> dict[str, object]:
        """Return the keys that differ from the defaults, as a table of a study has them."""
        table: dict[str, object] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value == item.default and type(value) is type(item.default):  # one answer is not a share of 1.0
                continue
            if isinstance(value, Staleness):
                value = value.changed()
            if isinstance(value, Quantile):
                value = asdict(value)
            table[item.name] = value
        return table

    def check_selector(self, selector: AnySelector) -> None:
        """Refuse a method that reads the number of a selection as that of a round, where they differ."""
        if self.refill != "step" and selector.counts_rounds:
            name = type(selector).__name__
            hint = f"{name} counts rounds (rehearsals, a horizon, cool-downs); selections would be more than steps."
            raise bad("pace.refill", f"'step' for {name}", self.refill, hint)


def _check_keys(table: Mapping[str, object], kind: type[Pace | Staleness | Quantile], who: str) -> None:
    """Refuse a key that is no field of this kind of setting."""
    names = [item.name for item in fields(kind)]
    for key in table:
        if key not in names:
            raise unknown("key", str(key), names, who)


def _from_table(name: str, kind: type[Setting], table: Mapping[str, Any]) -> Setting:
    """Make the setting that a table of its keys describes."""
    _check_keys(table, kind, f"pace.{name}")
    try:
        return kind(**table)
    except TypeError:
        names = ", ".join(item.name for item in fields(kind))
        raise bad(f"pace.{name}", f"a table of {names}", dict(table)) from None


@dataclass(frozen=True)
class CohortPace:
    """A pace for cohorts of a size.

    Attributes:
        cohort: updates that a round is meant to use; clients at work where the pace is buffered and says nothing else.
        settings: the pace.
    """

    cohort: int
    settings: Pace = Pace()

    def check(self, who: str, minimum: int = 0) -> None:
        """Refuse what does not fit the cohort; ``who`` names the options' owner in messages."""
        settings = self.settings
        if not is_whole(self.cohort, 1):
            raise bad(f"{who}.cohort", "a whole number ≥ 1", self.cohort)
        if isinstance(settings.quorum, int) and settings.quorum > self.cohort:
            raise bad("pace.quorum", f"at most the cohort, {self.cohort}", settings.quorum)
        if settings.kind == "buffered" and self.buffer_size > self.concurrency:
            hint = "So many are never at work together."
            raise bad("pace.buffer", f"at most the concurrency, {self.concurrency}", settings.buffer, hint)
        if isinstance(settings.refill, int) and settings.refill > self.concurrency:
            raise bad("pace.refill", f"at most the concurrency, {self.concurrency}", settings.refill)
        if minimum > self.cohort:
            raise bad("Guards.minimum", f"at most the cohort, {self.cohort}", minimum)
        if minimum > self.least_updates:
            raise bad("Guards.minimum", f"at most {self.least_updates}, with which a step is made", minimum)

    def check_memory(self, size: int) -> None:
        """Refuse, before anything runs, models and updates in flight beyond the limit."""
        if self.settings.kind == "buffered":
            self.check_models(self.concurrency, self.concurrency, size)

    def check_models(self, versions: int, updates: int, size: int) -> None:
        """Refuse so many models and updates of ``size`` numbers at a time, if they are beyond the limit."""
        needed = 4 * size * (versions + updates) / GIB
        if needed > self.settings.memory_limit:
            requirement = f"at least {math.ceil(1000 * needed) / 1000} GiB for {updates:,} clients in flight"
            hint = "Raise it if the server has that memory, or have fewer at work."
            raise bad("pace.memory_limit", requirement, self.settings.memory_limit, hint)

    @property
    def overselect(self) -> float:
        """Factor on the cohort of a round."""
        return self.settings.overselect

    @property
    def concurrency(self) -> int:
        """Clients at work at a time, where the pace is buffered."""
        if self.settings.concurrency is None:
            return self.cohort
        return self.settings.concurrency

    @property
    def least_updates(self) -> int:
        """How many updates a step has that nobody failed."""
        if self.settings.kind == "buffered":
            return self.buffer_size
        return self._quorum(self.cohort)

    @cached_property
    def buffer_size(self) -> int:
        """How many updates a step must have, where the pace is buffered."""
        if isinstance(self.settings.buffer, int):
            return self.settings.buffer
        return 1

    def is_buffered_step_due(self, *, n_waiting: int, clock: float, earliest_step: float) -> bool:
        """Tell whether a buffered step is due: enough updates wait for it, and it is not too early.

        Args:
            n_waiting: how many updates wait for the step.
            clock: seconds now.
            earliest_step: what :meth:`earliest_step` says.
        """
        return n_waiting >= self.buffer_size and clock >= earliest_step

    def earliest_step(self, last_step: float, at_work: Iterable[int], last_seconds: Mapping[int, float]) -> float:
        """Return the second before which no buffered step is made; −∞ where the buffer is not adaptive.

        Args:
            last_step: the second of the last step.
            at_work: the clients at work.
            last_seconds: how long the last work of clients took, of those that are known.
        """
        if not self.settings.is_adaptive:
            return -math.inf
        known_seconds = [last_seconds[client] for client in at_work if client in last_seconds]
        return last_step + max(known_seconds, default=0.0) / self.concurrency

    @property
    def places(self) -> int:
        """How many clients the first selection takes, with those that stand by for the late."""
        if self.settings.kind == "buffered":
            return self.concurrency
        return count_with_standby(self.cohort, self.settings.overselect)

    def free_places(self, in_flight: int) -> int:
        """Return how many places a selection fills while so many are at work."""
        if self.settings.kind == "buffered":
            return self.concurrency - in_flight
        return self.places

    @property
    def refills_between_steps(self) -> bool:
        """Whether places are filled as they become free, and not only after a step."""
        return self.settings.refill != "step"

    def refills(self, in_flight: int) -> bool:
        """Tell whether enough places are free to fill them between two steps."""
        n_free = self.concurrency - in_flight
        if not self.refills_between_steps:
            return False
        if isinstance(self.settings.refill, str):  # at every arrival
            return n_free >= 1
        return n_free >= self.settings.refill

    def target(self, cohort: Cohort) -> int:
        """Return how many answers of this cohort close its round."""
        if self.settings.overselect > 1 and not cohort.full:
            return self._quorum(min(self.cohort, cohort.ids.size))
        return self._quorum(cohort.ids.size)

    def _quorum(self, members: int) -> int:
        """Return how many of so many members make the quorum."""
        quorum = self.settings.quorum
        if isinstance(quorum, int):
            return min(quorum, members)
        return math.ceil(round(quorum * members, 9))

    @property
    def deadline(self) -> float:
        """Seconds of a round; infinite where there is none, or none that is fixed."""
        deadline = self.settings.deadline
        if deadline is None or isinstance(deadline, Quantile):
            return math.inf
        return float(deadline)

    def deadline_after(self, durations: Sequence[float]) -> float:
        """Return the seconds of the next round or training, after these were seen; infinite ones never ended."""
        deadline = self.settings.deadline
        if not isinstance(deadline, Quantile) or not durations:
            return self.deadline
        return deadline.seconds(durations)

    @property
    def seconds_for_questions(self) -> float:
        """How long all questions of a round may take together."""
        return QUESTION_SHARE * self.deadline

    def too_stale(self, staleness: Ids) -> npt.NDArray[np.bool_]:
        """Return a mask of the updates that are dropped as too stale."""
        if self.settings.max_staleness is None:
            return np.zeros(staleness.size, bool)
        return np.asarray(staleness > self.settings.max_staleness)


@dataclass
class OpenSelection:
    """The selection whose answers make the next step, where a step is a round.

    Attributes:
        index: the index of the selection; −1 before the first.
        target: how many updates it waits for.
        n_arrived: how many of its updates have come.
        n_at_work: how many of its members are at work.
        closes: the second at which the step is made at the latest.
    """

    index: int = -1
    target: int = 0
    n_arrived: int = 0
    n_at_work: int = 0
    closes: float = math.inf

    def is_step_due(self, clock: float, *, has_earlier_work_ended: bool) -> bool:
        """Tell whether the step of a round is due: by its updates, or by the clock.

        Where nobody was chosen or nobody is left, whatever comes next of earlier selections makes the step.
        """
        if self.n_arrived == 0 and self.n_at_work == 0:
            return has_earlier_work_ended
        if self.n_at_work == 0 or clock >= self.closes:
            return True
        return self.n_arrived >= max(self.target, 1)


def first_come(ids: Ids, seconds: Floats, target: int, deadline: float) -> npt.NDArray[np.bool_]:
    """Return a mask (k,) of the answers that count: the first ``target`` by the clock, then by id.

    They must come before the deadline. An answer that never comes has infinite seconds.
    """
    order = np.lexsort((ids, seconds))
    in_time = np.isfinite(seconds[order]) & (seconds[order] <= deadline)
    counts = np.zeros(ids.size, bool)
    counts[order[in_time][:target]] = True
    return counts
