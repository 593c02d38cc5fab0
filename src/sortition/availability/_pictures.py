"""Pictures of availability: a row per client, dark where it is reachable (after FedGS, figure 8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.availability._mode import Mask


def availability_chart(masks: Mask, title: str, *, width: int = 300, height: int = 150) -> Any:
    """An Altair chart of a (rounds, clients) matrix; stretches of reachable rounds are drawn as one piece."""
    import altair as alt

    rounds, clients = masks.shape
    edges = np.diff(masks.T.astype(np.int8), axis=1, prepend=0, append=0)
    client, start = np.nonzero(edges == 1)
    end = np.nonzero(edges == -1)[1]  # row by row like the starts, so they pair up
    values = [
        {"client": k, "top": k + 1, "round": s, "until": e}
        for k, s, e in zip(client.tolist(), start.tolist(), end.tolist(), strict=True)
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
