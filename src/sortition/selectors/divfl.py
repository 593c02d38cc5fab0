"""DivFL: Balakrishnan et al. 2022, *Diverse client selection for federated learning via submodular maximization*.

| paper | here |
|---|---|
| ∇F_k(w), gradient at the received model, before local training | the question and report ``GRADIENT`` |
| G(S) = Σ_k min_{i∈S} ‖∇F_k − ∇F_i‖ | the coverage that ``_parts.facility`` minimises |
| K | the budget |
| greedy, stochastic greedy over a random subset of size s | ``greedy``, ``share`` = s/N (never less than K) |
| ideal: everybody's gradient in every round | ``refresh="all"`` |
| no overhead: everybody's once, then the cohort's | ``refresh="cohort"`` |
| (1/K) Σ_{k∈S} w_k | ``weights="uniform"``; ``"size"`` is the released code's, ``"cover"`` the theory's abs(C_k)/N |

Deviations: only available clients are candidates, all known ones are to be covered; a client is asked for its
gradient when first met, and unknown ones fill places that the known leave. Stored gradients are kept in single
precision. Beyond ``exact_up_to`` clients they are kept as sketches of 64 numbers, ``sample`` clients are covered by
the best of all (``_parts.facility_sampled``), and only newcomers among a drawn ``sample`` are asked in a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    GRADIENT,
    Cohort,
    Feedback,
    Measure,
    Needs,
    Reading,
    Round,
    Selector,
    Signal,
    State,
    method,
    per_client,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.distances import between, grown
from sortition.selectors._parts.facility import greedy_cover, represented_mass, stochastic_cover
from sortition.selectors._parts.facility_sampled import sampled_cover, shortened, stored

SHORT = 64  # numbers kept of a gradient beyond exact_up_to clients
MEMBERS = 10  # clients drawn for each place of a cohort, at least


@dataclass
class Memory(State):
    """The last known gradient of each client, and the distances between them."""

    met: Array = per_client(False, dtype=bool)
    rows: Array = per_client(width=0, dtype=np.float32)
    distance: Floats | None = shared()  # (N, N) up to exact_up_to clients; rows of unknown ones are never read


@method
class DivFL(Selector[Memory]):
    """The clients whose gradients cover everybody's best.

    Attributes:
        greedy: "exact" looks at every candidate in each step, "stochastic" at a random share of them.
        share: what part of all clients a stochastic step looks at.
        refresh: gradients are renewed for the "cohort" (no extra cost), or asked of "all" available in every round.
        weights: "uniform" (paper), "size" (released code) or "cover" (by how many clients each stands for).
        sketch: clients send projections to this many numbers; None: whole gradients.
        exact_up_to: N up to which all pairwise distances are kept.
        sample: beyond, how many clients are covered, and how many are candidates first, in a round (≥ 10 K).
    """

    greedy: Literal["exact", "stochastic"] = "exact"
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    refresh: Literal["cohort", "all"] = "cohort"
    weights: Literal["uniform", "size", "cover"] = "uniform"
    sketch: Annotated[int, Field(ge=1)] | None = None
    exact_up_to: Annotated[int, Field(ge=0)] = 2000
    sample: Annotated[int, Field(ge=2)] = 500

    memory = Memory
    cite = """@inproceedings{balakrishnan2022diverse,
  title = {Diverse Client Selection for Federated Learning via Submodular Maximization},
  author = {Balakrishnan, Ravikumar and Li, Tian and Zhou, Tianyi and Himayat, Nageen and Smith, Virginia
    and Bilmes, Jeff},
  booktitle = {ICLR}, year = {2022}
}"""

    @property
    def signal(self) -> Signal:
        """The vector that clients are compared by."""
        return GRADIENT if self.sketch is None else GRADIENT.sketch(self.sketch)

    @property
    def needs(self) -> Needs:
        """Every known client's gradient (or its sketch); sizes, if they are the weights."""
        reports = (self.signal,) if self.refresh == "cohort" else ()
        return Needs(reads=("sizes",) if self.weights == "size" else (), asks=(self.signal,), reports=reports)

    def select(self, state: Memory, round: Round) -> Asking:
        """Ask who is not known (or all), then cover everybody known by the available."""
        exact = self._fit(state)
        drawn = round.available if exact else np.sort(uniformly(round.available, self._drawn(round), round.rng))
        asked = drawn if self.refresh == "all" else drawn[~state.met[drawn]]
        if asked.size:
            self._learn(state, (yield Measure(self.signal, asked)))
        known, pool = np.flatnonzero(state.met), round.available[state.met[round.available]]
        ids, cover = (self._cover if exact else self._sampled)(state, round, known, pool)
        unknown = round.available[~state.met[round.available]]
        others = uniformly(unknown, round.places - ids.size, round.rng)
        ids, cover = np.append(ids, others), np.append(cover, np.ones(others.size))
        if self.weights == "size":
            return Cohort.by_size(ids, round.population.sizes)
        return Cohort.uniform(ids) if self.weights == "uniform" else Cohort(ids, cover / cover.sum())

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Renew the gradients of the cohort, against everybody's stored one."""
        if self.refresh == "cohort":
            self._learn(state, feedback.report(self.signal))

    def _cover(self, state: Memory, round: Round, known: Ids, pool: Ids) -> tuple[Ids, Floats]:
        """Every known client is covered, every known available one is a candidate."""
        if pool.size == 0 or state.distance is None:
            return pool, np.empty(0)
        table = state.distance[np.ix_(pool, known)]
        if self.greedy == "exact":
            picks = greedy_cover(table, round.budget)
        else:
            look = max(round.budget, int(self.share * round.n_clients))
            picks = stochastic_cover(table, round.budget, look, round.rng)
        return pool[picks], represented_mass(table[picks])

    def _sampled(self, state: Memory, round: Round, known: Ids, pool: Ids) -> tuple[Ids, Floats]:
        """Beyond ``exact_up_to``: a sample is covered by the best of the whole pool."""
        if pool.size == 0:
            return pool, np.empty(0)
        references = np.sort(uniformly(known, self._drawn(round), round.rng))
        candidates = np.sort(uniformly(pool, self._drawn(round), round.rng))
        mass = np.full(references.size, known.size / references.size)
        ids = sampled_cover(state.rows, pool, candidates, references, round.budget, mass)
        return ids, represented_mass(between(state.rows[ids], state.rows[references]), mass)

    def _drawn(self, round: Round) -> int:
        """How many are covered, and how many are candidates first, beyond ``exact_up_to``."""
        return max(self.sample, MEMBERS * round.budget)

    def _fit(self, state: Memory) -> bool:
        """Whether all pairs are kept; makes room for clients that joined."""
        exact = state.n_clients <= self.exact_up_to
        state.distance = grown(state.distance, state.n_clients, 0.0) if exact else None
        if not exact and state.rows.shape[1] > SHORT:
            state.rows = shortened(state.rows, SHORT).astype(np.float32)
        return exact

    def _learn(self, state: Memory, reading: Reading) -> None:
        """Rows and columns of those who answered, against all stored gradients."""
        if not len(reading):
            return
        exact = state.distance is not None
        vectors = reading.values.reshape(len(reading), -1)
        state.rows = stored(state.rows, reading.ids, vectors, vectors.shape[1] if exact else SHORT)
        state.met[reading.ids] = True
        if state.distance is not None:
            known = np.flatnonzero(state.met)
            table = between(state.rows[reading.ids], state.rows[known])
            table[reading.ids[:, None] == known] = 0.0
            state.distance[np.ix_(reading.ids, known)] = table
            state.distance[np.ix_(known, reading.ids)] = table.T

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """All variants, and the form for many clients."""
        return [
            {},
            {"greedy": "stochastic", "share": 0.2, "weights": "size"},
            {"refresh": "all", "weights": "cover", "sketch": 8},
            {"exact_up_to": 0, "sample": 12, "weights": "cover"},
        ]
