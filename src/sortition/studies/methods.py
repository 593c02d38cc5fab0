"""Methods as a study names them: by discovered name, or by the import path of a class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from sortition import selectors
from sortition.core.errors import InputError, bad, unknown
from sortition.core.import_policy import imported
from sortition.core.selector import Selector
from sortition.results.reference_lines import REFERENCES

ELSEWHERE = {
    "fedprox": "the proximal term is local = { proximal = 0.01 }, for any method",
    "fedavg": "plain federated averaging is uniform",
    "random": "uniform draws clients at random",
    "fedavgm": "the server's momentum is server = { name = 'momentum' }, for any method",
    "fedadam": "the server's Adam is server = { name = 'adam' }, for any method",
    "fedopt": "the server's rules are server = { name = 'momentum' } or 'adam', for any method",
}  # what people look for among the methods


def selector_class(name: str) -> type[Selector[Any]]:
    """The class behind a name such as ``fedgs``, or behind ``package.module:Class``."""
    if ":" not in name:
        if (hint := ELSEWHERE.get(name.lower())) and name not in selectors.discover():
            raise InputError(f"method.name must be one of the methods; got {name!r}. Note: {hint}.")
        if name.endswith(".py"):
            path = name.removesuffix(".py").replace("/", ".")
            raise bad("method.name", "a method, or package.module:Class", name, f"Name the class: {path}:Class.")
        return selectors.find(name)
    found = imported(name, "method.name")
    found = type(found) if isinstance(found, Selector) else found
    if not (inspect.isclass(found) and issubclass(found, Selector)):
        raise InputError(f"method.name must be a Selector class; got {name!r}, a {type(found).__name__}.")
    return found


def selector(name: str, parameters: Mapping[str, Any]) -> Selector[Any]:
    """The method with its hyper-parameters; lists become tuples, which TOML does not have.

    An import path may also lead to an instance, which has its parameters already.
    """
    if name in REFERENCES:
        if parameters:
            raise unknown("key", next(iter(parameters)), (), name)
        return selectors.load("uniform")  # which is not asked: no client is selected
    made = imported(name, "method.name") if ":" in name else None
    if isinstance(made, Selector):
        if parameters:
            raise unknown("key", next(iter(parameters)), (), f"method {name}")
        return made
    return selector_class(name).load(**{key: _frozen(value) for key, value in parameters.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def outside_notes(selector: Selector[Any]) -> tuple[str, ...]:
    """Notes on a method from elsewhere whose choices depend on more than its state and ``round.rng``."""
    kind = type(selector)
    if kind.__module__.startswith("sortition.selectors."):
        return ()
    if kind not in _outside:
        _outside[kind] = tuple(f"{kind.__name__} {sentence}" for sentence in _probed(selector))
    return _outside[kind]


_outside: dict[type, tuple[str, ...]] = {}


def _probed(selector: Selector[Any]) -> list[str]:
    from sortition.testing.outside import outside_sources

    try:
        return outside_sources(selector)
    except Exception:  # it fails in its own run then, or needs facts that a scripted world has not
        return []


def needs_of(selector: Selector[Any]) -> dict[str, Any]:
    """The privacy label as plain data: what a method reads, asks and has reported."""
    needs = selector.needs
    return {
        "reads": list(needs.reads),
        "asks": {signal.name: signal.summary for signal in needs.asks},
        "reports": {signal.name: signal.summary for signal in needs.reports},
        "of": {signal.name: signal.of for signal in (*needs.asks, *needs.reports)},
        **({"optional": list(needs.optional)} if needs.optional else {}),
        "horizon": needs.horizon,
        "individual": needs.individual,
    }
