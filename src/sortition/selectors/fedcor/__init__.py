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
| p_k = n_k / n | ``data_shares`` |
| Algorithm 1, eq. 10, 11 | ``posterior.greedy_picks`` |

Deviations: XXᵀ alone is singular (d < N), so the likelihood has σ² on the diagonal, as the released code has; ``noise``
says how the choice uses it. A sample counts by its age in rounds, which is eq. 17 where samples are Δt apart. The paper
gives no number of Adam steps: ours are the released code's, as is one fit when warm-up ends (Alg. 2 has one in each of
its rounds: ``warmup_fit="rounds"`` overfits the first few samples). A sample holds those who were available and
answered; a client is embedded when it is first in one, until then it counts as independent and of variance σ². A refit
is brought forward when fewer available clients than places have been in a sample. Clients asked and clients fitted are
capped (``ask_at_most``, ``fit_at_most``); others who answered follow the latent causes of the fit, with variance left.
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
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.shares import data_shares
from sortition.selectors.fedcor.gaussian_process import Likelihood, ascend, fold_in, remaining_variance
from sortition.selectors.fedcor.posterior import Noise, greedy_picks

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
NO_QUESTION = -2  # no round's losses wait for those of the next
MOST_SHOWN = 100  # embeddings in the notes


@dataclass
class Memory(State):
    """Embeddings, the losses of the last question, and the loss changes that a fit still uses."""

    X: Array = per_client(0.0, dtype=np.float32, width=0)
    samples: Ids = per_client(0, dtype=np.int64)  # how many a client was in; before the first it has no embedding
    anchor: Array = per_client(False, dtype=bool)  # whether it was in a fit; the embeddings of others follow from these
    chosen: Ids = per_client(0, dtype=np.int64)  # τ_k
    loss: Floats = per_client(np.nan)
    asked_at: int = shared(NO_QUESTION)  # the round whose training turns ``loss`` into a change
    fitted_at: int = shared(-1)  # the round of the last fit
    history: Array = shared()  # (E, 4): number of the sample, its round, client, Δl

    def add_sample(self, t: int, losses: Reading, later_losses: Reading) -> None:
        """Add one sample, of the clients that answered both questions."""
        ids, rows, later_rows = np.intersect1d(losses.ids, later_losses.ids, assume_unique=True, return_indices=True)
        number = self.history[-1, 0] + 1 if len(self.history) else 0
        change = later_losses.values[later_rows] - losses.values[rows]
        sample = np.stack([np.full(ids.size, number), np.full(ids.size, t), ids, change], axis=1)
        self.history = np.vstack([self.history, sample])
        self.samples[ids] += 1

    def recent_samples(self, moments: int) -> tuple[Ids, Floats, Floats]:
        """Forget what is older than the last ``moments`` rounds with samples, and return the rest as a table.

        Returns (n,) ids, (H, n) changes (NaN: not observed) and (H,) rounds.
        """
        rounds = np.unique(self.history[:, 1])[-moments:]
        self.history = self.history[self.history[:, 1] >= rounds[0]]
        ids, column = np.unique(self.history[:, 2].astype(np.int64), return_inverse=True)
        _, first_entry, row = np.unique(self.history[:, 0], return_index=True, return_inverse=True)
        changes = np.full((first_entry.size, ids.size), np.nan)
        changes[row, column] = self.history[:, 3]
        return ids, changes, self.history[first_entry, 1]


