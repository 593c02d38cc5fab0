"""One colour a method over all charts, distinguishable for colour-blind readers too.

Colours of Okabe and Ito and two more, without the green, orange-red and purple in which verdicts stand; beyond them the
same colours with a dashed line. Uniform, the baseline, is grey.
"""

from __future__ import annotations

from collections.abc import Sequence

GREY = "#7f7f7f"
COLOURS = ("#0072B2", "#E69F00", "#CC79A7", "#56B4E9", "#B2A000", "#B0307F")
DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
LABELS = (  # of the data: pale, so that no label looks like a method
    "#A0CBE8", "#FFBE7D", "#FF9D9A", "#86BCB6", "#8CD17D", "#F1CE63", "#D4A6C8", "#FABFD2", "#D7B5A6", "#BAB0AC",
)  # fmt: skip
# the seed methods keep their colour from report to report; others take what is left
KNOWN = {
    "fedcor": 0, "fedgs": 1, "longfed": 2, "hics": 3, "fedss": 4, "power-of-choice": 5, "divfl": 6, "clustered": 7,
}  # fmt: skip


class Palette:
    """Colours and dashes for some labels; ``names`` maps a label to its method."""

    def __init__(self, labels: Sequence[str], names: dict[str, str]) -> None:
        self.labels = list(labels)
        taken: dict[str, int] = {}
        for label in labels:
            slot = KNOWN.get(names.get(label, ""))
            if slot is not None and slot not in taken.values():
                taken[label] = slot
        free = (slot for slot in range(len(COLOURS) * len(DASHES)) if slot not in taken.values())
        for label in labels:
            if names.get(label) == "uniform" and label not in taken and -1 not in taken.values():
                taken[label] = -1
            elif label not in taken:
                taken[label] = next(free, 0)
        self._slots = taken

    def colour(self, label: str) -> str:
        """Its colour."""
        slot = self._slots[label]
        return GREY if slot < 0 else COLOURS[slot % len(COLOURS)]

    def dash(self, label: str) -> list[int]:
        """Its line pattern."""
        return DASHES[max(self._slots[label], 0) // len(COLOURS)]

    @property
    def colours(self) -> list[str]:
        """In the order of the labels."""
        return [self.colour(label) for label in self.labels]

    @property
    def dashes(self) -> list[list[int]]:
        """In the order of the labels."""
        return [self.dash(label) for label in self.labels]
