"""Which methods the stated limits and the federation allow, and why the others are ruled out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sortition.advice.profile import KnownFederation, Limits
from sortition.core.errors import InputError
from sortition.core.registrar import Registrar
from sortition.core.selector import AnySelector, Needs
from sortition.core.signals import Signal
from sortition.leaderboard.entries import REFERENCES, default_entries
from sortition.studies import method_entries
from sortition.studies.overlay import label_of

Candidates = dict[str, AnySelector]  # by label
Reasons = dict[str, str]  # why a method is ruled out, by label


def allowed(limits: Limits) -> tuple[Candidates, Reasons]:
    """Return the methods that the limits allow, each with its default parameters, and why the others are ruled out."""
    candidates: Candidates = {}
    ruled_out: Reasons = {}
    facts = ("label_counts",) if limits.label_counts else ()
    for entry in default_entries():
        label = label_of(entry)
        if label in REFERENCES or "reweight" in entry:  # which weighs another method's choice
            continue
        options = {key: value for key, value in entry.items() if key not in ("name", "label")}
        if entry["name"] == "microcosm" and not options:
            options = {"secure_aggregation": limits.secure_aggregation}
        selector = method_entries.make_selector(entry["name"], options).resolve(facts)
        broken_limit = reason(selector.needs, limits)
        if broken_limit:
            ruled_out[label] = broken_limit
        elif selector not in candidates.values():  # auto without label counts is one of the variants
            candidates[label] = selector
    return candidates, ruled_out


def reason(needs: Needs, limits: Limits) -> str:
    """Say why a method with these needs is ruled out; empty if it is not."""
    if "label_counts" in needs.reads and not limits.label_counts:
        return "reads label counts"
    if "features" in needs.reads or "groups" in needs.reads:
        return "reads facts that the profile does not have"
    if needs.individual and limits.secure_aggregation:
        return "sees single updates"
    if needs.asks and not limits.questions:
        return f"asks clients for {_names(needs.asks)}"
    if any(signal.of == "pairs" for signal in needs.asks):
        return "asks pairs of clients"
    if needs.of_server:
        return "needs data of the server's own"
    return ""


def _names(signals: Iterable[Signal]) -> str:
    """Return the names of signals, each once: a method may ask for a signal that is also reported."""
    unique_names = dict.fromkeys(signal.name for signal in signals)
    return ", ".join(unique_names)


def usable(candidates: Candidates, federation: KnownFederation) -> tuple[Candidates, Reasons]:
    """Return the methods that can begin a round of this federation, and why others cannot, as for a small cohort."""
    can_begin: Candidates = {}
    ruled_out: Reasons = {}
    for label, selector in candidates.items():
        registrar = Registrar(selector, federation.population, horizon=federation.rounds)
        try:
            federation.pace.check_selector(selector)
            registrar.begin(np.arange(federation.clients), federation.cohort)
        except InputError as error:
            ruled_out[label] = f"cannot be used here ({str(error).rstrip('.')})"
        else:
            can_begin[label] = selector
    return can_begin, ruled_out


def replayable(candidates: Candidates) -> tuple[Candidates, Reasons]:
    """Return the methods that choose without hearing from clients; others cannot be replayed without training."""
    hear_nothing: Candidates = {}
    ruled_out: Reasons = {}
    for label, selector in candidates.items():
        signals = (*selector.needs.asks, *selector.needs.reports)
        if signals:
            ruled_out[label] = f"hears {_names(signals)} from clients"
        else:
            hear_nothing[label] = selector
    return hear_nothing, ruled_out
