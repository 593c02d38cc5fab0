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
gradient when first available, and clients without one fill the places that remain. Stored gradients are kept in single
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
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.selectors._parts.distances import distances_between
from sortition.selectors._parts.facility import greedy_cover, represented_mass, stochastic_cover
from sortition.selectors._parts.facility_sampled import (
    SHORT_WIDTH,
    make_room,
    sample_size,
    sampled_cover,
    store_rows,
)


@dataclass
class Memory(State):
    """The last known gradient of each client, and the distances between them."""

    has_gradient: Array = per_client(False, dtype=bool)
    rows: Array = per_client(width=0, dtype=np.float32)  # (N, width) gradients
    distance: Floats | None = shared()  # (N, N) up to exact_up_to clients; rows of unknown ones are never read


@method
class DivFL(Selector[Memory]):
    """Chooses the clients whose gradients cover everybody's best.

    Attributes:
        greedy: "exact" looks at every candidate in each step, "stochastic" at a random share of them.
        share: what part of all clients a stochastic step looks at.
        refresh: gradients are renewed for the "cohort" (no extra cost), or asked of "all" available in every round.
        weights: "uniform" (paper), "size" (released code) or "cover" (by how many clients each stands for).
        sketch: clients send projections to this many numbers; None for whole gradients.
        exact_up_to: N up to which all pairwise distances are kept.
        sample: beyond that, how many clients are covered, and how many are candidates first, in a round (≥ 10 K).
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
        """The vector by which clients are compared."""
        if self.sketch is None:
            return GRADIENT
        return GRADIENT.sketch(self.sketch)

    @property
    def needs(self) -> Needs:
        """Ask for every client's gradient (or its sketch); read the sizes, if they are the weights."""
        return Needs(
            reads=("sizes",) if self.weights == "size" else (),
            asks=(self.signal,),
            reports=(self.signal,) if self.refresh == "cohort" else (),
        )

    def select(self, state: Memory, round: Round) -> Asking:
        """Ask clients without a gradient (or all) for it, then choose the available ones that cover all known ones."""
        available = round.available
        keeps_pairs = make_room(state, self.exact_up_to, unknown=0.0)
        askable = available
        if not keeps_pairs:
            askable = np.sort(draw_uniformly(available, sample_size(self.sample, round.budget), round.rng))
        to_ask = askable
        if self.refresh == "cohort":
            to_ask = askable[~state.has_gradient[askable]]
        if to_ask.size:
            gradients = yield Measure(self.signal, to_ask)
            self._learn(state, gradients)
        pool = available[state.has_gradient[available]]
        if keeps_pairs:
            covering, mass = self._cover(state, round, pool)
        else:
            covering, mass = self._cover_sample(state, round, pool)
        unknown = available[~state.has_gradient[available]]
        substitutes = draw_uniformly(unknown, round.places - covering.size, round.rng)
        ids = np.append(covering, substitutes)
        if self.weights == "size":
            return Cohort.by_size(ids, round.population.sizes)
        if self.weights == "uniform":
            return Cohort.uniform(ids)
        mass = np.append(mass, np.ones(substitutes.size))  # a client without a gradient stands for itself
        return Cohort(ids, mass / mass.sum())

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Renew the gradients of the cohort."""
        if self.refresh == "cohort":
            self._learn(state, feedback.report(self.signal))

    def _cover(self, state: Memory, round: Round, pool: Ids) -> tuple[Ids, Floats]:
        """Cover every known client by the pool; return the chosen and how many clients each stands for."""
        if pool.size == 0 or state.distance is None:
            return pool, np.empty(0)
        known_ids = np.flatnonzero(state.has_gradient)
        table = state.distance[np.ix_(pool, known_ids)]
        if self.greedy == "exact":
            picks = greedy_cover(table, round.budget)
        else:
            n_looked_at = max(round.budget, int(self.share * round.n_clients))
            picks = stochastic_cover(table, round.budget, n_looked_at, round.rng)
        return pool[picks], represented_mass(table[picks])

    def _cover_sample(self, state: Memory, round: Round, pool: Ids) -> tuple[Ids, Floats]:
        """Choose clients that cover a sample of the known ones, where there are more than ``exact_up_to``.

        They are chosen among some candidates first; then everybody in the pool may take the place of a chosen one.
        """
        if pool.size == 0:
            return pool, np.empty(0)
        known_ids = np.flatnonzero(state.has_gradient)
        size = sample_size(self.sample, round.budget)
        references = np.sort(draw_uniformly(known_ids, size, round.rng))
        candidates = np.sort(draw_uniformly(pool, size, round.rng))
        mass = np.full(references.size, known_ids.size / references.size)
        ids = sampled_cover(
            rows=state.rows, pool=pool, candidates=candidates, references=references, k=round.budget, mass=mass
        )
        return ids, represented_mass(distances_between(state.rows[ids], state.rows[references]), mass)

    def _learn(self, state: Memory, reading: Reading) -> None:
        """Store the gradients of those who answered, and their distances to all stored ones."""
        if not len(reading):
            return
        vectors = reading.values.reshape(len(reading), -1)
        width = SHORT_WIDTH if state.distance is None else vectors.shape[1]
        state.rows = store_rows(state.rows, reading.ids, vectors, width)
        state.has_gradient[reading.ids] = True
        if state.distance is not None:
            known_ids = np.flatnonzero(state.has_gradient)
            table = distances_between(state.rows[reading.ids], state.rows[known_ids])
            table[reading.ids[:, None] == known_ids] = 0.0
            state.distance[np.ix_(reading.ids, known_ids)] = table
            state.distance[np.ix_(known_ids, reading.ids)] = table.T

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover all variants, and the form for many clients."""
        return [
            {},
            {"greedy": "stochastic", "share": 0.2, "weights": "size"},
            {"refresh": "all", "weights": "cover", "sketch": 8},
            {"exact_up_to": 0, "sample": 12, "weights": "cover"},
        ]
