"""Who takes part: every method with its defaults, variants of Microcosm that know less, FedAU, methods of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sortition import selectors
from sortition.studies.overlay import assign, label_of

BASELINE = "uniform"
REFERENCES = ("full",)  # beyond the budget: never ranked
VARIANTS: tuple[dict[str, Any], ...] = tuple({**one, "label": label} for label, one in selectors.VARIANTS.items())
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
)  # to the defaults; on the tuning half they compete, and the best of a method goes to the held-out half
Entry = dict[str, Any]


def default_entries() -> list[Entry]:
    """Every discovered method with its defaults, the baseline first, then the variants."""
    names = [name for name in selectors.discover() if name != BASELINE]
    return [{"name": BASELINE}, *({"name": name} for name in names), *(dict(one) for one in VARIANTS)]


def chosen_entries(texts: Sequence[str]) -> list[Entry]:
    """The entries that ``--method`` names, and the baseline: by label, by name or by ``package.module:Class``.

    Parameters follow after commas: ``fedgs,alpha=2,label=fedgs-2``.
    """
    known = {label_of(one): one for one in default_entries()}
    found = {BASELINE: known[BASELINE]}
    for text in texts:
        name, *options = text.split(",")
        entry: Entry = dict(known.get(name, {"name": name, "label": name.rpartition(":")[2]}))
        for option in options:
            entry = assign(entry, option)
        if options and not any(option.startswith("label=") for option in options):
            entry["label"] = ",".join([label_of(entry), *options])
        found[label_of(entry)] = entry
    return list(found.values())


def weighed_entries(rule: str) -> list[Entry]:
    """Every method with its defaults, its cohorts weighed by one rule."""
    return chosen_entries([weighed(label_of(one), rule) for one in default_entries()])


def weighed(label: str, rule: str) -> str:
    """What a method is called when its cohorts are weighed by a common rule."""
    return f"{label},reweight={rule}"


def is_plain(label: str) -> bool:
    """Whether a label is that of a method with its defaults."""
    return "," not in label
