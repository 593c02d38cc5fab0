"""FedCor's Fig. 1: two of twenty clients, one example each, train a line that separates two classes.

"Ind" takes the two with the highest loss, "Cor" is FedCor's choice from sampled loss changes, "Opt" the best pair.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context, Marks
from sortition.results.table import Table
from sortition.selectors.fedcor.gaussian_process import Likelihood, ascend
from sortition.selectors.fedcor.posterior import greedy_picks

if TYPE_CHECKING:
    import altair as alt

STEPS = 20  # of local training
RATE = 0.5  # of local training
SIGMA = 0.01  # of the observation noise
DIMENSION = 3  # of the embedding
RULES = ("Ind", "Cor", "Opt")

Pair = tuple[int, int]


class Toy:
    """Points (n, 3), the last coordinate 1, with classes ±1; a model w (3,) that is wrong for one side."""

    def __init__(self, seed: int, n: int = 20) -> None:
        rng = stream(seed, "toy")
        self.y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
        centre = self.y[:, None] * np.array([1.0, 0.6])
        self.x = np.column_stack([centre + rng.normal(size=(n, 2)), np.ones(n)])
        self.w = np.array([-0.3, 0.8, 0.0]) + 0.3 * rng.normal(size=3)
        self.pairs: list[Pair] = list(combinations(range(n), 2))
        self.trained = np.stack([self._train(client) for client in range(n)])
        self.losses = np.stack([self.loss(self.after(pair)) for pair in self.pairs])  # (pairs, n)

    def loss(self, w: Floats) -> Floats:
        """Return the logistic losses (n,)."""
        return np.logaddexp(0, -self.y * (self.x @ w))

    def after(self, pair: Pair) -> Floats:
        """Return the mean of what two clients trained."""
        return np.asarray(self.trained[list(pair)].mean(axis=0))

    def _train(self, client: int) -> Floats:
        """Return the model (3,) after local steps of one client from the common one."""
        x = self.x[client]
        y = self.y[client]
        w = self.w.copy()
        for _ in range(STEPS):
            w += RATE * expit(-y * (x @ w)) * y * x
        return w

    def choices(self, samples: int, rng: np.random.Generator) -> dict[str, Pair]:
        """Return whom each rule chooses; "Cor" sees the loss changes of so many sampled pairs."""
        n = len(self.y)
        highest_losses = np.argsort(-self.loss(self.w))[:2]
        sampled_pairs = rng.choice(len(self.pairs), samples, replace=False)
        changes = self.losses[sampled_pairs] - self.loss(self.w)
        X = rng.normal(size=(n, DIMENSION)) / np.sqrt(DIMENSION)
        X = ascend(Likelihood(changes, np.ones(samples), SIGMA**2), X, 0.01, 1000)
        even_weights = np.full(n, 1 / n)
        correlated, _ = greedy_picks(X, p=even_weights, alpha=np.ones(n), candidates=np.arange(n), k=2, sigma=SIGMA)
        best = self.pairs[int(np.argmin(self.losses.mean(axis=1)))]
        return {"Ind": _as_pair(highest_losses), "Cor": _as_pair(correlated), "Opt": best}


def make(context: Context, *, samples: int = 15, worlds: int = 50) -> str:
    """Draw one such world, and tabulate the loss after the round over many."""
    n_worlds = context.seeds or worlds
    rule_losses = np.zeros((n_worlds, len(RULES)))
    better_pairs = np.zeros((n_worlds, len(RULES)))  # share of all pairs
    random_losses = np.zeros(n_worlds)
    for seed in range(n_worlds):
        toy = Toy(seed)
        chosen = toy.choices(samples, stream(seed, "toy samples"))
        loss_of_pair = toy.losses.mean(axis=1)
        random_losses[seed] = loss_of_pair.mean()
        for column, rule in enumerate(RULES):
            loss = loss_of_pair[toy.pairs.index(chosen[rule])]
            rule_losses[seed, column] = loss
            better_pairs[seed, column] = np.mean(loss_of_pair < loss)
    table = Table(f"Mean loss after one round, over {n_worlds} worlds", ["choice", "loss", "pairs that are better"])
    for column, rule in enumerate(RULES):
        share = 100 * better_pairs[:, column].mean()
        table.rows.append([rule, f"{rule_losses[:, column].mean():.3f}", f"{share:.0f} %"])
    table.rows.append(["a random pair", f"{random_losses.mean():.3f}", "50 %"])
    toy = Toy(0)
    picture = context.save("choices", _draw_world(toy, toy.choices(samples, stream(0, "toy samples"))))
    return f"{picture}\n\n{table.markdown()}"


def _as_pair(ids: Array) -> Pair:
    first, second = sorted(int(client) for client in ids)
    return first, second


def _draw_world(toy: Toy, chosen: dict[str, Pair]) -> alt.LayerChart:
    """Draw clients by class, rings around those chosen, and the lines that separate the classes."""
    import altair as alt

    points: Marks = [
        {"x": x[0], "y": x[1], "class": "+" if label > 0 else "−"}
        for x, label in zip(toy.x.tolist(), toy.y, strict=True)
    ]
    rings: Marks = [
        {"x": toy.x[client, 0], "y": toy.x[client, 1], "choice": rule}
        for rule, pair in chosen.items()
        for client in pair
    ]
    models = {"before": toy.w, **{rule: toy.after(pair) for rule, pair in chosen.items()}}
    lines: Marks = []
    for rule, w in models.items():
        for x in (-4.0, 4.0):
            y = float(-(w[0] * x + w[2]) / w[1])  # where wᵀ(x, y, 1) = 0
            lines.append({"x": x, "y": y, "choice": rule})
    scale = alt.Scale(domain=[-4, 4])
    axes = {"x": alt.X("x:Q", scale=scale, title=None), "y": alt.Y("y:Q", scale=scale, title=None)}
    colour = alt.Color("choice:N", sort=list(models), scale=alt.Scale(domain=list(models)), title=None)
    dots = alt.Chart(alt.InlineData(values=points)).mark_point(filled=True, size=60)
    ring_marks = alt.Chart(alt.InlineData(values=rings)).mark_point(size=260, strokeWidth=2)
    line_marks = alt.Chart(alt.InlineData(values=lines)).mark_line(clip=True)
    return alt.layer(
        dots.encode(shape=alt.Shape("class:N"), color=alt.value("#555"), **axes),
        ring_marks.encode(color=colour, shape=alt.Shape("choice:N", legend=None), **axes),
        line_marks.encode(color=colour, **axes),
    ).properties(width=360, height=320)
