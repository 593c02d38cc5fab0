"""How often and when a device may be used: the settings of a policy, its rules, and what each rule says in words.

A :class:`Policy` is what an operator promises: at most so often, at least so far apart, only while charging. Each of
its limits is one :class:`Rule`. A rule has a key such as ``participations=2/1 day`` under which records and audit logs
say whom it left out; the key holds the whole rule, so that a log explains itself (:func:`explain_exclusion`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from pydantic import Strict

from sortition.core.errors import InputError, bad
from sortition.core.population import LARGEST_COUNT
from sortition.core.validation import is_number, is_whole, refuse_unknown_keys

Number = Annotated[float, Strict()]  # in a study's file, true is not 1
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Per = Literal["client", "owner", "tag"]

SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
COUNTED = ("separation", "participations", "megabytes", "lifetime")  # rules on what a device has done before
FACT_OF = {"examples": "sizes", "battery": "battery", "charging": "charging", "idle": "idle"}
UTC_OFFSET = "utc_offset"  # the fact that says by how many hours a device's clock is ahead of UTC
_SPAN = re.compile(r"(?P<amount>[0-9]+(\.[0-9]+)?) (?P<unit>round|second|minute|hour|day|week)s?")
_HOURS = re.compile(r"(?P<first>[0-9]{1,2})-(?P<last>[0-9]{1,2})")
_KEY = re.compile(
    r"(?P<name>[a-z]+)(=(?P<limit>[^/]+?))?(/(?P<window>.+?))?( per (?P<per>owner|tag))?( only (?P<only>.+))?"
)

_SHARERS: dict[str | None, Per] = {None: "client", "owner": "owner", "tag": "tag"}  # by what a key says after "per"


def _match_whole(pattern: re.Pattern[str], text: object) -> re.Match[str] | None:
    """Match a whole text; what is no text does not match."""
    if not isinstance(text, str):
        return None
    return pattern.fullmatch(text)


@dataclass(frozen=True)
class Span:
    """A length of time: rounds of one job, or seconds of the clock.

    Attributes:
        text: as it was written, such as "3 rounds" or "1 day".
        amount: how many rounds or seconds.
        in_rounds: whether rounds are counted.
    """

    text: str
    amount: float
    in_rounds: bool

    @classmethod
    def read(cls, subject: str, text: object) -> Span:
        """Read "3 rounds" or "6 hours"; ``subject`` names the option in messages."""
        match = _match_whole(_SPAN, text)
        hint = 'Write "3 rounds", "90 seconds", "6 hours", "1 day" or "2 weeks".'
        if match is None:
            raise bad(subject, "a number and a unit", text, hint)
        amount = float(match["amount"])
        in_rounds = match["unit"] == "round"
        if not 0 < amount <= LARGEST_COUNT or (in_rounds and amount != int(amount)):
            raise bad(subject, "a whole number of rounds, or a time above 0", text, hint)
        if not in_rounds:
            amount *= SECONDS[match["unit"]]
        return cls(match.string, amount, in_rounds)


@dataclass(frozen=True)
class Rule:
    """One limit of a policy.

    Attributes:
        name: the field of :class:`Policy`.
        limit: its value, as text; empty for a condition that is only on or off.
        window: the time within which it counts; empty where it needs none.
        per: who shares the limit.
        only: names and tags that it applies to; none: everybody.
    """

    name: str
    limit: str = ""
    window: str = ""
    per: Per = "client"
    only: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The rule in one line, under which records and audit logs name it."""
        key = self.name
        if self.limit:
            key += f"={self.limit}"
        if self.window:
            key += f"/{self.window}"
        if self.per != "client":
            key += f" per {self.per}"
        if self.only:
            key += f" only {', '.join(self.only)}"
        return key

    @classmethod
    def parse(cls, key: str) -> Rule | None:
        """Read the rule of a key; None where it is no key of ours."""
        match = _KEY.fullmatch(key)
        if match is None or match["name"] not in RULES:
            return None
        names_and_tags: tuple[str, ...] = ()
        if match["only"]:
            names_and_tags = tuple(match["only"].split(", "))
        return cls(
            name=match["name"],
            limit=match["limit"] or "",
            window=match["window"] or "",
            per=_SHARERS[match["per"]],
            only=names_and_tags,
        )


