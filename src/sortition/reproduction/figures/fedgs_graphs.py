"""FedGS's graphs without a run: whether models find which clients are similar (Table 3), and a graph drawn (Fig. 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sortition.core import Measure, make_probe
from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad
from sortition.data.describe import describe
from sortition.reproduction.context import Context, Marks, Toml
from sortition.results.table import Table
from sortition.selectors.fedgs import graph as g
from sortition.simulation.world import World
from sortition.studies.build_federation import setup, split_data
from sortition.studies.config import Data, RunConfig, validated

EPSILON = 0.1  # of the oracle graph
SCANNED = (0.0, 0.01, 0.05, 0.1, 0.5)
SERVER_EXAMPLES = 128  # of the test set, whose moments shape the noise
FEDERATION = {"rounds": 1, "cohort": 1, "setting": "main", "method": {"name": "uniform"}}


@dataclass(frozen=True)
class Oracle:
    """A reading of the graph that the paper takes for the truth, and of the pairs over which edges are counted.

    Attributes:
        name: in the table.
        edges: from label counts (N, C) to the joined pairs (N, N).
        self_pairs: whether all entries of the matrix are counted, or each pair of two clients once.
    """

    name: str
    edges: Callable[[Array], Array]
    self_pairs: bool


def cosine_edges(label_counts: Array) -> Array:
    """Join (N, N) where the cosine of label counts is ≥ 0.1."""
    unit = g.scale_to_unit(label_counts)
    return np.greater_equal(unit @ unit.T, EPSILON)


def share_edges(label_counts: Array) -> Array:
    """Join (N, N) where the inner product of label shares is > 0.1, as in the released code."""
    shares = label_counts / np.maximum(label_counts.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.greater(shares @ shares.T, EPSILON))


ORACLES = (Oracle("shares, released", share_edges, True), Oracle("cosine", cosine_edges, False))


def edges_found(
    context: Context, *, federation: list[Toml], paper: dict[str, dict[str, list[float]]], seeds: int = 3
) -> str:
    """Make Table 3: precision, recall and F1 of the edges that updates and probes predict, at their best ε."""
    n_seeds = context.seeds or seeds
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
    for federation_table in federation:
        data = federation_table["data"]["name"]
        scores = _scores_by_seed(context, federation_table, n_seeds)
        for similarity in ("functional", "cosine"):
            published = paper.get(data, {}).get(similarity)
            if published:
                table.rows.append([data, similarity, "paper", *[f"{score:.4f}" for score in published], "", "", ""])
            for oracle in ORACLES:
                mean = np.mean(scores[similarity, oracle.name], axis=0)
                precision, recall, f1, epsilon, predicted, true = mean
                table.rows.append(
                    [
                        data,
                        similarity,
                        oracle.name,
                        *[f"{score:.4f}" for score in (precision, recall, f1)],
                        f"{epsilon:.3g}",
                        *[f"{share:.3f}" for share in (predicted, true)],
                    ]
                )
    table.notes.append(f"{n_seeds} seed(s). The last two columns are shares of all pairs that are counted.")
    return table.markdown()


def cosine_at_every_threshold(context: Context, *, federation: Toml, steps: list[int], seed: int = 0) -> str:
    """Score the cosine of updates at every ε of Table 3, under the released oracle, after more or fewer local steps."""
    name = federation["data"]["name"]
    table = Table(
        f"{name}: the cosine of updates under the released oracle, at every ε",
        ["local steps", "ε", "edges predicted, %", "precision", "recall", "F1"],
    )
    share = 0.0
    for n_steps in steps:
        context.say(f"{name}: one local training of {n_steps} steps of every client")
        local = {**federation["local"], "steps": n_steps}
        config = validated(RunConfig, {**FEDERATION, **federation, "local": local, "seed": seed}, "figure.federation")
        world = setup(config)[1].world  # with the local rule of this configuration
        V = similarities(world)["cosine"]
        edges = share_edges(world.label_counts)
        share = float(edges.mean())
        for epsilon in SCANNED:
            precision, recall, f1, _, predicted, _ = score(V, edges, epsilon, self_pairs=True)
            cells = [f"{100 * predicted:.1f}", *[f"{figure:.4f}" for figure in (precision, recall, f1)]]
            table.rows.append([str(n_steps), f"{epsilon:g}", *cells])
    table.notes.append(
        f"Seed {seed}. The oracle joins {100 * share:.1f} % of the entries; joining everybody has the F1 "
        f"{2 * share / (1 + share):.4f}."
    )
    return table.markdown()


def _scores_by_seed(context: Context, federation: Toml, seeds: int) -> dict[tuple[str, str], list[Floats]]:
    """Return a score for each seed, by similarity and oracle."""
    scores: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    for seed in range(seeds):
        context.say(f"{federation['data']['name']}, seed {seed}: one local training of every client")
        config = validated(RunConfig, {**FEDERATION, **federation, "seed": seed}, "figure.federation")
        world = setup(config)[1].world  # with the local rule of this configuration
        for similarity, V in similarities(world).items():
            for oracle in ORACLES:
                edges = oracle.edges(world.label_counts)
                scores[similarity, oracle.name].append(best_f1(V, edges, oracle.self_pairs))
    return scores


def similarities(world: World) -> dict[str, Floats]:
    """Return V of eq. 11 and 12 after one local training of every client from the initial model."""
    ids = np.arange(world.n_clients)
    tensors = next(world.evaluator.test.examples.parts(SERVER_EXAMPLES))[1]
    if isinstance(tensors, tuple | dict):
        raise bad("the probe of FedGS", "given one array of examples", "several")
    inputs = tensors.cpu().numpy()
    noise = make_probe(inputs.mean(axis=0).ravel(), inputs.std(axis=0).ravel())
    responses = world.measure(world.initial, Measure(noise, ids), 0).values
    updates = world.train(world.initial, ids, (), 0).deltas
    scaled = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    unit = g.scale_to_unit(responses)
    return {"functional": np.clip(unit @ unit.T, 0, 1), "cosine": np.clip(scaled @ scaled.T, 0, 1)}


def best_f1(V: Floats, oracle: Array, self_pairs: bool = False) -> Floats:
    """Return the scores at the ε with the largest F1, where V ≥ ε is an edge; they are those of :func:`score`."""
    scores = [score(V, oracle, epsilon, self_pairs) for epsilon in SCANNED]
    return max(scores, key=lambda figures: float(figures[2]))


def score(V: Floats, oracle: Array, epsilon: float, self_pairs: bool = False) -> Floats:
    """Return precision, recall, F1, ε, and the shares of pairs predicted and true, where V ≥ ε is an edge.

    Pairs are counted once each, or, with ``self_pairs``, as all entries of the matrix: both orders, and the diagonal.
    """
    counted = np.ones_like(oracle, bool)
    if not self_pairs:
        counted = np.triu(counted, 1)
    true = oracle[counted]
    predicted = np.greater_equal(V[counted], epsilon)
    hits = float((predicted & true).sum())
    precision = hits / max(predicted.sum(), 1)
    recall = hits / max(true.sum(), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-12)
    return np.array([precision, recall, f1, epsilon, predicted.mean(), true.mean()])


def drawn(context: Context, *, data: Toml) -> str:
    """Draw Fig. 3: clients as points in the colour of their first label, joined where the oracle graph has an edge."""
    import altair as alt

    parts = split_data(validated(Data, data, "figure.data"), 0)
    label_counts = describe(parts.train, parts.dataset.y_train, parts.dataset.classes).counts
    edges = cosine_edges(label_counts)
    positions = spectral_layout(edges)
    labels_of_client = [np.flatnonzero(row).tolist() for row in label_counts]
    nodes: Marks = [
        {"x": x, "y": y, "label": labels[0], "text": " ".join(map(str, labels))}
        for (x, y), labels in zip(positions.tolist(), labels_of_client, strict=True)
    ]
    lines: Marks = [
        {"x": positions[i, 0], "y": positions[i, 1], "x2": positions[j, 0], "y2": positions[j, 1]}
        for i, j in np.argwhere(np.triu(edges, 1))
    ]
    axes = {"x": alt.X("x:Q", axis=None), "y": alt.Y("y:Q", axis=None)}
    links = alt.Chart(alt.InlineData(values=lines)).mark_rule(opacity=0.3).encode(**axes, x2="x2:Q", y2="y2:Q")
    points = alt.Chart(alt.InlineData(values=nodes)).encode(**axes)
    dots = points.mark_circle(size=240).encode(color=alt.Color("label:O", scale=alt.Scale(scheme="tableau10")))
    names = points.mark_text(dy=-14, fontSize=9).encode(text="text:N")
    title = f"oracle graph of {len(nodes)} clients of {parts.dataset.name}, with the labels they hold"
    return context.save("graph", (links + dots + names).properties(width=420, height=380, title=title))


def spectral_layout(joined: Array) -> Floats:
    """Place clients (N, 2) by the two smoothest non-constant eigenvectors of the graph's Laplacian, spread by rank."""
    weights = np.where(joined, 1.0, 0.02)
    np.fill_diagonal(weights, 0.0)
    laplacian = np.diag(weights.sum(axis=1)) - weights
    _, eigenvectors = np.linalg.eigh(laplacian)
    smoothest = eigenvectors[:, 1:3]
    ranks = np.argsort(np.argsort(smoothest, axis=0), axis=0)
    return np.asarray(smoothest + 0.25 * ranks / len(smoothest))
