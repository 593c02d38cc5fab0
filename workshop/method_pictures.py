"""One picture per method in docs/images/methods: who was available and who was chosen, in the same small federation.

``python -m workshop pictures`` draws all of them, ``python -m workshop pictures fedgs uniform`` some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition import selectors, simulate
from sortition.core.arrays import Array, Floats
from sortition.report.strips import (
    LABEL_COLOURS,
    PALE,
    STRONG,
    TEXT,
    Strip,
    clients_by_label,
    draw_strips,
    find_stretches,
)
from workshop import DOCS

CLIENTS = 40
ROUNDS = 40
COHORT = 5
SEED = 0
FEDERATION: dict[str, Any] = {
    "data": "digits",
    "clients": CLIENTS,
    "partition": {"name": "shards", "per_client": 2},
    "model": {"name": "mlp", "hidden": [32]},
    "availability": {"name": "lognormal", "beta": 0.2},
    "local": {"steps": 10, "batch": 10, "lr": 0.1},
    "devices": {"speed": 100.0, "speed_spread": 0.5},
    "rounds": ROUNDS,
    "cohort": COHORT,
}
# Pixels. Text is large, so that it can be read when a phone shows the picture at two thirds of its size.
TEXT_SIZE = 15
TITLE_SIZE = 17
STEP = 8  # a cell with its gap
MARK = 6  # a cell
BAR = 146  # the longest bar
LEFT = 46
TOP = 44


@dataclass(frozen=True)
class Scene:
    """What one run showed.

    Attributes:
        available: (rounds, clients), who was there.
        chosen: (rounds, clients), who was chosen.
        labels: (clients, labels), how many examples of each label a client holds.
    """

    available: Array
    chosen: Array
    labels: Array


def write_pictures(names: Sequence[str]) -> None:
    """Draw these methods, or all where none is named."""
    folder = DOCS / "images" / "methods"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or selectors.discover():
        path = folder / f"{name}.svg"
        path.write_text(draw_picture(name, play_scene(name)))
        print(path, f"{path.stat().st_size:,} bytes")


def play_scene(name: str) -> Scene:
    """Play a method with its defaults."""
    available = np.zeros((ROUNDS, CLIENTS), bool)
    chosen = np.zeros((ROUNDS, CLIENTS), bool)
    labels: Any = None
    for step in simulate(name, seed=SEED, **FEDERATION):
        t = step.round - 1
        if step.setup.availability is None or step.setup.population is None:
            raise ValueError(f"{name} was played without availability or a population.")
        available[t] = step.setup.availability.at(t)
        chosen[t, step.record["cohort"] or []] = True
        labels = step.setup.population.label_counts
    return Scene(available=available, chosen=chosen, labels=labels)


def expected_counts(available: Array) -> Floats:
    """Return how often an even draw among the available would choose each client."""
    n_available = available.sum(axis=1, keepdims=True)
    probability = np.minimum(1, COHORT / np.maximum(n_available, 1))
    counts: Floats = (available * probability).sum(axis=0)
    return counts


def draw_picture(name: str, scene: Scene) -> str:
    """Draw the SVG: rounds from left to right, a row per client with its labels and how often it was chosen."""
    right = LEFT + ROUNDS * STEP
    width = right + BAR + 20
    height = TOP + CLIENTS * STEP + 30
    counts = scene.chosen.sum(axis=0)
    even_counts = expected_counts(scene.available)
    longest = max(counts.max(), even_counts.max())
    available_marks: list[str] = []
    chosen_marks: list[str] = []
    bars: list[str] = []
    ticks: list[str] = []
    label_marks: list[str] = []
    for row, client in enumerate(clients_by_label(scene.labels)):
        y = TOP + row * STEP + STEP / 2
        available_marks += [
            f"M{LEFT + first * STEP} {y:g}h{length * STEP - 2}"
            for first, length in find_stretches(scene.available[:, client])
        ]
        chosen_marks += [f"M{LEFT + t * STEP} {y:g}h{MARK}" for t in np.flatnonzero(scene.chosen[:, client])]
        bars.append(f"M{right + 10} {y:g}h{BAR * counts[client] / longest:.1f}")
        ticks.append(f"M{right + 10 + BAR * even_counts[client] / longest:.1f} {y - 4:g}v8")
        label_marks += _draw_labels(scene.labels[client], y)
    caption = f"{name}: {CLIENTS} clients, {ROUNDS} rounds; who was available and who was chosen"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
            f" role='img' font-family='sans-serif' font-size='{TEXT_SIZE}' fill='{TEXT}'>",
            f"<title>{caption}</title>",
            f"<text x='{LEFT - 16}' y='{TOP - 26}' font-size='{TITLE_SIZE}' font-weight='bold'>{name}</text>",
            f"<text x='{LEFT}' y='{TOP - 6}'>rounds →</text>",
            f"<text x='{right + 10}' y='{TOP - 6}'>times chosen, 0 to {longest:.0f}</text>",
            f"<text transform='translate(16 {TOP + CLIENTS * STEP / 2}) rotate(-90)' text-anchor='middle'>"
            "clients, by label</text>",
            f"<g fill='none' stroke-width='{MARK}'>",
            f"<path stroke='{PALE}' stroke-opacity='.28' d='{''.join(available_marks)}'/>",
            f"<path stroke='{STRONG}' d='{''.join(chosen_marks)}{''.join(bars)}'/>",
            *label_marks,
            "</g>",
            f"<path fill='none' stroke='{TEXT}' stroke-width='1.5' d='{''.join(ticks)}'/>",
            *_draw_legend(height - 8, right),
            "</svg>\n",
        ]
    )


def _draw_labels(label_counts: Array, y: float) -> list[str]:
    """Draw the two labels that a client holds most of."""
    two_most = sorted(np.argsort(-label_counts, kind="stable")[:2].tolist())
    return [
        f"<path d='M{LEFT - 16 + 7 * position} {y:g}h6' stroke='{LABEL_COLOURS[label % 10]}'/>"
        for position, label in enumerate(two_most)
        if label_counts[label]
    ]


def _draw_legend(y: float, right: int) -> list[str]:
    return [
        f"<path d='M{LEFT} {y - 4}h{MARK}' stroke='{PALE}' stroke-opacity='.28' stroke-width='{MARK}'/>",
        f"<text x='{LEFT + 12}' y='{y}'>available</text>",
        f"<path d='M{LEFT + 96} {y - 4}h{MARK}' stroke='{STRONG}' stroke-width='{MARK}'/>",
        f"<text x='{LEFT + 108}' y='{y}'>chosen</text>",
        f"<path d='M{right + 12} {y - 10}v10' stroke='{TEXT}' stroke-width='1.5'/>",
        f"<text x='{right + 18}' y='{y}'>an even draw</text>",
    ]


# -- three methods side by side, for the README and the landing page --------------------------------------------------

STRIP_METHODS = ("uniform", "oort", "fedgs")


def write_strips() -> None:
    """Draw docs/images/who-is-chosen.svg: the same federation under three methods."""
    path = DOCS / "images" / "who-is-chosen.svg"
    scenes = {name: play_scene(name) for name in STRIP_METHODS}
    strips = [Strip(method=name, available=scene.available, chosen=scene.chosen) for name, scene in scenes.items()]
    title = f"Who is chosen over {ROUNDS} rounds under {', '.join(scenes)}"
    path.write_text(draw_strips(strips, scenes[STRIP_METHODS[0]].labels, title))
    print(path, f"{path.stat().st_size:,} bytes")
