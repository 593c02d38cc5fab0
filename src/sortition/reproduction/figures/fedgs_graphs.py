"""FedGS's graphs without a run: do models find which clients are similar (Table 3), and a graph drawn (Fig. 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.core import Measure, probe
from sortition.core.arrays import Array, Floats
from sortition.data.describe import describe
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.selectors.fedgs import graph as g
from sortition.simulation.world import World
from sortition.studies.config import Data, RunConfig, validated
from sortition.studies.federation import build_federation, split

EPSILON = 0.1  # of the oracle graph
SCANNED = (0.0, 0.01, 0.05, 0.1, 0.5)
SERVER = 128  # examples of the test set whose moments shape the noise
FEDERATION = {"rounds": 1, "cohort": 1, "setting": "main", "method": {"name": "uniform"}}


@dataclass(frozen=True)
class Oracle:
    """A reading of the graph that the paper takes for the truth, and of the pairs over which edges are counted."""

    name: str
    edges: Callable[[Array], Array]  # (N, C) label counts → (N, N)
    self_pairs: bool


def cosine_edges(label_counts: Array) -> Array:
    """(N, N) joined where the cosine of label counts is ≥ 0.1."""
    unit = g.unit(label_counts)
    return np.greater_equal(unit @ unit.T, EPSILON)


def share_edges(label_counts: Array) -> Array:
    """(N, N) joined where the inner product of label shares is > 0.1, as in the released code."""
    shares = label_counts / np.maximum(label_counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.greater(shares @ shares.T, EPSILON))


ORACLES = (Oracle("shares, released", share_edges, True), Oracle("cosine", cosine_edges, False))


def edges_found(
    context: Context, *, federation: list[dict[str, Any]], paper: dict[str, dict[str, list[float]]], seeds: int = 3
) -> str:
    """Table 3: precision, recall and F1 of the edges that updates and probes predict, at their best ε."""
    seeds = context.seeds or seeds
    columns = [
        "data",
        "similarity",
        "oracle",
        "precision",
        "recall",
        "F1",
        "ε, mean",
        "edges predicted",
        "edges of the oracle",
    ]
    table = Table("Edges of the oracle graph found", columns)
    for one in federation:
        name = one["data"]["name"]
        found = _scores(context, one, seeds)
        for how in ("functional", "cosine"):
            if published := paper.get(name, {}).get(how):
                table.rows.append([name, how, "paper", *[f"{x:.4f}" for x in published], "", "", ""])
            for oracle in ORACLES:
                mean = np.mean(found[how, oracle.name], axis=0)
                scores, shares = [f"{x:.4f}" for x in mean[:3]], [f"{x:.3f}" for x in mean[4:]]
                table.rows.append([name, how, oracle.name, *scores, f"{mean[3]:.3g}", *shares])
    table.notes.append(f"{seeds} seed(s). The last two columns are shares of all pairs that are counted.")
    return table.markdown()


def _scores(context: Context, federation: dict[str, Any], seeds: int) -> dict[tuple[str, str], list[Floats]]:
    """A score for each seed, by similarity and oracle."""
    found: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    for seed in range(seeds):
        context.say(f"{federation['data']['name']}, seed {seed}: one local training of every client")
        config = validated(RunConfig, {**FEDERATION, **federation, "seed": seed}, "figure.federation")
        world = build_federation(config).world
        for how, V in similarities(world).items():
            for oracle in ORACLES:
                found[how, oracle.name].append(best_f1(V, oracle.edges(world.label_counts), oracle.self_pairs))
    return found


def similarities(world: World) -> dict[str, Floats]:
    """V of eq. 11 and 12 after one local training of every client from the initial model."""
    ids = np.arange(world.n_clients)
    inputs = next(world.evaluator.test.examples.parts(SERVER))[1].cpu().numpy()
    noise = probe(inputs.mean(axis=0).ravel(), inputs.std(axis=0).ravel())
    responses = world.measure(world.initial, Measure(noise, ids), 0).values
    updates = world.train(world.initial, ids, (), 0).deltas
    scaled = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    unit = g.unit(responses)
    return {"functional": np.clip(unit @ unit.T, 0, 1), "cosine": np.clip(scaled @ scaled.T, 0, 1)}


def best_f1(V: Floats, oracle: Array, self_pairs: bool = False) -> Floats:
    """(precision, recall, F1, ε, shares of pairs predicted and true) at the ε with the largest F1; V ≥ ε is an edge.

    Pairs are counted once each, or, with ``self_pairs``, as all entries of the matrix: both orders, and the diagonal.
    """
    pairs = np.ones_like(oracle, bool) if self_pairs else np.triu(np.ones_like(oracle, bool), 1)
    true = oracle[pairs]
    found = []
    for epsilon in SCANNED:
        predicted = np.greater_equal(V[pairs], epsilon)
        hits = float((predicted & true).sum())
        precision, recall = hits / max(predicted.sum(), 1), hits / max(true.sum(), 1)
        f1 = 2 * precision * recall / max(precision + recall, 1e-12)
        found.append((precision, recall, f1, epsilon, predicted.mean(), true.mean()))
    return np.array(max(found, key=lambda row: row[2]))


def drawn(context: Context, *, data: dict[str, Any]) -> str:
    """Fig. 3: clients as points in the colour of their first label, joined where the oracle graph has an edge."""
    import altair as alt

    parts = split(validated(Data, data, "figure.data"), 0)
    counts = describe(parts.train, parts.dataset.y_train, parts.dataset.classes).counts
    place = layout(cosine_edges(counts))
    held = [np.flatnonzero(row).tolist() for row in counts]
    nodes = [
        {"x": x, "y": y, "label": own[0], "text": " ".join(map(str, own))}
        for (x, y), own in zip(place.tolist(), held, strict=True)
    ]
    lines = [
        {"x": place[i, 0], "y": place[i, 1], "x2": place[j, 0], "y2": place[j, 1]}
        for i, j in np.argwhere(np.triu(cosine_edges(counts), 1))
    ]
    x, y = alt.X("x:Q", axis=None), alt.Y("y:Q", axis=None)
    links = alt.Chart(alt.InlineData(values=lines)).mark_rule(opacity=0.3).encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    points = alt.Chart(alt.InlineData(values=nodes)).encode(x=x, y=y)
    dots = points.mark_circle(size=240).encode(color=alt.Color("label:O", scale=alt.Scale(scheme="tableau10")))
    names = points.mark_text(dy=-14, fontSize=9).encode(text="text:N")
    title = f"oracle graph of {len(nodes)} clients of {parts.dataset.name}, with the labels they hold"
    return context.save("graph", (links + dots + names).properties(width=420, height=380, title=title))


def layout(joined: Array) -> Floats:
    """(N, 2) positions by the two smoothest non-constant eigenvectors of the graph's Laplacian, spread by rank."""
    weight = np.where(joined, 1.0, 0.02)
    np.fill_diagonal(weight, 0.0)
    _, vectors = np.linalg.eigh(np.diag(weight.sum(axis=1)) - weight)
    place = vectors[:, 1:3]
    return np.asarray(place + 0.25 * np.argsort(np.argsort(place, axis=0), axis=0) / len(place))
