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
# the slots of methods that keep their colour from report to report; others take the slots that are free
KNOWN = {
    "fedcor": 0, "fedgs": 1, "longfed": 2, "hics": 3, "fedss": 4, "power-of-choice": 5, "divfl": 6, "clustered": 7,
}  # fmt: skip

GREY_SLOT = -1  # of uniform; the other slots go through the colours, then through them again with the next dash


class Palette:
    """Colours and dashes of some labels.

    Args:
        labels: the labels of the methods, in the order of the page.
        names: label → name of the method.
    """

    def __init__(self, labels: Sequence[str], names: dict[str, str]) -> None:
        self.labels = list(labels)
        slot_of: dict[str, int] = {}
        for label in labels:
            slot = KNOWN.get(names.get(label, ""))
            if slot is not None and slot not in slot_of.values():
                slot_of[label] = slot
        all_slots = range(len(COLOURS) * len(DASHES))
        free_slots = iter([slot for slot in all_slots if slot not in slot_of.values()])
        for label in labels:
            if label in slot_of:
                continue
            if names.get(label) == "uniform" and GREY_SLOT not in slot_of.values():
                slot_of[label] = GREY_SLOT
            else:
                slot_of[label] = next(free_slots, 0)
        self._slot_of = slot_of

    def colour(self, label: str) -> str:
        """Return the colour of a label."""
        slot = self._slot_of[label]
        if slot == GREY_SLOT:
            return GREY
        return COLOURS[slot % len(COLOURS)]

    def dash(self, label: str) -> list[int]:
        """Return the line pattern of a label."""
        slot = max(self._slot_of[label], 0)
        return DASHES[slot // len(COLOURS)]

    @property
    def colours(self) -> list[str]:
        """The colours, in the order of the labels."""
        return [self.colour(label) for label in self.labels]

    @property
    def dashes(self) -> list[list[int]]:
        """The line patterns, in the order of the labels."""
        return [self.dash(label) for label in self.labels]
