"""What both controllers are given, checked before anything runs. All of it goes through JSON, as NVFlare demands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from sortition.core import Guards, Selector
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import imported
from sortition.core.validation import is_number
from sortition.federation.engine import Combining
from sortition.federation.members import Owner
from sortition.federation.options import Eligible, Options, as_path, checkpoint_paths
from sortition.federation.pace import DEADLINE
from sortition.selectors import find

AS_GIVEN = (  # options that mean the same in JSON and in Python
    "seed",
    "horizon",
    "overselect",
    "facts",
    "refresh",
    "wait_for",
    "patience",
    "answer_timeout",
    "profile_timeout",
    "checkpoint_every",
)
TRANSLATED = (
    "parameters",
    "guards",
    "owners",
    "eligible",
    "deadline",
    "combine",
    "checkpoint",
    "resume",
    "audit",
    "on_round",
)


def read_options(who: str, selector: str, cohort: int, rounds: int, options: Mapping[str, Any] | None) -> Options:
    """The options of a federation, from the table that a controller is given.

    Args:
        who: the controller's class, for messages.
        selector: a method's name, or ``package.module:Class`` of one that the server can import.
        cohort: sites a round.
        rounds: of the job, for which the selector plans.
        options: a table of the keys that docs/nvflare.md lists.
    """
    table = _table(who, "options", options)
    known = sorted((*AS_GIVEN, *TRANSLATED))
    for name in table:
        if name not in known:
            raise unknown("option", name, known, f"{who}.options")
    checkpoint, resume = checkpoint_paths(who, table.get("checkpoint") or None, _resumes(who, table))
    audit = table.get("audit") or None
    audit_path = None
    if audit is not None:
        audit_path = as_path(who, "audit", audit)
    return Options(
        selector=_selector(who, selector, _table(who, "parameters", table.get("parameters"))),
        cohort=cohort,
        guards=_guards(who, _table(who, "guards", table.get("guards"))),
        owner_of=_owner_of(_table(who, "owners", table.get("owners"))),
        eligible=_function_or_names(who, table.get("eligible")),
        deadline=_deadline(who, table.get("deadline", DEADLINE)),
        checkpoint=checkpoint,
        resume=resume,
        audit=audit_path,
        on_round=_function(who, "on_round", table.get("on_round")),
        who=who,
        **{"horizon": rounds, **{name: table[name] for name in AS_GIVEN if name in table}},
    )


def read_combining(who: str, options: Mapping[str, Any] | None) -> Combining:
    """How updates become one: the option ``combine``, a rule's name or a table of its parameters."""
    return Combining.by((options or {}).get("combine", "mean"), who)


def _table(who: str, name: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise bad(f"{who}.{name}", "a table", value)
    return value


def _selector(who: str, name: str, parameters: Mapping[str, Any]) -> Selector[Any]:
    if not isinstance(name, str):
        raise bad(f"{who}.selector", "the name of a method", name, "Its parameters go into options.")
    if ":" not in name:
        return find(name).load(**parameters)
    method = imported(name, f"{who}.selector")
    if not (inspect.isclass(method) and issubclass(method, Selector)):
        raise bad(f"{who}.selector", "a Selector class", name)
    return method.load(**parameters)


def _guards(who: str, table: Mapping[str, Any]) -> Guards:
    try:
        return Guards(**table)
    except TypeError as error:
        raise InputError(f"{who}.guards must hold keys of Guards; {error}.") from None


def _owner_of(owners: Mapping[str, Any]) -> Owner | None:
    """From a site's name to its owner; a site that is not named owns itself."""
    if not owners:
        return None
    return lambda site: owners.get(site, site)


def _function_or_names(who: str, value: Any) -> Eligible | None:
    """Who is eligible: names and tags as they are, or a function by its import path."""
    if isinstance(value, str) or callable(value):
        return _function(who, "eligible", value)
    return value


def _function(who: str, name: str, path: object) -> Callable[..., Any] | None:
    """A function that the server can import."""
    if path is None:
        return None
    if not isinstance(path, str) or ":" not in path:
        hint = "NVFlare writes options as JSON, so name the function by its import path."
        raise bad(f"{who}.{name}", "package.module:function", path, hint)
    function: Callable[..., Any] = imported(path, f"{who}.{name}")
    if not callable(function):
        raise bad(f"{who}.{name}", "the import path of a function", path)
    return function


def _deadline(who: str, seconds: float | None) -> float:
    """Seconds of a round; null waits for everybody."""
    if seconds is None:
        return math.inf
    if not (is_number(seconds) and math.isfinite(seconds) and seconds > 0):
        raise bad(f"{who}.deadline", "seconds > 0, or null", seconds, "null waits for everybody.")
    return float(seconds)


def _resumes(who: str, table: Mapping[str, Any]) -> bool | None:
    resume = table.get("resume", False)
    if not isinstance(resume, bool):
        raise bad(f"{who}.resume", "true or false", resume)
    return resume or None