@refuse_unknown_keys
@dataclass(frozen=True)
class Policy:
    """How often and when a device may be used; what is left out limits nothing.

    A participation is a round in which a device is asked to train. It counts when its work is sent, whatever becomes of
    the answer. Windows slide: "2 within 1 day" holds for any 24 hours.

    Attributes:
        separation: the least time between the beginnings of two participations, such as "3 rounds" or "6 hours".
        participations: how often a device takes part within ``window``; 0: as often as it is chosen.
        megabytes: how much a device receives and sends within ``window``, 4 bytes a number; 0: any amount.
        window: the time within which participations and megabytes count, such as "10 rounds" or "1 day".
        lifetime: how often a device takes part in all; 0: as often as it is chosen.
        hours: the hours of the day in which a device may begin, such as "22-6": from 22:00 until 6:00.
        local_hours: whether ``hours`` are those of the device's own clock, by its fact ``utc_offset``; default: the
            server's.
        examples: the least number of examples, by the fact ``sizes``; 0: any.
        battery: the least charge, a share in [0, 1], by the fact ``battery``; 0: any.
        charging: whether a device must be charging, by the fact ``charging``.
        idle: whether a device must be idle, by the fact ``idle``.
        per: who shares a limit on what was done before: each ``client`` has its own, or all clients of an ``owner``, or
            with a ``tag``, have one together.
        only: names and tags of the clients that the policy applies to; none: everybody.
    """

    separation: str = ""
    participations: Whole = 0
    megabytes: Number = 0.0
    window: str = ""
    lifetime: Whole = 0
    hours: str = ""
    local_hours: Flag = False
    examples: Whole = 0
    battery: Number = 0.0
    charging: Flag = False
    idle: Flag = False
    per: Per = "client"
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("participations", "lifetime", "examples"):
            value = getattr(self, name)
            if not is_whole(value, 0):
                raise bad(f"Policy.{name}", "a whole number ≥ 0", value, "0 turns it off.")
            if value > LARGEST_COUNT:
                raise bad(f"Policy.{name}", f"at most {LARGEST_COUNT}", value, "0 turns it off.")
        for name in ("charging", "idle", "local_hours"):
            if not isinstance(getattr(self, name), bool):
                raise bad(f"Policy.{name}", "true or false", getattr(self, name))
        self._check_amounts()
        self._check_times()
        self._check_scope()
        if not self.rules:
            raise InputError(f"Policy must be given at least one limit; got none. Limits are {', '.join(RULES)}.")

    def _check_amounts(self) -> None:
        for name in ("megabytes", "battery"):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and value >= 0):
                raise bad(f"Policy.{name}", "a number ≥ 0", value, "0 turns it off.")
            object.__setattr__(self, name, float(value))
        if self.battery > 1:
            raise bad("Policy.battery", "a share in [0, 1]", self.battery, "30 % is 0.3.")

    def _check_times(self) -> None:
        if self.separation:
            Span.read("Policy.separation", self.separation)
        if self.window:
            Span.read("Policy.window", self.window)
        windowed = bool(self.participations or self.megabytes)
        if windowed and not self.window:
            raise InputError(
                'Policy.window must be given with participations or megabytes; got nothing. Write window = "1 day".'
            )
        if self.window and not windowed:
            raise bad("Policy.window", "given with participations or megabytes only", self.window)
        if self.hours != "":
            read_hours("Policy.hours", self.hours)
        if self.local_hours and not self.hours:
            raise bad("Policy.local_hours", "given with hours only", self.local_hours)

    def _check_scope(self) -> None:
        if self.per not in ("client", "owner", "tag"):
            raise bad("Policy.per", "'client', 'owner' or 'tag'", self.per)
        if isinstance(self.only, str) or not all(isinstance(word, str) and word for word in self.only):
            raise bad("Policy.only", "a list of names and tags", self.only)
        object.__setattr__(self, "only", tuple(self.only))
        if self.per != "client" and not any(rule.name in COUNTED for rule in self.rules):
            raise bad("Policy.per", "'client' where nothing is counted", self.per)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its rules, those first that need no fact of a device: a client is left out by the first that it breaks."""
        hours = self.hours
        if self.local_hours:
            hours += " local"
        limits = {
            "separation": self.separation,
            "participations": _write_limit(self.participations),
            "megabytes": _write_limit(self.megabytes),
            "lifetime": _write_limit(self.lifetime),
            "hours": hours,
            "examples": _write_limit(self.examples),
            "battery": _write_limit(self.battery),
        }
        rules = []
        for name in RULES:
            limit = limits.get(name, "")
            if limit or self._is_on(name):
                rules.append(self._rule(name, limit))
        return tuple(rules)

    def _is_on(self, name: str) -> bool:
        """Tell whether a condition holds that has no limit."""
        return name in ("charging", "idle") and bool(getattr(self, name))

    def _rule(self, name: str, limit: str) -> Rule:
        """Make one rule of this policy."""
        rule = Rule(name=name, limit=limit, only=self.only)
        if name in ("participations", "megabytes"):
            rule = replace(rule, window=self.window)
        if name in COUNTED:
            rule = replace(rule, per=self.per)
        return rule

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts of a device that its rules look at."""
        names = [FACT_OF[rule.name] for rule in self.rules if rule.name in FACT_OF]
        if self.local_hours:
            names.append(UTC_OFFSET)
        return tuple(names)

    def without(self, name: str) -> Policy | None:
        """Return the same policy without one rule; None where nothing is left of it."""
        table = {key: value for key, value in self.changed().items() if key != name}
        if name == "hours":
            table.pop("local_hours", None)
        if not {"participations", "megabytes"} & table.keys():
            table.pop("window", None)
        if not set(COUNTED) & table.keys():
            table.pop("per", None)
        if not table.keys() & set(RULES):
            return None
        return Policy(**table)

    def changed(self) -> dict[str, Any]:
        """Return the fields that differ from the defaults: what a run's configuration holds."""
        table = {item.name: getattr(self, item.name) for item in fields(Policy)}
        table["only"] = list(self.only)
        defaults = {item.name: item.default for item in fields(Policy)} | {"only": []}
        return {name: value for name, value in table.items() if value != defaults[name]}


