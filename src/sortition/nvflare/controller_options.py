"""What both controllers are given, checked before anything runs. All of it goes through JSON, as NVFlare demands."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sortition.core import Guards, Selector
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import import_named
from sortition.core.policy import Policy
from sortition.core.selector import AnySelector
from sortition.core.storage.snapshot import StoredTable
from sortition.core.validation import is_number
from sortition.federation.members import Owner
from sortition.federation.monitoring import Metrics
from sortition.federation.options import Eligible, FederationOptions, Options
from sortition.federation.pace import Pace
from sortition.selectors import find

Made = TypeVar("Made")
OF_A_JOB = ("parameters", "owners", "combine", "deadline")  # beside the options of every federation
NOT_IN_JSON = ("owner_of", "bind_names")  # NVFlare proves names, and a job names the owners of sites


def option_names() -> list[str]:
    """Return what the table of a controller may hold."""
    return sorted((FederationOptions.__annotations__.keys() - set(NOT_IN_JSON)) | set(OF_A_JOB))


def read_options(who: str, selector: str, cohort: int, rounds: int, options: StoredTable | None) -> Options:
    """Read the options of a federation from the table that a controller is given.

    Args:
        who: the controller's class, for messages.
        selector: a method's name, or ``package.module:Class`` of one that the server can import.
        cohort: sites a round.
        rounds: of the job, for which the selector plans.
        options: a table of the keys that docs/nvflare.md lists.
    """
    table = as_table(who, "options", options)
    for name in table:
        if name not in option_names():
            raise unknown("option", name, option_names(), f"{who}.options")
    federation_options: dict[str, Any] = {name: value for name, value in table.items() if name not in OF_A_JOB}
    federation_options["horizon"] = table.get("horizon", rounds)
    federation_options["guards"] = made_of(Guards, who, "guards", table.get("guards"))
    federation_options["owner_of"] = _owner_of(as_table(who, "owners", table.get("owners")))
    federation_options["policy"] = _policies(who, table.get("policy"))
    federation_options["eligible"] = _function_or_names(who, table.get("eligible"))
    federation_options["pace"] = Pace.of(table.get("pace"), f"{who}.options")
    federation_options["resume"] = _resumes(who, table)
    if table.get("on_round") is not None:
        federation_options["on_round"] = _function(who, "on_round", table["on_round"])
    federation_options["metrics"] = _metrics(who, table.get("metrics"))
    federation_options["shadow"] = _shadows(who, table.get("shadow"))
    for name in ("checkpoint", "ledger", "audit"):
        federation_options[name] = table.get(name) or None
    return Options.read(
        who,
        _selector(who, selector, as_table(who, "parameters", table.get("parameters"))),
        cohort=cohort,
        deadline=_deadline(who, table),
        label=selector,  # among its shadows, it is called as the job calls it
        **federation_options,
    )


def made_of(kind: type[Made], who: str, name: str, value: object) -> Made:
    """Make an object of a table of its parameters, or of none."""
    try:
        return kind(**as_table(who, name, value))
    except TypeError as error:
        raise InputError(f"{who}.{name} must hold keys of {kind.__name__}; {error}.") from None


def as_table(who: str, name: str, value: object) -> StoredTable:
    """Return a table as it is, and an empty one where nothing is given."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise bad(f"{who}.{name}", "a table", value)
    return value


def _selector(who: str, name: str, parameters: StoredTable) -> AnySelector:
    """Make a selector of a method's name, or of the import path (``module:Class``) of a user's class."""
    if not isinstance(name, str):
        raise bad(f"{who}.selector", "the name of a method", name, "Its parameters go into options.")
    if ":" not in name:
        return find(name).load(**parameters)
    method = import_named(name, f"{who}.selector")
    if not (inspect.isclass(method) and issubclass(method, Selector)):
        raise bad(f"{who}.selector", "a Selector class", name)
    return method.load(**parameters)


def _policies(who: str, value: object) -> list[Policy]:
    """Read the policies of a table, or of a list of tables."""
    if value is None:
        return []
    return [made_of(Policy, who, "policy", table) for table in _as_list(value)]


def _owner_of(owners: StoredTable) -> Owner | None:
    """Return a function from a site's name to its owner; a site that is not named owns itself."""
    if not owners:
        return None
    return lambda site: owners.get(site, site)


def _function_or_names(who: str, value: Eligible | str | None) -> Eligible | None:
    """Return who is eligible: names and tags as they are, or a function by its import path."""
    if isinstance(value, str) or callable(value):
        return _function(who, "eligible", value)
    return value


def _function(who: str, name: str, path: object) -> Callable[..., Any]:
    """Import a function that an option names."""
    if not isinstance(path, str) or ":" not in path:
        hint = "NVFlare writes options as JSON, so name the function by its import path."
        raise bad(f"{who}.{name}", "package.module:function", path, hint)
    function: Callable[..., Any] = import_named(path, f"{who}.{name}")
    if not callable(function):
        raise bad(f"{who}.{name}", "the import path of a function", path)
    return function


def _shadows(who: str, value: object) -> dict[str, AnySelector]:
    """Read methods by label: names or import paths, and tables with ``name``, ``label`` and parameters."""
    if value is None:
        return {}
    if not isinstance(value, list):
        raise bad(f"{who}.shadow", "a list of methods", value, 'Write ["oort"].')
    shadows: dict[str, AnySelector] = {}
    for option in value:
        table: dict[str, Any] = {"name": option}
        if isinstance(option, Mapping):
            table = dict(option)
        name = table.pop("name", None)
        label = str(table.pop("label", name))
        if label in shadows:
            raise bad(f"{who}.shadow", "methods with labels of their own", f"{label!r} twice", "Give each a label.")
        shadows[label] = _selector(who, name, table)
    return shadows


def _metrics(who: str, value: object) -> list[Any]:
    """Read where numbers are shown: a port, a table of ``Metrics``, or functions by import path that make a sink."""
    chosen: list[Any] = []
    for option in _as_list(value):
        if isinstance(option, Mapping):
            chosen.append(made_of(Metrics, who, "metrics", option))
        elif isinstance(option, str):
            make_sink = _function(who, "metrics", option)
            chosen.append(make_sink())
        elif option is not None:
            chosen.append(option)
    return chosen


def _as_list(value: object) -> list[Any]:
    """Return a list as it is, and anything else as a list of one."""
    if isinstance(value, list):
        return value
    return [value]


def _deadline(who: str, table: StoredTable) -> float | None:
    """Read the seconds of a round: null waits for everybody; None where the table says nothing."""
    if "deadline" not in table:
        return None
    seconds = table["deadline"]
    if seconds is None:
        return math.inf
    if not (is_number(seconds) and math.isfinite(seconds) and seconds > 0):
        raise bad(f"{who}.deadline", "seconds > 0, or null", seconds, "null waits for everybody.")
    return float(seconds)


def _resumes(who: str, table: StoredTable) -> bool:
    resume = table.get("resume", False)
    if not isinstance(resume, bool):
        raise bad(f"{who}.resume", "true or false", resume)
    return resume
