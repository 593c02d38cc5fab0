"""Clients whose labels hardly differ: what choosing among such clients brought where it was measured."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.core.arrays import Array
from sortition.core.mixtures import between_clients, label_mixtures, spread_of

HARDLY_DIFFERENT = 0.05  # κ up to which labels hardly differ between clients


@dataclass(frozen=True)
class NaturalGains:
    """What was gained over uniform sampling in a natural federation; docs/methods/microcosm.md says how.

    Attributes:
        federation: whose clients came with the data.
        kappa: the share of the labels' variance that lies between its clients.
        auto: points of mean accuracy over all rounds that ``auto`` gained.
        oracle: the same where the cohort is chosen by its loss on the test set, which no method can know.
    """

    federation: str
    kappa: float
    auto: float
    oracle: float


NATURAL = (
    NaturalGains(federation="flights", kappa=0.02, auto=-0.1, oracle=0.2),
    NaturalGains(federation="shakespeare", kappa=0.01, auto=0.9, oracle=2.2),
)


def labels_between_clients(label_counts: Array) -> float:
    """Return κ of label counts (N, C): the share of the labels' variance that lies between clients."""
    sizes = label_counts.sum(axis=1)
    mean, spread = spread_of(label_mixtures(label_counts), sizes / max(sizes.sum(), 1))
    return between_clients(mean, spread)


def hardly_differ(label_counts: Array) -> bool:
    """Tell whether labels hardly differ between clients."""
    return labels_between_clients(label_counts) <= HARDLY_DIFFERENT


def alike_note(label_counts: Array, *, by_time: bool) -> str:
    """Say what to expect where labels hardly differ between clients; nothing where they do."""
    if not hardly_differ(label_counts):
        return ""
    kappa = labels_between_clients(label_counts)
    measured = "; ".join(
        f"{gains.federation}: auto {gains.auto:+z.1f}, an oracle that sees the test set {gains.oracle:+z.1f}"
        for gains in NATURAL
    )
    note = (
        f"Labels hardly differ between your clients: {100 * kappa:.0f} % of their variance lies between clients. By "
        "rounds there is then little to gain by choosing. Points over uniform in two natural federations with such "
        f"labels: {measured}."
    )
    if by_time:
        note += " By the clock there is more to gain, where devices differ."
    return note
