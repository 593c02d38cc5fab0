"""FedCS: Nishio and Yonetani 2019, *Client selection for federated learning with heterogeneous resources …*.

Clients say how long they would train and send. The server then schedules as many of them as fit into the deadline of a
round, while uploads go one after another and updates are computed in parallel.

| paper | here |
|---|---|
| Resource Request to ⌈K · C⌉ random clients | ``candidates``, at least as many as there are places |
| t^UD_k, t^UL_k = D_m / θ_k | the question ``RESOURCES``: seconds of the update and of sending the model once |
| T^d_S = D_m / min_{k∈S} θ_k, multicast | the longest t^UL of the chosen |
| Algorithm 3: k = argmax 1 / (T^d_{S∪k} − T^d_S + t^UL_k + max(0, t^UD_k − Θ)) | :func:`schedule_uploads` |
| added if T_cs + T^d_{S∪k} + Θ' + T_agg < T_round, else dropped | ``deadline``, ``overhead`` = T_cs + T_agg |
| FedAvg: Σ n_k w_k / Σ_S n_k | weights by size |

Deviations: at most as many clients as there are places are chosen. Candidates that do not answer are not chosen. Ties
go to the lowest id. If nobody fits into the deadline, the cohort is empty and the round passes. The server relies on
what clients say; whether it stops at the deadline is the driver's matter.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sortition.core import RESOURCES, Cohort, Measure, Needs, Round, Selector, State, method
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking, Conditions
from sortition.core.ties import first_smallest

PAPERS_DEADLINE = 180.0  # seconds


@method
class FedCS(Selector[State]):
    """Chooses as many of some random candidates as can train and send before the deadline.

    Attributes:
        deadline: T_round in seconds; None for the server's or, where it has none, for the paper's 180 s.
        candidates: how many clients are asked; None, or a smaller number, for as many as there are places.
        overhead: seconds of a round that selection and aggregation take, T_cs + T_agg.
    """

    deadline: Annotated[float, Field(gt=0)] | None = None
    candidates: Annotated[int, Field(ge=1)] | None = None
    overhead: Annotated[float, Field(ge=0)] = 0.0

    cite = """@inproceedings{nishio2019client,
  title = {Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge},
  author = {Nishio, Takayuki and Yonetani, Ryo},
  booktitle = {IEEE International Conference on Communications (ICC)}, pages = {1--7}, year = {2019}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; ask the candidates how long they would train and send."""
        return Needs(reads=("sizes",), asks=(RESOURCES,))

    def init(self, n_clients: int, rng: np.random.Generator) -> State:
        """Check the overhead against the deadline; nothing is remembered."""
        deadline = self.deadline or PAPERS_DEADLINE
        if self.overhead >= deadline:
            raise bad("FedCS.overhead", f"below the deadline, {deadline}", self.overhead)
        return State(n_clients)

    def remarks(self, conditions: Conditions) -> tuple[str, ...]:
        """Say which deadline is planned with where the study does not give one to the method."""
        if self.deadline is not None:
            if conditions.deadline is None and not conditions.deadline_follows:
                return (f"FedCS plans with {self.deadline:g} s, but the server has no deadline and waits for all.",)
            return ()
        if conditions.deadline is not None:
            return (f"FedCS plans with the server's deadline, {conditions.deadline:g} s.",)
        if conditions.deadline_follows:
            first = f"in the first round, which has none, with the paper's {PAPERS_DEADLINE:g} s"
            return (f"FedCS plans with the server's deadline, which follows the trainings so far; {first}.",)
        idle = f"FedCS plans with the paper's {PAPERS_DEADLINE:g} s, since the server has no deadline"
        return (f"{idle}; where everybody is faster, it chooses at random.",)

    def select(self, state: State, round: Round) -> Asking:
        """Send a resource request to candidates, then schedule some of them."""
        n_candidates = max(self.candidates or 0, round.budget)
        candidates = np.sort(draw_uniformly(round.available, n_candidates, round.rng))
        seconds = yield Measure(RESOURCES, candidates)
        if not len(seconds):
            return Cohort.uniform([], notes={"answered": 0})
        order = np.argsort(seconds.ids)
        update, upload = seconds.values[order].T
        deadline = self.deadline or round.deadline or PAPERS_DEADLINE
        chosen, expected = schedule_uploads(
            ids=seconds.ids[order],
            update=update,
            upload=upload,
            limit=deadline - self.overhead,
            places=round.budget,
        )
        notes = {"expected_seconds": expected + self.overhead}
        if self.deadline is None and round.deadline is not None:
            notes["deadline"] = deadline
        return Cohort.by_size(chosen, round.population.sizes, notes=notes)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the paper's deadline, and one that leaves most candidates out."""
        return [{"candidates": 20}, {"deadline": 3.0, "candidates": 12, "overhead": 0.5}]


def schedule_uploads(ids: Ids, update: Floats, upload: Floats, limit: float, places: int) -> tuple[Ids, float]:
    """Return clients in the order of their uploads, and when the last has sent: Algorithm 3.

    Args:
        ids: the candidates.
        update: (n,) t^UD, seconds of each one's local training.
        upload: (n,) t^UL, seconds of sending the model once.
        limit: the second at which the last upload must have ended.
        places: how many may be chosen at most.
    """
    waiting = np.ones(ids.size, bool)
    chosen: list[int] = []
    theta = 0.0  # Θ, when the last upload so far ends
    multicast = 0.0  # T^d_S
    while waiting.any() and len(chosen) < places:
        multicast_with = np.maximum(multicast, upload)  # T^d_{S∪k}
        cost = multicast_with - multicast + upload + np.maximum(update - theta, 0.0)
        k = first_smallest(np.where(waiting, cost, np.inf))
        waiting[k] = False
        theta_with = theta + float(upload[k]) + max(0.0, float(update[k]) - theta)
        if float(multicast_with[k]) + theta_with < limit:
            theta = theta_with
            multicast = float(multicast_with[k])
            chosen.append(k)
    return ids[np.asarray(chosen, np.int64)], theta + multicast
