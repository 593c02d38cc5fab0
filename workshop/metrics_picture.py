"""docs/images/metrics.svg: six panels of the Grafana dashboard, drawn from the endpoint of a small federation.

``python -m workshop metrics`` plays the federation, scrapes its endpoint after every round, and draws what it scraped.
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from sortition.core.guards.settings import Guards
from sortition.core.streams import stream
from sortition.federation.arrangement import arranged
from sortition.federation.live import LiveFederation
from sortition.federation.messages import Ask, Handle, Peer, Profile, Reply
from sortition.federation.model_engine import ModelEngine
from sortition.federation.monitoring import Metrics
from sortition.federation.options import Options
from workshop import DOCS

CLIENTS = 40
ROUNDS = 60
COHORT = 8
SILENT = 0.1  # share of trainings that never come back
BROKEN = 7  # the client whose models are not finite
PANELS: dict[str, tuple[str, ...]] = {
    "Who could be chosen": ("sortition_available", "sortition_eligible", "sortition_cohort"),
    "What became of the chosen": ("sortition_used_total", "sortition_silent_total", "sortition_standby_total"),
    "Refused, by reason": ("sortition_refused_total",),
    "Kept out, by rule": ("sortition_excluded_total",),
    "Evenness of participation": ("sortition_evenness", "sortition_shadow_evenness"),
    "Rounds since a client was last chosen": ("sortition_rounds_since_chosen",),
}
Row = dict[str, Any]


class SmallFederation:
    """A transport whose clients answer at once, or never."""

    def __init__(self) -> None:
        self._rng = stream(0, "metrics picture")
        self._waiting: list[tuple[Handle, Ask]] = []
        self._sent = 0

    def online(self) -> Mapping[str, Peer]:
        """Everybody."""
        return {str(client): Peer(name=f"client-{client}") for client in range(CLIENTS)}

    def post(self, asks: Sequence[Ask]) -> Sequence[Handle]:
        """Keep the messages until somebody looks."""
        handles = [str(self._sent + number) for number in range(len(asks))]
        self._sent += len(asks)
        self._waiting += zip(handles, asks, strict=True)
        return handles

    def poll(self, wait: float) -> Sequence[Reply]:
        """Answer what was posted."""
        waiting = self._waiting
        self._waiting = []
        is_lost = self._rng.random(len(waiting)) < SILENT
        return [
            self._answer(handle, ask)
            for (handle, ask), lost in zip(waiting, is_lost, strict=True)
            if ask.kind == "profile" or not lost
        ]

    def _answer(self, handle: Handle, ask: Ask) -> Reply:
        if ask.kind == "profile":
            return Reply(handle, profile=Profile(f"client-{ask.session}", {"sizes": np.asarray(50)}, ("loss",)))
        rows = {name: np.asarray(float(self._rng.lognormal())) for name in ask.signals}
        moved = ask.model["w"] + self._rng.normal(size=ask.model["w"].shape).astype(np.float32)
        if ask.session == str(BROKEN):
            moved = np.full_like(moved, np.nan)
        return Reply(handle, rows=rows, model={"w": moved})

    def cancel(self, handles: Collection[Handle]) -> Collection[Handle]:
        """Take nothing back."""
        return ()


def scrape_rows() -> list[Row]:
    """Play the federation; return what each scrape showed, one row a series and round."""
    from prometheus_client.parser import text_string_to_metric_families

    endpoint = Metrics(0)
    options = Options(
        arrangement=arranged("picture", "power-of-choice", ["uniform"]),
        cohort=COHORT,
        overselect=1.25,
        deadline=0.2,
        wait_for=CLIENTS,
        guards=Guards(quarantine=15, strikes=2),
        metrics=(endpoint,),
    )
    logger = logging.getLogger("workshop")
    logger.setLevel(logging.ERROR)
    engine = ModelEngine({"w": np.zeros(100, np.float32)})
    live = LiveFederation(SmallFederation(), engine, options, "server", logger=logger)
    rows: list[Row] = []
    with ExitStack() as stack:
        live.open_and_restore(stack)
        for index in range(ROUNDS):
            live.driver.play_round()
            with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}/metrics") as response:
                text = response.read().decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = " ".join(sample.labels.values())
                    rows.append({"round": index, "name": sample.name, "labels": labels, "value": sample.value})
    return rows


def _series_label(row: Row) -> str:
    """What a legend calls a series: ``refused update not-finite``."""
    name = str(row["name"]).removeprefix("sortition_").removesuffix("_total")
    return f"{name} {row['labels']}".strip()


def draw_picture() -> None:
    """Write docs/images/metrics.svg."""
    import altair
    import vl_convert

    rows = scrape_rows()
    charts = []
    for title, names in PANELS.items():
        shown = [
            {
                **row,
                "series": f"{row['name'].removeprefix('sortition_').removesuffix('_total')} {row['labels']}".strip(),
            }
            for row in rows
            if row["name"] in names
        ]
        charts.append(
            altair.Chart(altair.Data(values=shown), title=title, width=260, height=130)
            .mark_line()
            .encode(
                x=altair.X("round:Q", title=None),
                y=altair.Y("value:Q", title=None),
                color=altair.Color("series:N", title=None),
            )
        )
    rows_of_two = [altair.hconcat(*charts[start : start + 2]) for start in (0, 2, 4)]
    page = altair.vconcat(*(row.resolve_scale(color="independent") for row in rows_of_two))
    svg = vl_convert.vegalite_to_svg(page.to_dict())
    path = DOCS / "images" / "metrics.svg"
    path.write_text(svg + "\n")
    print(f"{path} {len(svg):,} bytes")