RULES = (
    "hours",
    "separation",
    "participations",
    "megabytes",
    "lifetime",
    "examples",
    "battery",
    "charging",
    "idle",
)  # in the order in which they are looked at


def _write_limit(limit: float) -> str:
    """Write a limit as a key has it; empty where it is off."""
    if not limit:
        return ""
    if isinstance(limit, float):
        return f"{limit:g}"
    return str(limit)


def read_hours(subject: str, text: object) -> tuple[int, int]:
    """Read "22-6": the hours from which and until which a device may begin."""
    match = _match_whole(_HOURS, text)
    if match is None or int(match["first"]) > 24 or int(match["last"]) > 24 or match["first"] == match["last"]:
        raise bad(subject, "two different hours of a day", text, 'Write "22-6": from 22:00 until 6:00.')
    return int(match["first"]) % 24, int(match["last"]) % 24


def as_policies(subject: str, value: object) -> tuple[Policy, ...]:
    """Return the policies that an option gives: none, one, or several, which hold together."""
    if value is None:
        return ()
    if isinstance(value, Policy):
        return (value,)
    if isinstance(value, Iterable) and not isinstance(value, str):
        policies = tuple(value)
        if all(isinstance(policy, Policy) for policy in policies):
            return policies
    raise bad(subject, "a Policy or a list of them", value, 'Write Policy(participations=2, window="1 day").')


def explain_exclusion(key: str) -> str:
    """Say in words why the rule with this key, of a record or an audit log, left a client out."""
    rule = Rule.parse(key)
    if rule is None:
        return key
    if rule.per != "client":
        return f"its {rule.per} has no place left under the limit {_describe_limit(rule)}"
    match rule.name:
        case "separation":
            return f"chosen less than {rule.limit} before"
        case "participations":
            return f"chosen {rule.limit} of {rule.limit} times within {rule.window}"
        case "megabytes":
            return f"one more training would exceed {rule.limit} MB within {rule.window}"
        case "lifetime":
            return f"chosen {rule.limit} of {rule.limit} times in all"
        case "hours":
            if rule.limit.endswith(" local"):
                return f"outside of the hours {rule.limit.removesuffix(' local')} of its own clock"
            return f"outside of the hours {rule.limit} of the server's clock"
        case "examples":
            return f"fewer than {rule.limit} examples"
        case "battery":
            return f"its battery is below {rule.limit} of full"
    return f"not {rule.name}"


def _describe_limit(rule: Rule) -> str:
    """Say in words what a rule limits that counts what was done before."""
    if rule.name == "separation":
        return f"of {rule.limit} between two participations"
    if rule.name == "participations":
        return f"of {rule.limit} participations within {rule.window}"
    if rule.name == "megabytes":
        return f"of {rule.limit} MB within {rule.window}"
    return f"of {rule.limit} participations in all"
