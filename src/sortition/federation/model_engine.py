"""Who owns the model: what it is now, and the step from the updates of a cohort to the next one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sortition.aggregation import CombineRule, StepRule, UpdateMemory
from sortition.aggregation.clipping import clip_update
from sortition.aggregation.step import StepState
from sortition.clients.named_arrays import Model, as_vector, from_vector, shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import Cohort
from sortition.core.errors import StorageError, bad
from sortition.core.storage.snapshot import StoredTable, add_prefix, take_part
from sortition.federation.messages import Reply


@dataclass(frozen=True, eq=False)
class Step:
    """What a step is made of.

    Attributes:
        cohort: who was chosen.
        ids: members whose updates count, in the cohort's order; empty where the model must stay as it is.
        weights: of each of ``ids``.
        models: what they sent, by client, shortened where the guards clip updates.
        replies: all that came back from the cohort, by client, failures too.
        clients: how many the federation knows.
        norm_limit: the largest length that the combined update may have.
    """

    cohort: Cohort
    ids: Ids
    weights: Floats
    models: Mapping[int, Model]
    replies: Mapping[int, Reply]
    clients: int
    norm_limit: float = math.inf


@dataclass
class Combining:
    """A rule that makes one update of all, and what it remembers of earlier rounds."""

    rule: CombineRule = field(default_factory=CombineRule)
    memory: UpdateMemory | None = None

    @classmethod
    def by(cls, rule: CombineRule | str | StoredTable, who: str) -> Combining:
        """Make one of a rule, of its name, or of a table of its parameters."""
        if isinstance(rule, CombineRule):
            return cls(rule)
        if isinstance(rule, str):
            return cls(CombineRule(rule))
        if not isinstance(rule, Mapping):
            raise bad(f"{who}.combine", "a rule's name or a CombineRule", rule)
        try:
            return cls(CombineRule(**rule))
        except TypeError as error:
            raise bad(f"{who}.combine", f"a table of CombineRule's keys; {error}", dict(rule)) from None

    @property
    def own(self) -> bool:
        """Whether it is another rule than the weighted mean."""
        return self.rule.name != "mean"

    @property
    def identity(self) -> dict[str, object]:
        """The rule's parameters, by which a checkpoint knows it."""
        return {f"combine.{name}": value for name, value in asdict(self.rule).items()}

    def check_memory(self, size: int, clients: int) -> None:
        """Refuse, before anybody trains, a federation whose updates the server may not keep."""
        self.rule.init(size, clients)

    def combined(self, step: Step, updates: Array, rate: float = 1.0) -> Array:
        """Make one update (P,) of those of ``step.ids`` (k, P), in their order."""
        if self.memory is None or self.memory.total.size != updates.shape[1]:
            self.memory = self.rule.init(updates.shape[1], step.clients)
        update, self.memory = self.rule.apply(
            step.ids,
            step.weights,
            updates,
            self.memory,
            clients=step.clients,
            rate=rate,
            mass=step.cohort.mass,
        )
        return clip_update(update, step.norm_limit)

    def export(self) -> dict[str, Array]:
        """Return the memory as arrays, for a checkpoint."""
        if self.memory is None:
            return {}
        return self.memory.export()

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what :meth:`export` gave."""
        if not arrays or not self.rule.remembers:
            return
        ids = arrays["ids"]
        rows = arrays["rows"]
        total = arrays["total"]
        if ids.dtype.kind != "i" or rows.shape != (ids.size, total.size) or ids.ndim != 1 or total.ndim != 1:
            raise ValueError(f"remembered updates of shape {rows.shape} for {ids.shape} clients")
        if not (np.isfinite(rows).all() and np.isfinite(total).all()):
            raise ValueError("remembered updates that are not finite")
        self.memory = UpdateMemory.restore(arrays)


class Engine(ABC):
    """Keeps the model of a federation.

    Args:
        model: initial arrays by name.
        combining: how updates become one.

    Attributes:
        free_shapes: whether clients may send arrays of other shapes than the model's, such as trees.
    """

    free_shapes = False

    def __init__(self, model: Model, combining: Combining) -> None:
        self._model = model
        self.combining = combining

    @property
    def model(self) -> Model:
        """The model that clients get now, by name."""
        return self._model

    @property
    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What must be the same when a federation goes on from a checkpoint."""

    def objections(self, replies: Mapping[int, Reply]) -> Mapping[int, str]:
        """Return whose reply this engine cannot use though its model is sound, and why."""
        return {}

    def rebase(self, reply: Reply, model: Model) -> Reply:
        """Put this model in place of a stale reply's own, where work outlives a step; return the reply."""
        return replace(reply, model=model)

    @abstractmethod
    def step(self, step: Step) -> Mapping[str, object]:
        """Make the next model, where there is one, and return notes for the record."""

    @abstractmethod
    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return what it remembers beside the model, as arrays and a JSON-able header."""

    @abstractmethod
    def restore(self, model: Model, arrays: Mapping[str, Array], header: StoredTable) -> None:
        """Go on with this model and what :meth:`export` gave."""


class ModelEngine(Engine):
    """Keeps the model itself: updates are combined with the cohort's weights, then the server makes its step.

    Args:
        model: initial arrays by name.
        step: the server's step; default: w + Σ a_k Δ_k.
        combining: how updates become one; default: their weighted sum.
    """

    def __init__(
        self,
        model: Mapping[str, npt.ArrayLike],
        step: StepRule | None = None,
        combining: Combining | None = None,
    ) -> None:
        super().__init__({str(name): np.asarray(value) for name, value in model.items()}, combining or Combining())
        self.rule = step or StepRule()
        self.state: StepState = self.rule.init(as_vector(self._model).size)

    @property
    def identity(self) -> dict[str, object]:
        """The server's step and the combining rule, as checkpoints name them."""
        return {f"step.{name}": value for name, value in asdict(self.rule).items()} | self.combining.identity

    def step(self, step: Step) -> Mapping[str, object]:
        """Move the model by the combined update."""
        if step.ids.size:
            update = self.update_of(step).astype(np.float32)
            vector, self.state = self.rule.apply(as_vector(self._model).astype(np.float32), update, self.state)
            self._model = from_vector(vector, self._model)
        return {}

    def update_of(self, step: Step) -> Array:
        """Return the combined update (P,) of a cohort."""
        updates = np.stack([shared_update(step.models[client], self._model) for client in step.ids.tolist()])
        return self.combining.combined(step, updates)

    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return what step and rule remember."""
        return add_prefix("step.", self.state) | add_prefix("combine.", self.combining.export()), {}

    def restore(self, model: Model, arrays: Mapping[str, Array], header: StoredTable) -> None:
        """Go on with another model and memory; refuse those of another step."""
        state = take_part(arrays, "step.")
        names = self.rule.init(0).keys()
        if state.keys() != names:
            raise StorageError(f"its step kept {sorted(state)}, this one keeps {sorted(names)}.")
        self._model = dict(model)
        self.state = state
        self.combining.restore(take_part(arrays, "combine."))


def learning_rate_of(config: Mapping[str, object], names: tuple[str, ...]) -> float:
    """Return the learning rate that a train config says; else 1, which keeps updates as they are."""
    rates = [config[name] for name in names if name in config]
    if not rates:
        return 1.0
    rate = rates[0]
    if isinstance(rate, int | float) and math.isfinite(rate) and rate > 0:
        return float(rate)
    return 1.0
