"""The seven ways of coming and going of FedGS's Table 1, pictured, and measured against their formulas."""

from __future__ import annotations

import numpy as np

from sortition import availability
from sortition.availability import Availability
from sortition.availability._pictures import availability_chart
from sortition.core.arrays import Array
from sortition.reproduction.context import Context, Toml
from sortition.results.table import Table
from sortition.studies.build_federation import split_data
from sortition.studies.config import Data, validated

ROUNDS = 2000  # over which frequencies are counted
PAPER_NAMES = {target: alias for alias, target in availability.ALIASES.items()}


def make(context: Context, *, data: Toml, mode: list[Toml], shown: int = 100) -> str:
    """Draw all modes (rounds × clients), and compare measured with expected frequencies in a table."""
    import altair as alt

    parts = split_data(validated(Data, data, "figure.data"), 0)
    label_counts = parts.train.label_counts(parts.dataset.y_train, parts.dataset.classes)
    n_rounds = context.rounds or ROUNDS
    charts = []
    table = Table("Reachable, share of clients", ["mode", "paper", "expected", "measured", "largest |z|"])
    for mode_table in mode:
        name = mode_table["name"]
        options = {key: value for key, value in mode_table.items() if key != "name"}
        clients_available = availability.make(
            name, clients=parts.clients, seed=0, sizes=parts.train.sizes, label_counts=label_counts, **options
        )
        context.say(f"{name}: {n_rounds} rounds")
        masks = np.stack([clients_available.at(t) for t in range(n_rounds)])
        rates = np.stack([_rates(clients_available, t) for t in range(n_rounds)])
        alias = PAPER_NAMES.get(name, "")
        order = np.lexsort((rates.mean(axis=0), np.argmax(rates, axis=0)))
        charts.append(availability_chart(masks[:shown, order], f"{name} ({alias})"))
        table.rows.append(
            [name, alias, f"{rates.mean():.4f}", f"{masks.mean():.4f}", f"{_largest_deviation(masks, rates):.2f}"]
        )
    table.notes.append(
        f"{len(charts)} modes over {parts.clients} clients; |z|: the client whose frequency lies farthest from its "
        "expectation, in standard errors. Of so many clients one between 2 and 4 is usual; draws that are repeated "
        "because nobody was reachable lift it a little."
    )
    picture = context.save("modes", alt.concat(*charts, columns=2, spacing=24))
    return f"{picture}\n\n{table.markdown()}"


def _rates(mode: Availability, t: int) -> Array:
    """Return the probabilities of being reachable in a round; 1 where the mode states none."""
    rates = mode.rates(t)
    if rates is None:
        return np.ones(mode.clients)
    return rates


def _largest_deviation(masks: Array, rates: Array) -> float:
    """Return the largest |Σ(mask − rate)| / √Σ rate(1 − rate) over clients."""
    deviation = np.abs((masks - rates).sum(axis=0))
    standard_error = np.sqrt((rates * (1 - rates)).sum(axis=0))
    varies = standard_error > 1e-9
    return float(np.max(np.divide(deviation, standard_error, out=np.zeros_like(deviation), where=varies)))
