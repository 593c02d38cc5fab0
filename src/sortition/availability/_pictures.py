"""Pictures of availability: a row per client, dark where it is reachable (after FedGS, figure 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sortition.availability._mode import Mask

if TYPE_CHECKING:
    import altair as alt


def availability_chart(masks: Mask, title: str, *, width: int = 300, height: int = 150) -> alt.Chart:
    """Draw a (rounds, clients) matrix as an Altair chart; stretches of reachable rounds are drawn as one piece."""
    import altair as alt

    rounds, clients = masks.shape
    edges = np.diff(masks.T.astype(np.int8), axis=1, prepend=0, append=0)
    client_of_stretch, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]  # row by row like the starts, so they pair up
    values = [
        {"client": client, "top": client + 1, "round": start, "until": end}
        for client, start, end in zip(client_of_stretch.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
    subtitle = f"{masks.mean():.0%} reachable on average"
    return (
        alt.Chart(alt.InlineData(values=values), title=alt.TitleParams(title, subtitle=subtitle, anchor="start"))
        .mark_rect(color="#2b5d8c", strokeWidth=0)
        .encode(
            x=alt.X(
                "round:Q",
                title="round",
                scale=alt.Scale(domain=[0, rounds], nice=False),
                axis=alt.Axis(grid=False, tickCount=6),
            ),
            x2="until:Q",
            y=alt.Y(
                "client:Q",
                title="client",
                scale=alt.Scale(domain=[0, clients], nice=False),
                axis=alt.Axis(grid=False, tickCount=4),
            ),
            y2="top:Q",
        )
        .properties(width=width, height=height)
    )
