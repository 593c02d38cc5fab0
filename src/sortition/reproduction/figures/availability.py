"""The seven ways of coming and going of FedGS's Table 1, pictured, and measured against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition import availability
from sortition.availability import Availability
from sortition.availability._pictures import availability_chart
from sortition.core.arrays import Array
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.studies.config import Data, validated
from sortition.studies.federation import split

MEASURED = 2000  # rounds over which frequencies are counted
NAMES = {target: alias for alias, target in availability.ALIASES.items()}


def make(context: Context, *, data: dict[str, Any], mode: list[dict[str, Any]], shown: int = 100) -> str:
    """One picture of all modes (rounds × clients) and a table of measured and expected frequencies."""
    import altair as alt

    parts = split(validated(Data, data, "figure.data"), 0)
    counts = parts.train.label_counts(parts.dataset.y_train, parts.dataset.classes)
    charts, table = [], Table("Reachable, share of clients", ["mode", "paper", "expected", "measured", "largest |z|"])
    for one in mode:
        options = {key: value for key, value in one.items() if key != "name"}
        bound = availability.make(
            one["name"], clients=parts.clients, seed=0, sizes=parts.train.sizes, label_counts=counts, **options
        )
        context.say(f"{one['name']}: {context.rounds or MEASURED} rounds")
        masks = np.stack([bound.at(t) for t in range(context.rounds or MEASURED)])
        rates = np.stack([_rates(bound, t) for t in range(len(masks))])
        alias = NAMES.get(one["name"], "")
        order = np.lexsort((rates.mean(axis=0), np.argmax(rates, axis=0)))
        charts.append(availability_chart(masks[:shown, order], f"{one['name']} ({alias})"))
        table.rows.append(
            [one["name"], alias, f"{rates.mean():.4f}", f"{masks.mean():.4f}", f"{_largest(masks, rates):.2f}"]
        )
    table.notes.append(
        f"{len(charts)} modes over {parts.clients} clients; |z|: the client whose frequency lies farthest from its "
        "expectation, in standard errors. Of so many clients one between 2 and 4 is usual; draws that are repeated "
        "because nobody was reachable lift it a little."
    )
    picture = context.save("modes", alt.concat(*charts, columns=2, spacing=24))
    return f"{picture}\n\n{table.markdown()}"


def _rates(bound: Availability, t: int) -> Array:
    rates = bound.rates(t)
    return np.ones(bound.clients) if rates is None else rates


def _largest(masks: Array, rates: Array) -> float:
    """max over clients of |Σ(mask − rate)| / √Σ rate(1 − rate)."""
    spread = np.sqrt((rates * (1 - rates)).sum(axis=0))
    off = np.abs((masks - rates).sum(axis=0))
    return float(np.max(np.divide(off, spread, out=np.zeros_like(off), where=spread > 1e-9)))
