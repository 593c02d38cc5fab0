"""What a federation is given, one set of options for every backend, checked before anything runs.

:class:`FederationOptions` are the options as a user gives them to ``Federation`` or to Flower's ``SelectorStrategy``;
NVFlare's controllers read them from JSON. :meth:`Options.read` makes of them the :class:`Options` that the parts of
a federation look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad, unknown
from sortition.core.guards.settings import Guards
from sortition.core.policy import Policy, as_policies
from sortition.core.population import check_names
from sortition.core.round_record import RoundRecord
from sortition.core.selector import AnySelector, Selector
from sortition.core.validation import as_builtin, is_number, is_whole
from sortition.federation.arrangement import Arrangement, ShadowOption, arranged, is_several
from sortition.federation.members import Owner, Refresh
from sortition.federation.monitoring import MetricsOption, MetricsSink, sinks
from sortition.federation.pace import DEADLINE, CohortPace, Pace, Quantile
from sortition.federation.policies import facts_of

Eligible = Collection[str] | Callable[[str, Mapping[str, Array]], bool]


class FederationOptions(TypedDict, total=False):
    """The options of every federation on a transport, whatever moves its messages.

    Attributes:
        overselect: factor on the cohort; a round closes when ``cohort`` clients have answered, or at its deadline.
        pace: quorums, late updates, buffered steps: a :class:`~sortition.federation.Pace` or a table of its keys
            (docs/time.md); default: rounds.
        horizon: rounds that the selector plans for; default: those of the run.
        seed: of the selector's draws; it stays on the server; default: 0.
        guards: how far clients are trusted; the defaults reject only broken values.
        owner_of: from a client's stable name to its owner, for ``Guards.quota``; given here, not by clients.
        bind_names: a name belongs to the key that first had it, where clients are authenticated.
        policy: how often and when devices may be used: a ``sortition.Policy``, or several that hold together.
        ledger: file in which several federations share what devices were used for; default: one beside the checkpoint.
        eligible: who may be chosen: names and tags, or a function of a client's stable name and facts.
        facts: facts that clients are asked for beside those that the selector reads, for ``eligible``.
        refresh: how long each of these facts stays true: ``{"battery": "selection", "place": 86400}``; default: they
            are asked before every selection.
        answer_timeout: seconds that clients have for a question; default: 60.
        profile_timeout: seconds that a client has to say who it is, 120; it is waited for only before the first round.
        wait_for: clients that must be online before the first round; default: 1.
        patience: seconds with too few clients after which a round is skipped; before the first one, the run ends; 600.
        checkpoint: file that model, selection and members are written to; an old one is never overwritten unasked.
        checkpoint_every: rounds between two checkpoints; default: 1.
        resume: checkpoint to go on from, True for ``checkpoint``; a file that does not exist yet means a fresh start.
        audit: file of the audit log; seed and salt are revealed beside it (``….reveal.json``) when the run is over.
        on_round: called with the record of each round, when it is kept; what it raises is logged.
        metrics: a port of an HTTP endpoint that Prometheus scrapes, a ``sortition.federation.Metrics``, an experiment
            tracker, or a list of these.
        shadow: methods that choose beside the live one and send nothing: names, Selectors, or a table by labels.
        promote: the label of a shadow that takes the live method's place, with its state, when the federation goes on.
    """

    overselect: float
    pace: Pace | Mapping[str, Any] | str | None
    horizon: int | None
    seed: int
    guards: Guards | None
    owner_of: Owner | None
    bind_names: bool
    policy: Policy | Sequence[Policy] | None
    ledger: str | Path | None
    eligible: Eligible | None
    facts: Sequence[str]
    refresh: Mapping[str, Refresh] | None
    answer_timeout: float
    profile_timeout: float
    wait_for: int
    patience: float
    checkpoint: str | Path | None
    checkpoint_every: int
    resume: str | Path | bool | None
    audit: str | Path | None
    on_round: Callable[[RoundRecord], object] | None
    metrics: MetricsOption
    shadow: ShadowOption
    promote: str | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a federation is run: its :class:`FederationOptions`, read and checked, and what else decides it.

    Attributes:
        arrangement: the method, among those that choose in its shadow.
        cohort: clients a round.
        deadline: seconds of a round, from its first question on; questions get at most a quarter of it. None: those of
            the pace, or 1,800; infinite: everybody is waited for.
        pace_option: the pace as it was given; over-selection and deadline are said there or beside it.
        least_online: clients that must be online before every round.
        resume: checkpoint to go on from; a file that does not exist yet means a fresh start.
        metrics: where the numbers of the federation are shown.
        who: the class that a message about an option names.
    """

    arrangement: Arrangement
    cohort: int
    overselect: float = 1.0
    deadline: float | None = None
    pace_option: Pace | Mapping[str, Any] | str | None = None
    horizon: int | None = None
    seed: int = 0
    guards: Guards = field(default_factory=Guards)
    owner_of: Owner | None = None
    bind_names: bool = False
    policy: Policy | Sequence[Policy] | None = None
    ledger: Path | None = None
    eligible: Eligible | None = None
    facts: Sequence[str] = ()
    refresh: Mapping[str, Refresh] = field(default_factory=dict)
    answer_timeout: float = 60.0
    profile_timeout: float = 120.0
    wait_for: int = 1
    least_online: int = 1
    patience: float = 600.0
    checkpoint: Path | None = None
    checkpoint_every: int = 1
    resume: Path | None = None
    audit: Path | None = None
    on_round: Callable[[RoundRecord], object] | None = None
    metrics: Sequence[MetricsSink] = ()
    who: str = "Federation"

    @classmethod
    def read(
        cls,
        who: str,
        selector: AnySelector | str,
        *,
        cohort: int,
        deadline: float | None = None,
        least_online: int = 1,
        label: str | None = None,
        **given: Unpack[FederationOptions],
    ) -> Options:
        """Read the options of a federation.

        Args:
            who: the class that a message names.
            selector: the method, or its name.
            cohort: clients a round.
            deadline: seconds of a round; None: those of the pace, or 1,800.
            least_online: clients that must be online before every round.
            label: what the method is called among its shadows; default: its name.
            given: all others.
        """
        option_names = sorted(FederationOptions.__annotations__)
        for name in given:
            if name not in option_names:
                raise unknown("option", name, option_names, who)
        options: dict[str, Any] = dict(given)
        for name in ("guards", "refresh"):
            if options.get(name) is None:
                options.pop(name, None)
        arrangement = arranged(who, selector, options.pop("shadow", None), options.pop("promote", None), label=label)
        for name in ("ledger", "audit", "checkpoint", "resume"):
            if options.get(name) is not None:
                options[name] = _path(who, name, options)
        options["metrics"] = sinks(who, options.get("metrics"))
        return cls(
            arrangement=arrangement,
            cohort=cohort,
            deadline=deadline,
            pace_option=options.pop("pace", None),
            least_online=least_online,
            who=who,
            **options,
        )

    def __post_init__(self) -> None:
        if not isinstance(self.selector, Selector):
            raise bad(f"{self.who}.selector", "a Selector", self.selector, "Make one with sortition.selectors.load.")
        for name in ("cohort", "horizon", "seed", "wait_for", "least_online", "checkpoint_every"):
            object.__setattr__(self, name, as_builtin(getattr(self, name)))
        if not isinstance(self.guards, Guards):
            raise bad(f"{self.who}.guards", "Guards or None", self.guards, "Write Guards(explore=0.1).")
        self._check_pace()
        self._check_numbers()
        self._check_functions()
        self._check_policies()
        self._check_guards()
        self._check_needs()
        self._check_shadows()

    @property
    def selector(self) -> AnySelector:
        """The method."""
        return self.arrangement.live

    @cached_property
    def pace(self) -> CohortPace:
        """How many are chosen, and when a step is made."""
        settings = Pace.of(self.pace_option, self.who)
        if settings.overselect == 1.0 and self.overselect != 1.0:
            settings = replace(settings, overselect=self.overselect)
        deadline = self.deadline
        if deadline is None:
            deadline = DEADLINE
        if settings.deadline is None and deadline != math.inf:
            settings = replace(settings, deadline=deadline)
        return CohortPace(self.cohort, settings)

    def _check_pace(self) -> None:
        if not (is_number(self.overselect) and math.isfinite(self.overselect) and self.overselect >= 1):
            raise bad(f"{self.who}.overselect", "finite and ≥ 1", self.overselect)
        if self.deadline is not None and not (is_number(self.deadline) and self.deadline > 0):
            raise bad(f"{self.who}.deadline", "seconds > 0", self.deadline, "math.inf waits for everybody.")
        settings = Pace.of(self.pace_option, self.who)
        if settings.overselect != 1.0 and self.overselect != 1.0:
            raise bad(f"{self.who}.overselect", "left out where the pace says it", self.overselect)
        if isinstance(settings.deadline, Quantile):
            hint = "Give seconds: a real federation has seen no durations before its first round."
            raise bad("pace.deadline", "seconds in a real federation", settings.changed()["deadline"], hint)
        if settings.deadline is not None and self.deadline is not None:
            raise bad(f"{self.who}.deadline", "left out where the pace says it", self.deadline)
        if settings.slot is not None:
            raise bad("pace.slot", "left out in a real federation, whose clients come and go", settings.slot)
        self.pace.check(self.who, self.guards.minimum)
        self.pace.settings.check_selector(self.selector)

    @property
    def watched(self) -> dict[str, Refresh]:
        """The facts for eligibility, and how long each stays true."""
        return {fact: self.refresh.get(fact, "selection") for fact in self._asked_facts}

    @property
    def policies(self) -> tuple[Policy, ...]:
        """How often and when devices may be used."""
        return as_policies(f"{self.who}.policy", self.policy)

    @property
    def _asked_facts(self) -> tuple[str, ...]:
        """The facts that ``eligible`` and the policies look at."""
        return tuple(dict.fromkeys((*self.facts, *facts_of(self.policies))))

    def _check_policies(self) -> None:
        policies = self.policies
        if self.ledger is not None and not policies:
            raise bad(f"{self.who}.ledger", "given with a policy only", str(self.ledger))
        if any(policy.per == "owner" for policy in policies) and self.owner_of is None:
            raise bad("Policy.per", "'client' or 'tag' where owners are unknown", "owner", "Say who owns whom.")

    def _check_numbers(self) -> None:
        for name in ("wait_for", "checkpoint_every"):
            if not is_whole(getattr(self, name), 1):
                raise bad(f"{self.who}.{name}", "a whole number ≥ 1", getattr(self, name))
        if self.horizon is not None and not is_whole(self.horizon, 1):
            raise bad(f"{self.who}.horizon", "a whole number ≥ 1 or None", self.horizon)
        if not is_whole(self.seed, 0):
            raise bad(f"{self.who}.seed", "a whole number ≥ 0", self.seed)
        for name in ("answer_timeout", "profile_timeout"):
            if not (is_number(getattr(self, name)) and getattr(self, name) > 0):
                raise bad(f"{self.who}.{name}", "seconds > 0", getattr(self, name))
        if not (is_number(self.patience) and self.patience >= 0):
            raise bad(f"{self.who}.patience", "seconds ≥ 0", self.patience, "math.inf waits without end.")

    def _check_functions(self) -> None:
        for name in ("owner_of", "on_round"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise bad(f"{self.who}.{name}", "a function or None", getattr(self, name))
        if not (self.eligible is None or callable(self.eligible) or is_several(self.eligible)):
            raise bad(f"{self.who}.eligible", "names, tags or a function (name, facts) → bool", self.eligible)
        if not (is_several(self.facts) and all(isinstance(fact, str) for fact in self.facts)):
            raise bad(f"{self.who}.facts", "a list of names", self.facts)
        check_names(self.facts, f"{self.who}.facts: Population")
        self._check_refresh()

    def _check_refresh(self) -> None:
        if not isinstance(self.refresh, Mapping):
            raise bad(f"{self.who}.refresh", "a table from facts to seconds or 'selection'", self.refresh)
        for fact, age in self.refresh.items():
            if fact not in self._asked_facts:
                raise bad(f"{self.who}.refresh", f"of the facts {list(self._asked_facts)}", fact)
            if fact in self.selector.needs.reads:
                hint = "What a method reads changes when clients join or come back."
                raise bad(f"{self.who}.refresh", "of facts that the method does not read", fact, hint)
            if age != "selection" and not (is_number(age) and age > 0 and math.isfinite(age)):
                raise bad(f"{self.who}.refresh[{fact!r}]", "seconds > 0, or 'selection'", age)

    def _check_guards(self) -> None:
        if self.guards.quota and self.owner_of is None and "groups" not in self.selector.needs.reads:
            raise bad("Guards.quota", "0 where owners are unknown", self.guards.quota, "Say who owns whom.")

    def _check_needs(self) -> None:
        method = type(self.selector).__name__
        needs = self.selector.needs
        if needs.of_server:
            raise InputError(
                f"{method} needs {needs.of_server[0].name!r}, which the server computes from single updates and data "
                f"of its own; {self.who} has none. Use a Registrar in a loop of your own, finish(reports=…)."
            )
        for signal in (*needs.asks, *needs.reports):
            if signal.of == "pairs":
                raise InputError(
                    f"{method} asks for {signal.name!r}, products between pairs of clients, which these clients cannot "
                    "exchange. Choose a variant that reads or asks single clients."
                )

    def _check_shadows(self) -> None:
        if self.arrangement.promoted and self.audit is not None:
            hint = "Its log names one method: begin another federation with the promoted one."
            raise bad(f"{self.who}.promote", "left out where an audit log is kept", self.arrangement.live_label, hint)

    def is_eligible(self, name: str, tags: Collection[str], facts: Mapping[str, Array]) -> bool:
        """Tell whether a client may be chosen."""
        if self.eligible is None:
            return True
        if not callable(self.eligible):
            return name in self.eligible or any(tag in self.eligible for tag in tags)
        try:
            return bool(self.eligible(name, facts))
        except Exception as error:  # the operator's function, on what a client says of itself
            raise InputError(
                f"{self.who}.eligible must give true or false of client {name!r}, whose facts are "
                f"{', '.join(facts) or 'none'}; got {type(error).__name__}: {error}. Facts that the selector does "
                "not read are asked for with facts=[…]."
            ) from error


def _path(who: str, name: str, options: Mapping[str, Any]) -> Path | None:
    """Return the path of a file that an option gives; ``resume=True`` means the checkpoint, False none."""
    value = options[name]
    if name == "resume" and isinstance(value, bool):
        if value and options.get("checkpoint") is None:
            raise bad(f"{who}.resume", "a path where no checkpoint is given", value)
        if not value:
            return None
        value = options["checkpoint"]
    if not isinstance(value, str | Path):
        raise bad(f"{who}.{name}", "a path", value)
    if Path(value).is_dir():
        raise bad(f"{who}.{name}", "the path of a file", f"the folder {value}")
    return Path(value)
