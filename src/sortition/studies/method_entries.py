"""Methods as a study names them: by discovered name, or by the import path of a class."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sortition import selectors
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import import_named
from sortition.core.selector import Selector
from sortition.results.reference_lines import REFERENCES
from sortition.studies.types import AnySelector, ReadOnlyTable, SelectorClass, TomlTable

if TYPE_CHECKING:
    from sortition.studies.config import Method

ELSEWHERE = {
    "fedprox": "the proximal term is local = { proximal = 0.01 }, for any method",
    "fedavg": "plain federated averaging is uniform",
    "random": "uniform draws clients at random",
    "fedavgm": "the server's momentum is server = { name = 'momentum' }, for any method",
    "fedadam": "the server's Adam is server = { name = 'adam' }, for any method",
    "fedopt": "the server's rules are server = { name = 'momentum' } or 'adam', for any method",
}  # what people look for among the methods


def selector_class(name: str) -> SelectorClass:
    """Return the class behind a name such as ``fedgs``, or behind ``package.module:Class``."""
    if ":" not in name:
        return _discovered_class(name)
    value = import_named(name, "method.name")
    if isinstance(value, Selector):
        return type(value)
    if not (inspect.isclass(value) and issubclass(value, Selector)):
        raise InputError(f"method.name must be a Selector class; got {name!r}, a {type(value).__name__}.")
    return value


def _discovered_class(name: str) -> SelectorClass:
    hint = ELSEWHERE.get(name.lower())
    if hint and name not in selectors.discover():
        raise InputError(f"method.name must be one of the methods; got {name!r}. Note: {hint}.")
    if name.endswith(".py"):
        path = name.removesuffix(".py").replace("/", ".")
        raise bad("method.name", "a method, or package.module:Class", name, f"Name the class: {path}:Class.")
    return selectors.find(name)


def make_selector(name: str, parameters: ReadOnlyTable) -> AnySelector:
    """Return the method with its hyper-parameters; lists become tuples, which TOML does not have.

    An import path may also lead to an instance, which has its parameters already.
    """
    if name in REFERENCES:
        if parameters:
            raise unknown("key", next(iter(parameters)), (), name)
        return selectors.load("uniform")  # it is never asked: a reference line selects no client
    if ":" in name:
        value = import_named(name, "method.name")
        if isinstance(value, Selector):
            if parameters:
                raise unknown("key", next(iter(parameters)), (), f"method {name}")
            return value
    return selector_class(name).load(**{key: _frozen(value) for key, value in parameters.items()})


def make_shadows(given: Sequence[Method] | None) -> dict[str, AnySelector]:
    """Return the methods that choose in the shadow of a run's own, by label."""
    selectors_by_label: dict[str, AnySelector] = {}
    for method in given or ():
        if method.label in selectors_by_label:
            raise bad("shadow", "methods with labels of their own", f"{method.label!r} twice", "Give each a label.")
        if method.name in REFERENCES:
            raise bad("shadow", "methods that choose clients", method.name)
        selectors_by_label[method.label] = make_selector(method.name, method.options)
    return selectors_by_label


def _frozen(value: object) -> object:
    """Return lists, and lists inside them, as tuples."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


def outside_notes(selector: AnySelector) -> tuple[str, ...]:
    """Return notes on a user's method whose choices depend on more than its state and ``round.rng``."""
    cls = type(selector)
    if cls.__module__.startswith("sortition.selectors."):
        return ()
    if cls not in _notes_by_class:
        _notes_by_class[cls] = tuple(f"{cls.__name__} {sentence}" for sentence in _outside_sources(selector))
    return _notes_by_class[cls]


_notes_by_class: dict[type, tuple[str, ...]] = {}


def _outside_sources(selector: AnySelector) -> list[str]:
    from sortition.testing.outside import outside_sources

    try:
        return outside_sources(selector)
    except Exception:  # it fails in its own run then, or needs facts that a scripted world has not
        return []


def needs_of(selector: AnySelector) -> TomlTable:
    """Return the privacy label as plain data: what a method reads, asks and has reported."""
    needs = selector.needs
    label: TomlTable = {
        "reads": list(needs.reads),
        "asks": {signal.name: signal.summary for signal in needs.asks},
        "reports": {signal.name: signal.summary for signal in needs.reports},
        "of": {signal.name: signal.of for signal in (*needs.questions, *needs.reports)},
    }
    if needs.may_ask:
        label["may_ask"] = {signal.name: signal.summary for signal in needs.may_ask}
    if needs.may_report:
        label["may_report"] = {signal.name: signal.summary for signal in needs.may_report}
    if needs.optional:
        label["optional"] = list(needs.optional)
    label["horizon"] = needs.horizon
    label["individual"] = needs.individual
    return label