@dataclass(frozen=True)
class Task:
    """What the losses of one round are asked for: a sample is the change from one answer of a client to the next.

    Attributes:
        closes: they complete the sample that the losses of the round before began.
        opens: they begin a sample that the losses of the next round complete.
        rehearses: they begin samples that the losses after rehearsed cohorts complete.
    """

    closes: bool
    opens: bool = False
    rehearses: bool = False


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
        ask_at_most: clients asked per question; of more, half are anchors of the fit, then come those with few samples,
            then newcomers.
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
        """Read the sizes; ask for everybody's loss in warm-up and around refits."""
        return Needs(reads=("sizes",), asks=(LOSS,))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Start without embeddings: a client's is drawn when it is first observed."""
        return Memory(n_clients, X=np.zeros((n_clients, self.dimension), np.float32), history=np.empty((0, 4)))

    def select(self, state: Memory, round: Round) -> Asking:
        """Follow Algorithm 2, lines 3 to 12."""
        in_warmup = round.index < self.warmup
        fitted = yield from self._learn(state, round, in_warmup)
        notes: dict[str, Any] = {"phase": "warm-up" if in_warmup else "selection", "fitted": fitted}
        if fitted:
            notes["embedding"] = _embedding_note(state)
        if in_warmup:
            return Cohort.uniform(draw_uniformly(round.available, round.places, round.rng), notes=notes)
        is_small = round.available.size <= self.ask_at_most  # then double precision costs nothing
        ids, scores = greedy_picks(
            X=state.X.astype(np.float64) if is_small else state.X,
            p=data_shares(round.population),
            alpha=self.beta**state.chosen,
            candidates=round.available,
            k=round.places,
            sigma=self.sigma,
            noise=self.noise,
            remaining_variance=remaining_variance(state.X, state.samples, state.anchor),
        )
        notes["scores"] = scores.tolist()
        return Cohort.uniform(ids, notes=notes)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Set α_k ← βα_k of the chosen (line 14); a round without any training gives no loss change."""
        if feedback.round.index >= self.warmup:
            state.chosen[feedback.cohort.ids] += 1
        if feedback.ids.size == 0:
            state.asked_at = NO_QUESTION

    def _learn(self, state: Memory, round: Round, in_warmup: bool) -> Generator[Measure, Reading, bool]:
        """Collect loss changes and refit on them, where it is time to; return whether X is new."""
        n_fitted = len(state.history) if state.fitted_at >= 0 else 0
        task = self._task(state, round, in_warmup)
        if task.closes or task.opens or task.rehearses:
            yield from self._collect(state, round, task)
        has_new_changes = len(state.history) > n_fitted
        if not has_new_changes or (in_warmup and self.warmup_fit == "end"):
            return False
        self._fit(state, round)
        state.chosen[:] = 0  # line 9
        state.fitted_at = round.index
        return True

    def _task(self, state: Memory, round: Round, in_warmup: bool) -> Task:
        """Return what losses are needed for: in warm-up the change of every round, afterwards a refit that is due."""
        closes = state.asked_at == round.index - 1
        if in_warmup:
            return Task(closes, opens=True)
        if not self._is_refit_due(state, round):
            return Task(closes)
        if self.refit == "rehearsal":
            return Task(closes, rehearses=True)
        return Task(closes, opens=not closes)

    def _is_refit_due(self, state: Memory, round: Round) -> bool:
        """Tell whether Δt rounds have passed (line 3), or fewer available clients than places have been in a sample."""
        last_fit = max(state.fitted_at, self.warmup - 1)
        too_few = np.count_nonzero(state.samples[round.available]) < round.places
        return bool(too_few or round.index // self.interval > last_fit // self.interval)

    def _collect(self, state: Memory, round: Round, task: Task) -> Generator[Measure, Reading, None]:
        """Ask for losses, and add the samples that they complete."""
        t = round.index
        losses = yield Measure(LOSS, self._choose_whom_to_ask(state, round))
        if task.closes:
            waiting = np.flatnonzero(~np.isnan(state.loss))
            state.add_sample(t, Reading(waiting, state.loss[waiting]), losses)
        state.loss[:] = np.nan
        state.asked_at = NO_QUESTION
        if task.opens:
            losses.scatter(state.loss)
            state.asked_at = t
        if not (task.rehearses and len(losses)):
            return
        for _ in range(self.samples):
            trial = Cohort.uniform(draw_uniformly(round.available, round.places, round.rng))  # lines 4 to 7
            later_losses = yield Measure(LOSS, losses.ids, after=trial)
            state.add_sample(t, losses, later_losses)

    def _choose_whom_to_ask(self, state: Memory, round: Round) -> Ids:
        """Return whom to ask: all available clients or, where they are too many, the most useful ones.

        A random half are anchors of the fit. Then come clients with few samples or with a loss that waits for the next
        one, then newcomers, then all others; among clients of one priority chance decides.
        """
        ids = round.available
        if ids.size <= self.ask_at_most:
            return ids
        n_samples = state.samples[ids]
        has_few_samples = (n_samples > 0) & (n_samples < 2 * self.dimension)
        has_open_change = ~np.isnan(state.loss[ids])
        is_anchor = state.anchor[ids]
        drawn_anchors = draw_uniformly(np.flatnonzero(is_anchor), self.ask_at_most // 2, round.rng)
        priority = np.zeros(ids.size, np.int64)
        priority[n_samples == 0] = 1
        priority[has_few_samples | has_open_change] = 2
        priority[is_anchor] = 0
        priority[drawn_anchors] = 3
        order = np.lexsort((round.rng.random(ids.size), -priority))
        return np.sort(ids[order[: self.ask_at_most]])

    def _fit(self, state: Memory, round: Round) -> None:
        """Take some steps uphill from the last X, on the clients that were observed (eq. 16 and 17)."""
        in_warmup = round.index <= self.warmup or state.fitted_at < 0
        M = self.history_warmup if in_warmup else self.history
        ids, changes, sample_round = state.recent_samples(1 + M)
        weights = self.theta ** (sample_round[-1] - sample_round)
        if self.mean == "history":
            observed = ~np.isnan(changes)
            changes = changes - np.nansum(weights[:, None] * changes, axis=0) / (weights @ observed)
        in_fit = np.ones(ids.size, bool)
        if ids.size > self.fit_at_most:
            order = np.lexsort((round.rng.random(ids.size), -state.samples[ids], ~state.anchor[ids]))
            in_fit[order[self.fit_at_most :]] = False
        newcomers = ids[in_fit & (state.X[ids] == 0).all(axis=1)]
        state.X[newcomers] = round.rng.standard_normal((newcomers.size, self.dimension)) / np.sqrt(self.dimension)
        likelihood = Likelihood(changes[:, in_fit], weights, self.sigma**2)
        X = ascend(
            likelihood,
            state.X[ids[in_fit]].astype(np.float64),
            rate=self.rate,
            steps=self.warmup_steps if in_warmup else self.steps,
        )
        is_new = sample_round > state.fitted_at
        state.X[ids[in_fit]] = X
        state.anchor[ids[in_fit]] = True
        self._fold_in_others(
            state,
            ids[~in_fit],
            changes=changes[:, ~in_fit],
            is_new=is_new,
            latent=likelihood.latent(X),
        )

    def _fold_in_others(self, state: Memory, ids: Ids, *, changes: Floats, is_new: Array, latent: Floats) -> None:
        """Place clients outside the fit by the latent causes that it found.

        A client that was in more than d samples is placed by all of them; of others the row is corrected by the newest.
        """
        n_samples = np.count_nonzero(~np.isnan(changes), axis=0)
        is_corrected = (n_samples <= self.dimension) & (state.X[ids] != 0).any(axis=1)
        changes = np.where(is_new[:, None] | ~is_corrected, changes, np.nan)
        spread = np.mean(state.X[state.anchor].astype(np.float64) ** 2)
        state.X[ids] = fold_in(
            X=np.where(is_corrected[:, None], state.X[ids], 0),
            changes=changes,
            latent=latent,
            noise=self.sigma**2,
            variance=np.full(ids.size, spread),
        )

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover every variant within a few rounds."""
        small = {"warmup": 3, "interval": 2, "dimension": 4, "steps": 5, "warmup_steps": 10}
        return [
            small,
            {**small, "noise": "observation", "refit": "round", "mean": "history", "warmup_fit": "rounds"},
            {**small, "noise": "none", "samples": 2, "history": 2, "history_warmup": 1, "theta": 0.8, "beta": 0.5},
            {**small, "ask_at_most": 12, "fit_at_most": 5, "rate": 0.05, "sigma": 0.05},
        ]


def _embedding_note(state: Memory) -> dict[str, list[Any]]:
    """Return some of the embeddings, evenly spread over the clients that have one."""
    embedded = np.flatnonzero(state.samples)
    step = -(-embedded.size // MOST_SHOWN)
    ids = embedded[::step]
    return {"ids": ids.tolist(), "x": np.round(state.X[ids].astype(np.float64), 3).tolist()}
