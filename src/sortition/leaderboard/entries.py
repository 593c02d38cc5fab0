"""Who takes part: every method with its defaults, variants of Microcosm that know less, and methods of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sortition import selectors
from sortition.studies.overlay import assign, label_of

BASELINE = "uniform"
REFERENCES = ("full",)  # beyond the budget: shown, never ranked
VARIANTS: tuple[dict[str, Any], ...] = (
    {"name": "microcosm", "by": "labels", "estimate": True, "label": "microcosm-estimate"},
    {"name": "microcosm", "by": "updates", "label": "microcosm-updates"},
    {"name": "microcosm", "by": "bias", "label": "microcosm-bias"},
    {"name": "microcosm", "by": "sizes", "label": "microcosm-sizes"},
)
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
