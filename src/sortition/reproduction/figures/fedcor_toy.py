"""FedCor's Fig. 1: two of twenty clients, one example each, train a line that separates two classes.

"Ind" takes the two with the highest loss, "Cor" is FedCor's choice from sampled loss changes, "Opt" the best pair.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import expit

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context
from sortition.results.table import Table
from sortition.selectors.fedcor.gaussian_process import Likelihood, ascend
from sortition.selectors.fedcor.posterior import greedy_picks

STEPS, RATE = 20, 0.5  # of local training
SIGMA, DIMENSION = 0.01, 3

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
        self.trained = np.stack([self._train(k) for k in range(n)])
        self.losses = np.stack([self.loss(self.after(pair)) for pair in self.pairs])  # (pairs, n)

    def loss(self, w: Floats) -> Floats:
        """(n,) logistic losses."""
        return np.logaddexp(0, -self.y * (self.x @ w))

    def after(self, pair: Pair) -> Floats:
        """The mean of what two clients trained."""
        return np.asarray(self.trained[list(pair)].mean(axis=0))

    def _train(self, k: int) -> Floats:
        w = self.w.copy()
        for _ in range(STEPS):
            w += RATE * expit(-self.y[k] * (self.x[k] @ w)) * self.y[k] * self.x[k]
        return w

    def choices(self, samples: int, rng: np.random.Generator) -> dict[str, Pair]:
        """Who is chosen by each rule."""
        worst = np.argsort(-self.loss(self.w))[:2]
        drawn = rng.choice(len(self.pairs), samples, replace=False)
        changes = self.losses[drawn] - self.loss(self.w)
        X = rng.normal(size=(len(self.y), DIMENSION)) / np.sqrt(DIMENSION)
        X = ascend(Likelihood(changes, np.ones(samples), SIGMA**2), X, 0.01, 1000)
        even = np.full(len(self.y), 1 / len(self.y))
        cor, _ = greedy_picks(X, even, np.ones(len(self.y)), np.arange(len(self.y)), 2, SIGMA)
        best = self.pairs[int(np.argmin(self.losses.mean(axis=1)))]
        return {"Ind": _pair(worst), "Cor": _pair(cor), "Opt": best}


def make(context: Context, *, samples: int = 15, worlds: int = 50) -> str:
    """The picture of one such world, and the loss after the round over many."""
    names, found = ("Ind", "Cor", "Opt"), []
    for seed in range(context.seeds or worlds):
        toy = Toy(seed)
        chosen = toy.choices(samples, stream(seed, "toy samples"))
        loss = toy.losses.mean(axis=1)
        rows = [loss[toy.pairs.index(chosen[name])] for name in names]
        found.append([*rows, *[np.mean(loss < row) for row in rows], loss.mean()])
    mean = np.mean(found, axis=0)
    table = Table(f"Mean loss after one round, over {len(found)} worlds", ["choice", "loss", "pairs that are better"])
    table.rows = [[n, f"{mean[i]:.3f}", f"{100 * mean[3 + i]:.0f} %"] for i, n in enumerate(names)]
    table.rows.append(["a random pair", f"{mean[-1]:.3f}", "50 %"])
    toy = Toy(0)
    picture = context.save("choices", _picture(toy, toy.choices(samples, stream(0, "toy samples"))))
    return f"{picture}\n\n{table.markdown()}"


def _pair(ids: Array) -> Pair:
    a, b = sorted(int(k) for k in ids)
    return a, b


def _picture(toy: Toy, chosen: dict[str, Pair]) -> Any:
    import altair as alt

    rows = zip(toy.x.tolist(), toy.y, strict=True)
    points = [{"x": x[0], "y": x[1], "class": "+" if label > 0 else "−"} for x, label in rows]
    rings = [{"x": toy.x[k, 0], "y": toy.x[k, 1], "choice": n} for n, pair in chosen.items() for k in pair]
    lines = []
    for name, w in [("before", toy.w), *[(n, toy.after(pair)) for n, pair in chosen.items()]]:
        lines += [{"x": x, "y": float(-(w[0] * x + w[2]) / w[1]), "choice": name} for x in (-4.0, 4.0)]
    scale = alt.Scale(domain=[-4, 4])
    place = {"x": alt.X("x:Q", scale=scale, title=None), "y": alt.Y("y:Q", scale=scale, title=None)}
    dots = alt.Chart(alt.InlineData(values=points)).mark_point(filled=True, size=60)
    around = alt.Chart(alt.InlineData(values=rings)).mark_point(size=260, strokeWidth=2)
    line = alt.Chart(alt.InlineData(values=lines)).mark_line(clip=True)
    order = ["before", *chosen]
    colour = alt.Color("choice:N", sort=order, scale=alt.Scale(domain=order), title=None)
    return alt.layer(
        dots.encode(shape=alt.Shape("class:N"), color=alt.value("#555"), **place),
        around.encode(color=colour, shape=alt.Shape("choice:N", legend=None), **place),
        line.encode(color=colour, **place),
    ).properties(width=360, height=320)
