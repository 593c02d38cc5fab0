"""One picture a method: who was available and who was chosen, on one small federation that is the same for all.

make screenshots                                        # all pictures of the documentation
python benchmarks/method_pictures.py                    # these, into docs/images/methods
python benchmarks/method_pictures.py fedgs uniform      # some of them
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sortition import selectors, simulate
from sortition.core.arrays import Array, Floats

OUT = Path(__file__).parents[1] / "docs" / "images" / "methods"
CLIENTS, ROUNDS, COHORT, SEED = 40, 40, 5, 0
FEDERATION = {
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
STEP, MARK, BAR = 8, 6, 110  # pixels: a cell with its gap, a cell, the longest bar
LEFT, TOP = 46, 34
COLOURS = ("#e15759", "#f28e2b", "#d4a72c", "#59a14f", "#2aa198", "#4e9fd1", "#5f6fd3", "#9c6ade", "#d37295", "#9c755f")
TEXT, PALE, STRONG = "#808890", "#8a94a0", "#2f81d6"  # readable on white and on black


@dataclass(frozen=True)
class Scene:
    """A run's rounds: (rounds, clients) who was there and who was chosen; (clients, labels) what they hold."""

    available: Array
    chosen: Array
    labels: Array


def played(name: str) -> Scene:
    """A method with its defaults."""
    available, chosen, labels = np.zeros((ROUNDS, CLIENTS), bool), np.zeros((ROUNDS, CLIENTS), bool), None
    for step in simulate(name, seed=SEED, **FEDERATION):
        t = step.round - 1
        available[t] = step.setup.availability.at(t)
        chosen[t, step.record["cohort"] or []] = True
        labels = step.setup.population.label_counts
    return Scene(available, chosen, labels)


def by_labels(labels: Array) -> list[int]:
    """Clients sorted by the label that they hold most of, then by the second."""
    ranks = np.argsort(-labels, axis=1, kind="stable")[:, :2]
    return sorted(range(len(labels)), key=lambda k: (*sorted(ranks[k]), k))


def expected(available: Array) -> Floats:
    """How often an even draw among the available would choose each client."""
    there = available.sum(axis=1, keepdims=True)
    return (available * np.minimum(1, COHORT / np.maximum(there, 1))).sum(axis=0)


def runs(row: Array) -> Iterable[tuple[int, int]]:
    """First and length of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    return zip(edges[::2].tolist(), (edges[1::2] - edges[::2]).tolist(), strict=True)


def picture(name: str, scene: Scene) -> str:
    """The SVG: rounds from left to right, a row a client with its labels at the left and how often it was chosen."""
    right = LEFT + ROUNDS * STEP
    width, height = right + BAR + 20, TOP + CLIENTS * STEP + 26
    counts, even = scene.chosen.sum(axis=0), expected(scene.available)
    longest = max(counts.max(), even.max())
    pale, strong, bars, ticks, strips = [], [], [], [], []
    for row, k in enumerate(by_labels(scene.labels)):
        y = TOP + row * STEP + STEP / 2
        pale += [f"M{LEFT + t * STEP} {y:g}h{n * STEP - 2}" for t, n in runs(scene.available[:, k])]
        strong += [f"M{LEFT + t * STEP} {y:g}h{MARK}" for t in np.flatnonzero(scene.chosen[:, k])]
        bars.append(f"M{right + 10} {y:g}h{BAR * counts[k] / longest:.1f}")
        ticks.append(f"M{right + 10 + BAR * even[k] / longest:.1f} {y - 4:g}v8")
        top = sorted(np.argsort(-scene.labels[k], kind="stable")[:2].tolist())
        strips += [
            f"<path d='M{LEFT - 16 + 7 * at} {y:g}h6' stroke='{COLOURS[label % 10]}'/>"
            for at, label in enumerate(top)
            if scene.labels[k, label]
        ]
    caption = f"{name}: {CLIENTS} clients, {ROUNDS} rounds; who was available and who was chosen"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
            f" role='img' font-family='sans-serif' font-size='11' fill='{TEXT}'>",
            f"<title>{caption}</title>",
            f"<text x='{LEFT - 16}' y='{TOP - 20}' font-size='13' font-weight='bold'>{name}</text>",
            f"<text x='{LEFT}' y='{TOP - 6}'>rounds →</text>",
            f"<text x='{right + 10}' y='{TOP - 6}'>times chosen, 0 to {longest:.0f}</text>",
            f"<text transform='translate(14 {TOP + CLIENTS * STEP / 2}) rotate(-90)' text-anchor='middle'>"
            "clients, by label</text>",
            f"<g fill='none' stroke-width='{MARK}'>",
            f"<path stroke='{PALE}' stroke-opacity='.28' d='{''.join(pale)}'/>",
            f"<path stroke='{STRONG}' d='{''.join(strong)}{''.join(bars)}'/>",
            *strips,
            "</g>",
            f"<path fill='none' stroke='{TEXT}' stroke-width='1.5' d='{''.join(ticks)}'/>",
            *_legend(height - 8, right),
            "</svg>\n",
        ]
    )


def _legend(y: float, right: int) -> list[str]:
    return [
        f"<path d='M{LEFT} {y - 4}h{MARK}' stroke='{PALE}' stroke-opacity='.28' stroke-width='{MARK}'/>",
        f"<text x='{LEFT + 12}' y='{y}'>available</text>",
        f"<path d='M{LEFT + 80} {y - 4}h{MARK}' stroke='{STRONG}' stroke-width='{MARK}'/>",
        f"<text x='{LEFT + 92}' y='{y}'>chosen</text>",
        f"<path d='M{right + 12} {y - 8}v8' stroke='{TEXT}' stroke-width='1.5'/>",
        f"<text x='{right + 18}' y='{y}'>an even draw</text>",
    ]


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or selectors.discover():
        path = OUT / f"{name}.svg"
        path.write_text(picture(name, played(name)))
        print(path, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
