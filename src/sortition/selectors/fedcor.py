"""FedCor: Tang et al. 2022, *FedCor: Correlation-Based Active Client Selection Strategy for Heterogeneous FL*, CVPR.

| paper | here |
|---|---|
| Δl^t = l(w^{t+1}) − l(w^t), loss changes of all clients | differences of the answers to ``LOSS`` |
| N(μ, Σ), Σ = XᵀX, x_k ∈ R^d (eq. 8, 14) | ``state.X``, a row a client; d = ``dimension`` |
| warm-up of W rounds: uniform cohorts, Δt = 1 | ``warmup`` |
| Δt, S: a refit every Δt rounds on S sampled cohorts (Alg. 2) | ``interval``, ``samples`` |
| M: earlier samples that a fit uses too (eq. 17) | ``history_warmup``, ``history`` |
| γ = θ^Δt, discount of eq. 17 | ``theta`` per round of age |
| α_k = aβ^{τ_k}, τ_k = times chosen since the refit (eq. 9) | ``beta``, ``state.chosen``; a changes nothing (Lemma 2) |
| p_k = n_k / n | ``population.sizes`` |
| Algorithm 1, eq. 10, 11 | ``_parts.posterior.greedy_picks`` |

Deviations: XXᵀ alone is singular (d < N), so the likelihood has σ² on the diagonal, as the released code has; ``noise``
says how the choice uses it. A sample counts by its age in rounds, which is eq. 17 where samples are Δt apart. The paper
gives no number of Adam steps: ours are the released code's, as is one fit when warm-up ends (Alg. 2 has one in each of
its rounds: ``warmup_fit="rounds"`` overfits the first few samples). A sample holds those who were available and
answered; a client is embedded when it is first in one, until then it counts as independent and of variance σ². A refit
is brought forward when fewer available clients than places have been in a sample. Clients asked and clients fitted are
capped (``ask_at_most``, ``fit_at_most``); others who answered follow the latent causes of the fit, with doubt.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    LOSS,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Reading,
    Round,
    Selector,
    State,
    method,
    per_client,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.gaussian_process import Likelihood, ascend, doubt, fold_in
from sortition.selectors._parts.posterior import Noise, greedy_picks

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
NO_QUESTION = -2  # no round's losses wait for those of the next
_SHOWN = 100  # embeddings in the notes


@dataclass
class Memory(State):
    """Embeddings, the losses of the last question, and the loss changes that a fit still uses."""

    X: Array = per_client(0.0, dtype=np.float32, width=0)
    seen: Ids = per_client(0, dtype=np.int64)  # samples that a client was in; before the first it has no embedding
    anchor: Array = per_client(False, dtype=bool)  # was in a fit; others follow
    chosen: Ids = per_client(0, dtype=np.int64)
    loss: Floats = per_client(np.nan)
    asked_at: int = shared(NO_QUESTION)  # the round whose training turns ``loss`` into a change
    fitted_at: int = shared(-1)
    history: Any = shared()  # (E, 4): number of the sample, its round, client, Δl

    def add(self, t: int, before: Reading, after: Reading) -> None:
        """One more sample, of those who answered both questions."""
        ids, i, j = np.intersect1d(before.ids, after.ids, assume_unique=True, return_indices=True)
        number = np.full(ids.size, self.history[-1, 0] + 1 if len(self.history) else 0)
        change = after.values[j] - before.values[i]
        self.history = np.vstack([self.history, np.stack([number, np.full(ids.size, t), ids, change], axis=1)])
        self.seen[ids] += 1

    def table(self, moments: int) -> tuple[Ids, Floats, Floats]:
        """(n,) ids, (H, n) changes (NaN: not observed), (H,) rounds; older than the last moments is forgotten."""
        rounds = np.unique(self.history[:, 1])[-moments:]
        self.history = self.history[self.history[:, 1] >= rounds[0]]
        ids, column = np.unique(self.history[:, 2].astype(np.int64), return_inverse=True)
        _, first, row = np.unique(self.history[:, 0], return_index=True, return_inverse=True)
        changes = np.full((first.size, ids.size), np.nan)
        changes[row, column] = self.history[:, 3]
        return ids, changes, self.history[first, 1]


@dataclass(frozen=True)
class Task:
    """What the losses of one round are asked for."""

    closes: bool  # the losses of the round before and these make a sample
    opens: bool = False  # these and the losses of the next round will
    rehearses: bool = False  # these and the losses after each rehearsed cohort do


@method
class FedCor(Selector[Memory]):
    """Picks, one after the other, the clients whose training promises the largest fall of everybody's loss.

    Attributes:
        warmup: W, rounds of uniform cohorts in which everybody's losses are collected.
        interval: Δt, rounds between refits after that.
        beta: β, how fast a client's appeal fades when it is chosen several times before the next refit.
        dimension: d, of the embeddings.
        samples: S, cohorts rehearsed per refit.
        history_warmup: M during warm-up.
        history: M afterwards.
        theta: θ, discount per round of a sample's age.
        rate: Adam's learning rate.
        steps: Adam steps per refit.
        warmup_fit: "end" (one fit when warm-up ends: X is not used before) or "rounds" (one in each of its rounds).
        warmup_steps: Adam steps of such a fit.
        sigma: σ, noise of a loss change.
        noise: "diagonal" (Σ = XXᵀ + σ²I), "observation" (Σ = XXᵀ, picks are observed with noise; the first released
            code) or "none" (Σ = XXᵀ, the paper).
        refit: "rehearsal" (a uniform cohort is trained and thrown away) or "round" (the real, chosen cohort: cheaper,
            but not the uniform sample that the model is of).
        mean: "zero", or "history": the discounted mean change of each client is taken off before the fit.
        ask_at_most: clients asked per question: of more, up to half anchors of the fit, then those begun, then new.
        fit_at_most: clients whose embeddings are fitted together.
    """

    warmup: Count = 15
    interval: Positive = 10
    beta: Annotated[float, Field(gt=0, le=1)] = 0.95
    dimension: Positive = 15
    samples: Positive = 1
    history_warmup: Count = 10
    history: Count = 1
    theta: Annotated[float, Field(gt=0, le=1)] = 0.9
    rate: Annotated[float, Field(gt=0)] = 0.01
    steps: Count = 100
    warmup_fit: Literal["end", "rounds"] = "end"
    warmup_steps: Count = 1000
    sigma: Annotated[float, Field(gt=0)] = 0.01
    noise: Noise = "diagonal"
    refit: Literal["rehearsal", "round"] = "rehearsal"
    mean: Literal["zero", "history"] = "zero"
    ask_at_most: Positive = 10_000
    fit_at_most: Positive = 2_000

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{tang2022fedcor,
  title = {{FedCor}: Correlation-Based Active Client Selection Strategy for Heterogeneous Federated Learning},
  author = {Tang, Minxue and Ning, Xuefei and Wang, Yitu and Sun, Jingwei and Wang, Yu and Li, Hai and Chen, Yiran},
  booktitle = {CVPR}, pages = {10102--10111}, year = {2022}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes; everybody's loss in warm-up and around refits."""
        return Needs(reads=("sizes",), asks=(LOSS,))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """No embedding yet: a client's is drawn when it is first observed."""
        return Memory(n_clients, X=np.zeros((n_clients, self.dimension), np.float32), history=np.empty((0, 4)))

    def select(self, state: Memory, round: Round) -> Asking:
        """Algorithm 2, lines 3 to 12."""
        warm = round.index < self.warmup
        fitted = yield from self._learn(state, round, warm)
        notes: dict[str, Any] = {"phase": "warm-up" if warm else "selection", "fitted": fitted}
        if fitted:
            shown = np.flatnonzero(state.seen)[:: -(-np.count_nonzero(state.seen) // _SHOWN)]
            notes["embedding"] = {"ids": shown.tolist(), "x": np.round(state.X[shown].astype(np.float64), 3).tolist()}
        if warm:
            return Cohort.uniform(uniformly(round.available, round.places, round.rng), notes=notes)
        small = round.available.size <= self.ask_at_most  # then double precision costs nothing
        X = state.X.astype(np.float64) if small else state.X
        alpha = self.beta**state.chosen
        own = doubt(state.X, state.seen, state.anchor)
        ids, scores = greedy_picks(
            X, data_shares(round), alpha, round.available, round.places, self.sigma, self.noise, own
        )
        return Cohort.uniform(ids, notes={**notes, "scores": scores.tolist()})

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Line 14: α_k ← βα_k of the chosen; a round without any training gives no loss change."""
        if feedback.round.index >= self.warmup:
            state.chosen[feedback.cohort.ids] += 1
        if feedback.ids.size == 0:
            state.asked_at = NO_QUESTION

    def _learn(self, state: Memory, round: Round, warm: bool) -> Generator[Measure, Reading, bool]:
        """Collect loss changes and refit on them, where it is time to; whether X is new."""
        held = len(state.history)
        task = self._task(state, round, warm)
        if task.closes or task.opens or task.rehearses:
            yield from self._collect(state, round, task)
        unused = len(state.history) > (0 if state.fitted_at < 0 else held)
        if not unused or (warm and self.warmup_fit == "end"):
            return False
        self._fit(state, round)
        state.chosen[:] = 0  # line 9
        state.fitted_at = round.index
        return True

    def _task(self, state: Memory, round: Round, warm: bool) -> Task:
        """What losses are needed for: in warm-up the change of every round, afterwards only a refit that is due."""
        closes = state.asked_at == round.index - 1
        if warm:
            return Task(closes, opens=True)
        if not self._refit_due(state, round):
            return Task(closes)
        if self.refit == "rehearsal":
            return Task(closes, rehearses=True)
        return Task(closes, opens=not closes)

    def _refit_due(self, state: Memory, round: Round) -> bool:
        """Line 3: Δt rounds have passed; or fewer available clients than places have been in a sample."""
        last = max(state.fitted_at, self.warmup - 1)
        few = np.count_nonzero(state.seen[round.available]) < round.places
        return bool(few or round.index // self.interval > last // self.interval)

    def _collect(self, state: Memory, round: Round, task: Task) -> Generator[Measure, Reading, None]:
        """Ask for losses, and add the samples that they complete."""
        t = round.index
        losses = yield Measure(LOSS, self._panel(state, round))
        if task.closes:
            waiting = np.flatnonzero(~np.isnan(state.loss))
            state.add(t, Reading(waiting, state.loss[waiting]), losses)
        state.loss[:], state.asked_at = np.nan, NO_QUESTION
        if task.opens:
            losses.scatter(state.loss)
            state.asked_at = t
        for _ in range(self.samples if task.rehearses and len(losses) else 0):
            trial = Cohort.uniform(uniformly(round.available, round.places, round.rng))  # lines 4 to 7
            state.add(t, losses, (yield Measure(LOSS, losses.ids, after=trial)))

    def _panel(self, state: Memory, round: Round) -> Ids:
        """Whom to ask: all available or, of more, anchors (half), then those begun, new ones, and well known ones."""
        ids, cap = round.available, self.ask_at_most
        if ids.size <= cap:
            return ids
        seen, anchor = state.seen[ids], state.anchor[ids]
        begun = ((seen > 0) & (seen < 2 * self.dimension)) | ~np.isnan(state.loss[ids])
        rank = np.where(anchor, 0, np.where(begun, 2, np.where(seen == 0, 1, 0)))
        rank[uniformly(np.flatnonzero(anchor), cap // 2, round.rng)] = 3
        return np.sort(ids[np.lexsort((round.rng.random(ids.size), -rank))[:cap]])

    def _fit(self, state: Memory, round: Round) -> None:
        """Eq. 16 and 17: some steps uphill from the last X, on those who were observed."""
        warm = round.index <= self.warmup or state.fitted_at < 0
        ids, changes, at = state.table(1 + (self.history_warmup if warm else self.history))
        weights, newest = self.theta ** (at[-1] - at), at > state.fitted_at
        observed = ~np.isnan(changes)
        if self.mean == "history":
            changes = changes - np.nansum(weights[:, None] * changes, axis=0) / (weights @ observed)
        inside = np.ones(ids.size, bool)
        if ids.size > self.fit_at_most:
            order = np.lexsort((round.rng.random(ids.size), -state.seen[ids], ~state.anchor[ids]))
            inside[order[self.fit_at_most :]] = False
        fresh = ids[inside & (state.X[ids] == 0).all(axis=1)]
        state.X[fresh] = round.rng.standard_normal((fresh.size, self.dimension)) / np.sqrt(self.dimension)
        likelihood = Likelihood(changes[:, inside], weights, self.sigma**2)
        X = state.X[ids[inside]].astype(np.float64)
        X = ascend(likelihood, X, self.rate, self.warmup_steps if warm else self.steps)
        state.X[ids[inside]], state.anchor[ids[inside]] = X, True
        self._follow(state, ids[~inside], changes[:, ~inside], newest, likelihood.latent(X))

    def _follow(self, state: Memory, ids: Ids, changes: Floats, newest: Array, latent: Floats) -> None:
        """Clients outside the fit, by the latent causes that it found.

        Who was in more than d samples is placed by all of them; else what its row holds is corrected by the newest.
        """
        known = np.count_nonzero(~np.isnan(changes), axis=0) <= self.dimension
        known &= (state.X[ids] != 0).any(axis=1)
        changes = np.where(newest[:, None] | ~known, changes, np.nan)
        spread = np.full(ids.size, np.mean(state.X[state.anchor].astype(np.float64) ** 2))
        state.X[ids] = fold_in(np.where(known[:, None], state.X[ids], 0), changes, latent, self.sigma**2, spread)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Small ones that reach every variant within a few rounds."""
        small = {"warmup": 3, "interval": 2, "dimension": 4, "steps": 5, "warmup_steps": 10}
        return [
            small,
            {**small, "noise": "observation", "refit": "round", "mean": "history", "warmup_fit": "rounds"},
            {**small, "noise": "none", "samples": 2, "history": 2, "history_warmup": 1, "theta": 0.8, "beta": 0.5},
            {**small, "ask_at_most": 12, "fit_at_most": 5, "rate": 0.05, "sigma": 0.05},
        ]


def data_shares(round: Round) -> Floats:
    """(N,) p_k of all whose sizes are known."""
    p, known = np.zeros(round.n_clients), round.population.known
    p[known] = round.population.sizes[known]
    return np.asarray(p / max(p.sum(), 1))
