"""Describes the devices of a federation: quantiles, how speed goes with data, how long a training takes; draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata

from sortition.core.arrays import Floats
from sortition.simulation.devices import SLOW, ClientData
from sortition.simulation.world import World

if TYPE_CHECKING:
    import altair as alt

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
BALANCED = 1.5  # the largest label is less than so many times the smallest
MOST_POINTS = 5000  # of a picture
WORDS = {
    "large": "training examples",
    "high labels": "mean label",
    "rare labels": "mean rarity of labels",
}


@dataclass(frozen=True)
class DeviceDescription:
    """Describes the devices of N clients, for a reader of a study.

    Attributes:
        speed: (N,) examples per second.
        bandwidth_down: (N,) bytes per second from the server.
        bandwidth_up: (N,) bytes per second to the server.
        seconds: (N,) of a first training, with the model down and the update up, at a quiet hour or at midnight.
        scores: (N,) what the slow devices can have much of, by the value of ``Devices.slow``, such as ``large``.
        notes: sentences for a reader.
    """

    speed: Floats
    bandwidth_down: Floats
    bandwidth_up: Floats
    seconds: Floats
    scores: dict[str, Floats]
    notes: tuple[str, ...] = ()

    def quantiles(self) -> dict[str, Floats]:
        """Return the smallest, 10 %, 25 %, 50 %, 75 %, 90 % and largest of what differs or is finite."""
        columns = {"examples per second": self.speed}
        if np.array_equal(self.bandwidth_down, self.bandwidth_up):
            columns["bytes per second, each way"] = self.bandwidth_down
        else:
            columns["bytes per second down"] = self.bandwidth_down
            columns["bytes per second up"] = self.bandwidth_up
        columns["seconds of a training"] = self.seconds
        return {name: np.quantile(values, SHARES) for name, values in columns.items() if np.isfinite(values).all()}

    def correlations(self) -> dict[str, float]:
        """Return the rank correlation of slowness (the time of an example) with data; NaN where one does not vary."""
        return {name: rank_correlation(-self.speed, score) for name, score in self.scores.items()}


def rank_correlation(x: Floats, y: Floats) -> float:
    """Return Spearman's ρ; NaN where one of both does not vary."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def describe_devices(world: World) -> DeviceDescription:
    """Describe the devices of a simulated federation."""
    everybody = np.arange(world.n_clients)
    counts = world.label_counts if world.has_label_counts else None
    data = ClientData(world.training_parts.sizes, counts)
    kinds = [kind for kind in SLOW if kind == "large" or counts is not None]
    fleet = world.fleet
    notes = list(fleet.notes)
    if fleet.devices.slow == "rare labels" and counts is not None:
        of_labels = counts.sum(axis=0)
        if of_labels.max() < BALANCED * of_labels.min():
            notes.append('All labels are about equally frequent, so that "rare" says little; "high labels" says more.')
    busy = fleet.devices.busy
    if busy is not None:
        first, end = busy.hours
        notes.append(f"From {first:g} to {end:g} h devices have {busy.factor:g} of their speed.")
    return DeviceDescription(
        speed=fleet.speed,
        bandwidth_down=fleet.bandwidth_down,
        bandwidth_up=fleet.bandwidth_up,
        seconds=world.costs.seconds(everybody, 0),
        scores={kind: data.score(kind) for kind in kinds},
        notes=tuple(notes),
    )


def devices_chart(
    described: DeviceDescription, title: str, slow: str | None = None, deadline: float = math.inf
) -> alt.HConcatChart:
    """Draw how long each client trains, from fast to slow, and its speed over what it holds.

    Args:
        described: the devices.
        title: above the picture.
        slow: what speed is drawn against; default: the number of examples.
        deadline: seconds of a round, drawn as a line where it is finite.
    """
    import altair as alt

    kind = slow or "large"
    n = described.speed.size
    shown_ranks = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64))
    by_time = np.sort(described.seconds)
    bars = [{"client": int(rank), "seconds": float(by_time[rank])} for rank in shown_ranks]
    bars.append({"client": n, "seconds": float(by_time[-1])})
    points = [
        {"speed": float(described.speed[client]), "score": float(described.scores[kind][client])}
        for client in shown_ranks
    ]
    times = (
        alt.Chart(alt.InlineData(values=bars))
        .mark_area(color="#2b5d8c", opacity=0.8, interpolate="step-after")
        .encode(
            x=alt.X("client:Q", title="clients, fastest first", scale=alt.Scale(domain=[0, n], nice=False)),
            y=alt.Y("seconds:Q", title="seconds of a training"),
        )
        .properties(width=360, height=240)
    )
    seconds_chart: alt.Chart | alt.LayerChart = times
    if math.isfinite(deadline):
        line = alt.Chart(alt.InlineData(values=[{"seconds": deadline}])).mark_rule(color="#b3402a", strokeDash=[5, 3])
        seconds_chart = alt.layer(times, line.encode(y="seconds:Q"))
    correlation = described.correlations()[kind]
    rho = "" if math.isnan(correlation) else f"rank correlation with slowness: {correlation:.2f}"
    speed_chart = (
        alt.Chart(alt.InlineData(values=points), title=alt.TitleParams(rho, fontWeight="normal", fontSize=11))
        .mark_circle(color="#2b5d8c", size=30, opacity=0.7)
        .encode(
            x=alt.X("score:Q", title=WORDS[kind], scale=alt.Scale(zero=False)),
            y=alt.Y("speed:Q", title="examples per second", scale=alt.Scale(type="log")),
        )
        .properties(width=360, height=240)
    )
    return alt.hconcat(seconds_chart, speed_chart, spacing=30, title=alt.TitleParams(title, anchor="start"))
