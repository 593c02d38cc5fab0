"""Who was chosen when, as a still picture: a panel per method, rounds from left to right, a row per client.

The page of a study, the README and the documentation open with it. Colours are readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from sortition.core.arrays import Array

TEXT = "#808890"
PALE = "#8a94a0"
STRONG = "#2f81d6"
LABEL_COLOURS = (
    "#e15759", "#f28e2b", "#d4a72c", "#59a14f", "#2aa198", "#4e9fd1", "#5f6fd3", "#9c6ade", "#d37295", "#9c755f",
)  # fmt: skip
# Pixels.
PANEL_WIDTH = 240
PANEL_HEIGHT = 240
PANEL_GAP = 48
PANEL_TOP = 64
LEFT = 30
LEGEND_HEIGHT = 40
LINE_HEIGHT = 26
FILLED = 0.77  # of a cell; the remainder is a gap
# Text is large, so that it can be read when a phone shows the picture at less than half its size.
TITLE_SIZE = 24
TEXT_SIZE = 19


@dataclass(frozen=True)
class Strip:
    """Whom one method chose.

    Attributes:
        method: its label.
        available: (rounds, clients), who was there.
        chosen: (rounds, clients), who was chosen.
    """

    method: str
    available: Array
    chosen: Array


def draw_strips(strips: Sequence[Strip], labels: Array | None, title: str) -> str:
    """Draw the strips side by side.

    Args:
        strips: the strips, all of the same clients and rounds.
        labels: (clients, labels), how many examples of each label a client holds; None where nobody knows.
        title: what the picture shows, for readers who do not see it.
    """
    width = len(strips) * (PANEL_WIDTH + PANEL_GAP) - 8
    legend_lines = _legend_lines(len(strips), has_labels=labels is not None)
    height = PANEL_TOP + PANEL_HEIGHT + LEGEND_HEIGHT + len(legend_lines) * LINE_HEIGHT
    if len(strips) >= 3:  # the words fit beside the colours
        height -= LINE_HEIGHT
    panels: list[str] = []
    for position, strip in enumerate(strips):
        panels += _panel(strip, labels, LEFT + position * (PANEL_WIDTH + PANEL_GAP))
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
            f" role='img' font-family='sans-serif' font-size='{TEXT_SIZE}' fill='{TEXT}'>",
            f"<title>{escape(title)}</title>",
            *panels,
            *_legend(legend_lines, width, beside=len(strips) >= 3),
            "</svg>\n",
        ]
    )


def clients_by_label(labels: Array) -> list[int]:
    """Return the clients sorted by the label that they hold most of, then by the second."""
    two_most = np.argsort(-labels, axis=1, kind="stable")[:, :2]
    return sorted(range(len(labels)), key=lambda client: (*sorted(two_most[client]), client))


def find_stretches(row: Array) -> Iterator[tuple[int, int]]:
    """Yield first position and length of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(int), [0]])))
    yield from zip(edges[::2].tolist(), (edges[1::2] - edges[::2]).tolist(), strict=True)


def _panel(strip: Strip, labels: Array | None, left: int) -> list[str]:
    """Draw one method: its name, how unevenly it chose, and who was there and who was chosen."""
    n_rounds, n_clients = strip.chosen.shape
    column = PANEL_WIDTH / n_rounds
    row_height = PANEL_HEIGHT / n_clients
    gap = (1 - FILLED) * column
    counts = strip.chosen.sum(axis=0)
    available_marks: list[str] = []
    chosen_marks: list[str] = []
    label_marks: list[str] = []
    for row, client in enumerate(clients_by_label(labels) if labels is not None else range(n_clients)):
        y = PANEL_TOP + (row + 0.5) * row_height
        available_marks += [
            f"M{left + first * column:g} {y:g}h{length * column - gap:g}"
            for first, length in find_stretches(strip.available[:, client])
        ]
        chosen_marks += [
            f"M{left + t * column:g} {y:g}h{column - gap:g}" for t in np.flatnonzero(strip.chosen[:, client])
        ]
        if labels is not None:
            label_marks += _label_marks(labels[client], left=left, y=y)
    return [
        f"<text x='{left - 14}' y='24' font-size='{TITLE_SIZE}' font-weight='bold'>{escape(strip.method)}</text>",
        f"<text x='{left - 14}' y='51'>each client {counts.min()} to {counts.max()} times</text>",
        f"<g fill='none' stroke-width='{FILLED * row_height:.3g}'>",
        f"<path stroke='{PALE}' stroke-opacity='.28' d='{''.join(available_marks)}'/>",
        f"<path stroke='{STRONG}' d='{''.join(chosen_marks)}'/>",
        *label_marks,
        "</g>",
    ]


def _label_marks(label_counts: Array, *, left: int, y: float) -> list[str]:
    """Draw the two labels that a client holds most of."""
    two_most = sorted(np.argsort(-label_counts, kind="stable")[:2].tolist())
    return [
        f"<path d='M{left - 14 + 6 * place} {y:g}h5' stroke='{LABEL_COLOURS[label % 10]}'/>"
        for place, label in enumerate(two_most)
        if label_counts[label]
    ]


def _legend_lines(n_strips: int, *, has_labels: bool) -> list[str]:
    """Return the words of the legend in lines that are no wider than the strips."""
    phrases = ["a row is a client,", "a column a round"]
    if has_labels:
        phrases[-1] += ";"
        phrases.append("colours: its labels")
    if n_strips == 1:
        return phrases
    return [" ".join(phrases)]


def _legend(lines: Sequence[str], width: int, *, beside: bool) -> list[str]:
    """Draw what the colours mean, and the words beside or below it."""
    y = PANEL_TOP + PANEL_HEIGHT + LEGEND_HEIGHT - 8
    marks = [
        f"<path d='M16 {y - 6}h14' stroke='{PALE}' stroke-opacity='.28' stroke-width='12'/>",
        f"<text x='38' y='{y}'>available</text>",
        f"<path d='M136 {y - 6}h14' stroke='{STRONG}' stroke-width='12'/>",
        f"<text x='158' y='{y}'>chosen</text>",
    ]
    if beside:
        return [*marks, f"<text x='{width - 18}' y='{y}' text-anchor='end'>{lines[0]}</text>"]
    for number, line in enumerate(lines, 1):
        marks.append(f"<text x='16' y='{y + number * LINE_HEIGHT}'>{line}</text>")
    return marks
