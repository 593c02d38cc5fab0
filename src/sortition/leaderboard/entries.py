"""The entries of the leaderboard: every method with its defaults, variants of methods, and methods of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sortition import selectors
from sortition.studies.overlay import label_of, with_assignment

BASELINE = "uniform"
REFERENCES = ("full",)  # train more clients than the budget allows, and are never ranked
Entry = dict[str, Any]  # an entry of a study's list ``method``: name, label and parameters
VARIANTS: tuple[Entry, ...] = tuple({**entry, "label": label} for label, entry in selectors.VARIANTS.items())
# Alternatives to the defaults: they compete on the tuning half, and the best of a method goes to the held-out half.
ALTERNATIVES = (
    "power-of-choice,d=30",
    "power-of-choice,d=60",
    "active,alpha3=0.3",
    "active,alpha3=0.6",
    "clustered,by=size",
    "cs-ucb-q,fraction=0.5",
    "divfl,refresh=all",
    "divfl,weights=cover",
    "fedcor,warmup=5",
    "fedcor,beta=0.99",
    "fedgs,alpha=0.3",
    "fedgs,alpha=3.0",
    "fedss,allocation=neyman",
    "hics,fallback=diverse",
    "hics,gamma0=1.0",
    "longfed,trade_off=0.1",
    "longfed,trade_off=2.0",
)


def default_entries() -> list[Entry]:
    """Return every discovered method with its defaults, the baseline first, then the variants."""
    names = [BASELINE, *(name for name in selectors.discover() if name != BASELINE)]
    return [*({"name": name} for name in names), *(dict(variant) for variant in VARIANTS)]


def chosen_entries(texts: Sequence[str]) -> list[Entry]:
    """Return the baseline and the entries that ``--method`` names by label, by name or by ``package.module:Class``.

    Parameters follow after commas: ``fedgs,alpha=2,label=fedgs-2``.
    """
    defaults = {label_of(entry): entry for entry in default_entries()}
    chosen = {BASELINE: defaults[BASELINE]}
    for text in texts:
        name, *options = text.split(",")
        new_entry: Entry = {"name": name, "label": name.rpartition(":")[2]}
        entry = dict(defaults.get(name, new_entry))
        for option in options:
            entry = with_assignment(entry, option)
        if options and not any(option.startswith("label=") for option in options):
            entry["label"] = ",".join([label_of(entry), *options])
        chosen[label_of(entry)] = entry
    return list(chosen.values())


def weighed_entries(rule: str) -> list[Entry]:
    """Return every method with its defaults, its cohorts weighed by one rule."""
    return chosen_entries([weighed_label(label_of(entry), rule) for entry in default_entries()])


def weighed_label(label: str, rule: str) -> str:
    """Return the label of a method whose cohorts are weighed by a common rule."""
    return f"{label},reweight={rule}"


def is_plain_label(label: str) -> bool:
    """Tell whether a label is that of a method with its defaults."""
    return "," not in label
