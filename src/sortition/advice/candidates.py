"""Which methods the stated limits and the federation allow, and why the others are ruled out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sortition.advice.profile import Known, Limits
from sortition.core.errors import InputError
from sortition.core.registrar import Registrar
from sortition.core.selector import Needs, Selector
from sortition.leaderboard.entries import REFERENCES, default_entries
from sortition.studies import methods
from sortition.studies.overlay import label_of

Candidates = dict[str, Selector[Any]]


def allowed(limits: Limits) -> tuple[Candidates, dict[str, str]]:
    """Label → method, and label → why it is ruled out; everybody with its default parameters."""
    kept, ruled_out = Candidates(), dict[str, str]()
    facts = ("label_counts",) if limits.label_counts else ()
    for entry in default_entries():
        label = label_of(entry)
        if label in REFERENCES or "reweight" in entry:  # which weighs another method's choice
            continue
        options = {key: value for key, value in entry.items() if key not in ("name", "label")}
        selector = methods.selector(entry["name"], options).resolved(facts)
        if why := reason(selector.needs, limits):
            ruled_out[label] = why
        elif selector not in kept.values():  # auto without label counts is one of the variants
            kept[label] = selector
    return kept, ruled_out


def reason(needs: Needs, limits: Limits) -> str:
    """Why a method with these needs is ruled out; empty if it is not."""
    broken = [
        ("label_counts" in needs.reads and not limits.label_counts, "reads label counts"),
        ("features" in needs.reads or "groups" in needs.reads, "reads facts that the profile does not have"),
        (needs.individual and limits.secure_aggregation, "sees single updates"),
        (bool(needs.asks) and not limits.questions, f"asks clients for {_names(needs)}"),
        (any(signal.of == "pairs" for signal in needs.asks), "asks pairs of clients"),
        (bool(needs.of_server), "needs data of the server's own"),
    ]
    return next((why for is_broken, why in broken if is_broken), "")


def _names(needs: Needs) -> str:
    return ", ".join(signal.name for signal in needs.asks)


def usable(candidates: Candidates, source: Known) -> tuple[Candidates, dict[str, str]]:
    """Methods that can begin a round of this federation; others say why they cannot, such as a cohort too small."""
    kept, left = Candidates(), dict[str, str]()
    for label, selector in candidates.items():
        registrar = Registrar(selector, source.population, horizon=source.rounds)
        try:
            registrar.begin(np.arange(source.clients), source.cohort)
        except InputError as error:
            left[label] = f"cannot be used here ({str(error).rstrip('.')})"
        else:
            kept[label] = selector
    return kept, left


def replayable(candidates: Iterable[tuple[str, Selector[Any]]]) -> tuple[Candidates, dict[str, str]]:
    """Methods that choose without hearing from clients; others cannot be replayed without training."""
    kept, left = Candidates(), dict[str, str]()
    for label, selector in candidates:
        needs = selector.needs
        if needs.asks or needs.reports:
            left[label] = f"hears {', '.join(s.name for s in (*needs.asks, *needs.reports))} from clients"
        else:
            kept[label] = selector
    return kept, left
