"""One model on one data set: trains cohorts, measures losses, takes gradients. Vectors (P,) in, vectors out."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Required, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad, unknown
from sortition.core.inputs import Inputs
from sortition.core.streams import seed_sequence
from sortition.learning import dropout, engines, optimiser, stacked, vector, vmapped
from sortition.learning.batches import BatchPlan, batch_plans
from sortition.learning.client_stack import StackJob, StackResult
from sortition.learning.evaluation import Passes
from sortition.learning.examples import AnyExamples, Examples, SeveralExamples
from sortition.learning.objective import Objective
from sortition.learning.precision import PRECISIONS
from sortition.learning.resident import ResidentArray, empty_rows, to_device, to_host, to_host_together
from sortition.learning.rule import LocalRule
from sortition.learning.sequential import SequentialTrainer
from sortition.learning.task import TaskRule
from sortition.learning.vector import Layout, Vector

PARTS = ("all", "first", "last")  # of a training: all mini-batches, those of the first epoch, the last one
STACK_BYTES = 64 << 20  # parameters of one stack; a larger cohort trains in several


@dataclass(frozen=True, slots=True)
class Trained:
    """What the local training of a cohort of k clients gave, one row per client.

    Attributes:
        deltas: (k, P) local minus global parameters; on an accelerator they stay there until somebody reads them.
        losses: (k,) mean batch loss along the path.
        steps: (k,) SGD steps.
        examples: (k,) forward-backward passes of single examples.
        dispersion: (k,) spread of the stochastic gradients; None where it is not measured.
        rms_losses: (k, 3) root mean square of the losses in the ``PARTS`` of the training; None where not measured.
        states: (k, S) what the optimiser remembers, where the rule keeps it; otherwise None.
    """

    deltas: Vector
    losses: npt.NDArray[np.float32]
    steps: npt.NDArray[np.int64]
    examples: npt.NDArray[np.int64]
    dispersion: npt.NDArray[np.float32] | None = None
    rms_losses: npt.NDArray[np.float32] | None = None
    states: Vector | None = None


class CohortOptions(TypedDict, total=False):
    """What the training of a cohort is told beside model and clients.

    Attributes:
        seed: of the run.
        t: the round.
        purpose: separates the randomness of one training from another's; default ``train``.
        dispersion: whether to measure the spread of the stochastic gradients.
        rms_losses: whether to measure the root mean squares of losses.
        rule: the local rule; default: the learner's.
        states: (k, S) what the clients' optimisers remember, where the rule keeps it; default: nothing yet.
        version: of the model, whose learning rate is taken; default: the round.
    """

    seed: Required[int]
    t: Required[int]
    purpose: str
    dispersion: bool
    rms_losses: bool
    rule: LocalRule
    states: Vector | None
    version: int | None


@dataclass(frozen=True, slots=True)
class DrawnCohort:
    """A cohort of k clients that is ready to train: everything random is drawn.

    Attributes:
        learner: the model and the examples.
        engine: that trains it.
        start: (P,) the parameters from which all clients begin.
        plans: the batches of each client.
        rule: the local rule.
        lr: its learning rate in this round.
        dropout_sources: where each client's dropout words come from; None without dropout.
        layer_seeds: a seed of each client for random layers other than dropout; empty where clients train together.
        batches_per_epoch: of each client.
        trained: what the training fills.
    """

    learner: Learner
    engine: str
    start: Tensor
    plans: Sequence[BatchPlan]
    rule: LocalRule
    lr: float
    dropout_sources: Sequence[np.random.BitGenerator] | None
    layer_seeds: Sequence[int]
    batches_per_epoch: Sequence[int]
    trained: Trained

    @property
    def measures_dispersion(self) -> bool:
        """Whether the spread of the stochastic gradients is measured."""
        return self.trained.dispersion is not None

    @property
    def measures_squares(self) -> bool:
        """Whether the squares of the losses of single examples are measured."""
        return self.trained.rms_losses is not None

    def states_of(self, clients: Sequence[int]) -> Tensor | None:
        """Return what the optimiser remembers of some clients before they train; None where it starts anew."""
        states = self.trained.states
        if states is None:
            return None
        return torch.as_tensor(states[clients], device=self.start.device)

    def store(self, results: Iterable[tuple[Sequence[int], StackResult]]) -> None:
        """Store what the training of some clients at a time gave.

        Updates stay where they are; what was measured beside them comes to the host together.
        """
        trained_parts = []
        for clients, result in results:
            self._store_updates(clients, result.updates)
            trained_parts.append((clients, result.measured))
        arrays = iter(to_host_together([tensor for _, measured in trained_parts for tensor in measured.values()]))
        for clients, measured in trained_parts:
            self._store_measured(clients, {name: next(arrays) for name in measured})

    def _store_updates(self, clients: Sequence[int], updates: Tensor) -> None:
        deltas: object = self.trained.deltas
        if isinstance(deltas, ResidentArray):
            deltas.put(clients, updates)
        else:
            self.trained.deltas[clients] = to_host(updates)

    def _store_measured(self, clients: Sequence[int], measured: Mapping[str, Array]) -> None:
        trained = self.trained
        trained.losses[clients] = measured["losses"]
        if trained.dispersion is not None:
            trained.dispersion[clients] = measured["dispersion"]
        if trained.states is not None:
            trained.states[clients] = measured["states"]
        for client, squares in zip(clients, measured.get("squares", ()), strict=False):
            self.store_rms_losses(client, squares[: self.plans[client].steps])

    def store_rms_losses(self, client: int, squares: Vector) -> None:
        """Store a client's root mean squares, from the mean squared loss of each of its batches (steps,)."""
        if self.trained.rms_losses is not None:
            counts = self.plans[client].counts
            self.trained.rms_losses[client] = rms_by_part(squares, counts, self.batches_per_epoch[client])


class Learner:
    """A model, the examples, and how to train on them.

    Args:
        model: any module whose output is logits (B, classes), or what the loss of another task takes.
        x: (n, …) examples, or several arrays of them.
        y: (n,) labels, or (n, …) targets of another task.
        rule: the local rule.
        device: any name that torch knows.
        engine: ``auto`` takes the engine of the rule in :mod:`sortition.learning.engines`; ``stacked``, ``vmapped`` and
            ``sequential`` force one.
        channels_last: keep images in the order in which convolutions are fastest; a module that takes ``x.view(…)`` of
            them needs False.
        white: the value that stands for 1 in examples of bytes, which are kept so and scaled when they are used; 0 for
            examples that are not scaled.
        whole: whether the model takes whole numbers (int64) as they are, as an embedding does; otherwise it gets
            their values as float32.
        objective: loss and metric of a task; None for cross-entropy on labels and accuracy.
        precision: of the passes of a training: ``float32``, or ``bf16`` where the engine is not the stacked one.
    """

    def __init__(
        self,
        model: nn.Module,
        x: npt.ArrayLike | Inputs,
        y: npt.ArrayLike,
        rule: LocalRule,
        *,
        device: str = "cpu",
        engine: str = "auto",
        channels_last: bool = True,
        white: int = 0,
        whole: bool = True,
        objective: Objective | None = None,
        precision: str = "float32",
    ) -> None:
        if engine not in engines.ENGINES:
            raise unknown("engine", engine, engines.ENGINES)
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        self.device = _device(device)
        self.engine = engine
        self.precision = precision
        self.rule = rule
        self.channels_last = channels_last
        self.white = white
        self.whole = whole
        self.initial = vector.flatten(model)
        self.layout = Layout.of(model)
        self.model = copy.deepcopy(model).to(self.device)
        self.objective = objective
        self.y = self._targets_on_device(y)
        self.layers = None
        is_by_label = objective is None or objective.is_by_label(self.y)
        if is_by_label and not isinstance(x, Inputs):
            self.layers = stacked.stackable_layers(self.model, prod(np.shape(x)[1:]))
        if engine == "stacked":
            self._check_stacked()
        self.is_stacked = engine in ("auto", "stacked") and self.layers is not None and precision == "float32"
        self.architecture = self._architecture()
        self.examples = self._on_device(x)
        training_objective = None if is_by_label else objective
        self._sequential_trainer = SequentialTrainer(self.model, self.examples, self.y, training_objective, precision)
        self.mapped = vmapped.MappedModel(
            self.model, self._sequential_trainer.dropout_layers, training_objective, precision
        )
        self.engine_choice = engines.EngineChoice(
            engine=engine,
            is_stacked=self.is_stacked,
            trainer=self._sequential_trainer,
            mapped=self.mapped,
            initial=self.initial,
            device=self.device,
        )
        self.passes = Passes(self.model, self.examples, self.y, objective)

    def _check_stacked(self) -> None:
        """Refuse what the stacked engine cannot take."""
        others = "'auto', 'vmapped' or 'sequential'"
        if self.layers is None and self.objective is not None and not self.objective.is_cross_entropy:
            raise bad("engine", f"{others} for a loss other than cross-entropy", self.engine)
        if self.layers is None:
            raise bad("engine", f"{others} for a model that is no chain of linear layers", self.engine)
        if self.precision != "float32":
            raise bad("engine", f"{others} for precision = {self.precision!r}", self.engine)

    def _architecture(self) -> Hashable:
        """Return what models that compute the same function of parameters and examples have in common."""
        if self.is_stacked:
            return tuple(repr(layer) for layer in self.layers or ())
        modules = [(name, type(module), _fixed_facts(module)) for name, module in self.model.named_modules()]
        return (tuple(modules), self.layout)

    def _targets_on_device(self, y: npt.ArrayLike) -> Tensor:
        """Put labels on the device as int64; real targets of another task as float32."""
        is_real = self.objective is not None and np.asarray(y).dtype.kind == "f"
        return vector.tensor(y, np.float32 if is_real else np.int64, self.device)

    def _on_device(self, x: npt.ArrayLike | Inputs) -> AnyExamples:
        """Put examples on the device in the type that the model takes."""
        if isinstance(x, Inputs):
            parts = {name: self._array_on_device(array) for name, array in x.arrays.items()}
            return SeveralExamples(parts, by_name=x.by_name)
        return self._array_on_device(x)

    def _array_on_device(self, x: npt.ArrayLike) -> Examples:
        dtype = np.asarray(x).dtype
        scale = None
        if self.white and dtype == np.uint8:
            scale = 1 / self.white
        keeps_type = scale is not None or (self.whole and dtype == np.int64)
        data = vector.tensor(x, dtype.type if keeps_type else np.float32, self.device)
        if self.is_stacked:
            data = data.flatten(1)
        return Examples(data, channels_last=self.channels_last, scale=scale)

    def over(self, x: npt.ArrayLike | Inputs, y: npt.ArrayLike) -> Passes:
        """Return passes of the same model over other examples, such as the test set."""
        return Passes(self.model, self._on_device(x), self._targets_on_device(y), self.objective)

    @property
    def task_rule(self) -> TaskRule | None:
        """Loss and metric as the study says them; None for cross-entropy and accuracy."""
        return None if self.objective is None else self.objective.rule

    @property
    def has_dropout(self) -> bool:
        """Whether the model has dropout."""
        return bool(self._sequential_trainer.dropout_layers)

    # -- what a model costs -----------------------------------------------------------------------------------------

    @property
    def has_convolutions(self) -> bool:
        """Whether the model's forward pass contains convolutions."""
        return self.engine_choice.work.has_convolutions

    @property
    def multiplications(self) -> int:
        """Multiplications of an example's forward pass, which say how many cohorts of several runs share a stack."""
        if self.is_stacked:
            return self.layout.size
        return max(self.engine_choice.work.multiplications, self.layout.size)

    @property
    def clients_per_stack(self) -> int:
        """How many clients one stack holds at most."""
        return max(1, STACK_BYTES // (4 * self.layout.size))

    def train(self, params: Vector, members: Sequence[Ids], ids: Ids, **options: Unpack[CohortOptions]) -> Trained:
        """Train clients ``ids`` (k,), each on its examples ``members[i]``, from ``params`` (P,).

        A client's result depends on (seed, purpose, t, client), its data and, where the rule keeps it, on what its
        optimiser remembers, not on who trains beside it; the number of clients decides about last bits at most.
        """
        return self.finish(self.cohort(params, members, ids, **options))

    def cohort(self, params: Vector, members: Sequence[Ids], ids: Ids, **options: Unpack[CohortOptions]) -> DrawnCohort:
        """Draw everything random that :meth:`train` needs, without training."""
        k = len(ids)
        seed = options["seed"]
        t = options["t"]
        rule = options.get("rule", self.rule)
        purpose = options.get("purpose", "train")
        version = options.get("version")
        engine = self.engine_choice.engine_for(rule, k)
        plans = batch_plans(members, ids, rule, seed, t, purpose)
        dropout_sources = None
        if self.has_dropout:
            dropout_sources = [dropout.source(seed, purpose, t, int(client)) for client in ids]
        layer_seeds: list[int] = []
        if engine == "sequential":
            layer_seeds = [_layer_seed(seed, purpose, t, int(client)) for client in ids]
        trained = Trained(
            deltas=empty_rows(k, self.layout.size, self.device),
            losses=np.empty(k, np.float32),
            steps=np.array([plan.steps for plan in plans], np.int64),
            examples=np.array([plan.examples for plan in plans], np.int64),
            dispersion=np.empty(k, np.float32) if options.get("dispersion") else None,
            rms_losses=np.empty((k, len(PARTS)), np.float32) if options.get("rms_losses") else None,
            states=self._states_before(rule, k, options.get("states")),
        )
        return DrawnCohort(
            learner=self,
            engine=engine,
            start=to_device(params, self.device),
            plans=plans,
            rule=rule,
            lr=rule.lr_at(t if version is None else version),
            dropout_sources=dropout_sources,
            layer_seeds=layer_seeds,
            batches_per_epoch=[rule.per_epoch(len(client_examples)) for client_examples in members],
            trained=trained,
        )

    def _states_before(self, rule: LocalRule, k: int, states: Vector | None) -> Vector | None:
        """Return what the optimiser remembers of k clients (k, S) before they train, as a copy to be overwritten."""
        if not rule.keep_state:
            return None
        if states is not None:
            return np.array(states, np.float32)
        return np.zeros((k, optimiser.state_size(rule, self.layout.weights)), np.float32)

    def finish(self, cohort: DrawnCohort) -> Trained:
        """Train a cohort by itself."""
        cohort.store(self._results(cohort))
        return cohort.trained

    def _results(self, cohort: DrawnCohort) -> Iterator[tuple[list[int], StackResult]]:
        """Train a cohort and yield what its clients got, on the device, some clients at a time."""
        if cohort.engine == "sequential":
            yield from self._train_sequentially(cohort)
            return
        plans = cohort.plans
        ranked = sorted(range(len(plans)), key=lambda i: -plans[i].steps)  # clients of like work share a stack
        for start in range(0, len(ranked), self.clients_per_stack):
            clients = ranked[start : start + self.clients_per_stack]
            sources = None
            if cohort.dropout_sources:
                sources = [cohort.dropout_sources[i] for i in clients]
            result = self.train_stack(
                cohort,
                starts=cohort.start.expand(len(clients), -1),
                plans=[plans[i] for i in clients],
                sources=sources,
                states=cohort.states_of(clients),
            )
            yield clients, result

    def train_stack(
        self,
        cohort: DrawnCohort,
        *,
        starts: Tensor,
        plans: Sequence[BatchPlan],
        sources: Sequence[np.random.BitGenerator] | None,
        states: Tensor | None,
    ) -> StackResult:
        """Train clients in one stack, of a cohort or of several that have rule and engine in common with it.

        Args:
            cohort: from which rule, engine and what is measured are taken.
            starts: (k, P) where each client begins.
            plans: one per client, those with most steps first.
            sources: of dropout words, one per client; None without dropout.
            states: what the optimiser remembers of the clients (k, S); None where it starts anew.
        """
        job = StackJob(
            initial=self.layout.split(starts),
            trainable=self.layout.trainable,
            examples=self.examples,
            labels=self.y,
            plans=plans,
            rule=cohort.rule,
            lr=cohort.lr,
            sources=sources,
            dispersion=cohort.measures_dispersion,
            squares=cohort.measures_squares,
            states=states,
        )
        if cohort.engine == "vmapped":
            return vmapped.train_mapped_stack(self.mapped, job)
        return stacked.train_stack(self.layers or [], job)

    def _train_sequentially(self, cohort: DrawnCohort) -> Iterator[tuple[list[int], StackResult]]:
        forked_devices = []
        if self.device.type == "cuda":
            forked_devices.append(self.device)
        for i, plan in enumerate(cohort.plans):
            states = cohort.states_of([i])
            squares = None
            if cohort.measures_squares:
                squares = torch.zeros(1, plan.steps, device=self.device)
            dropout_source = None
            if cohort.dropout_sources:
                dropout_source = cohort.dropout_sources[i]
            with torch.random.fork_rng(devices=forked_devices):
                torch.manual_seed(cohort.layer_seeds[i])  # random layers other than dropout know torch's generator only
                final, loss, dispersion = self._sequential_trainer.train(
                    cohort.start,
                    plan,
                    rule=cohort.rule,
                    lr=cohort.lr,
                    dropout_source=dropout_source,
                    dispersion=cohort.measures_dispersion,
                    squares=None if squares is None else squares[0],
                    state=None if states is None else states[0],
                )
            result = StackResult(
                updates=(final - cohort.start)[None],
                losses=(loss / max(plan.steps, 1))[None],
                dispersion=dispersion[None],
                squares=squares,
                states=states,
            )
            yield [i], result


def _fixed_facts(module: nn.Module) -> Hashable:
    """Return what a module computes with beside the tensors of the model's vector: its attributes and counters."""
    attributes = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    counters = {name: buffer for name, buffer in module._buffers.items() if not _is_exchanged(buffer)}
    return tuple((name, _fingerprint(value)) for name, value in sorted((attributes | counters).items()))


def _is_exchanged(buffer: Tensor | None) -> bool:
    return buffer is not None and buffer.is_floating_point()


def _fingerprint(value: object) -> Hashable:
    """Return a value that is the same for equal tensors and for other things that are written alike."""
    if isinstance(value, Tensor) and value.device.type != "meta":
        return to_host(value.detach()).tobytes()
    return repr(value)


def rms_by_part(squares: Vector, counts: npt.NDArray[np.int64], per_epoch: int) -> Vector:
    """Return the root mean square of the losses of examples in the three ``PARTS`` of a training.

    Args:
        squares: (steps,) mean squared losses of each batch.
        counts: (steps,) examples of each batch.
        per_epoch: batches of an epoch.
    """
    sums = squares.astype(np.float64) * counts
    parts = (slice(None), slice(0, per_epoch), slice(len(counts) - 1, None))
    mean_squares = [sums[part].sum() / max(int(counts[part].sum()), 1) for part in parts]
    return np.sqrt(mean_squares).astype(np.float32)


def _layer_seed(seed: int, purpose: str, t: int, client: int) -> int:
    return int(seed_sequence(seed, f"{purpose}-layers", t, client).generate_state(1)[0])


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise bad("device", f"one of {', '.join(_devices())}", name, _torch_build()) from error
    return device


def _devices() -> list[str]:
    """List the devices that torch can use on this machine."""
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def _torch_build() -> str:
    """Say which torch this is, and whether it could use a GPU."""
    if torch.version.cuda is None:
        return f"This is torch {torch.__version__}, built without CUDA: install a build for your GPU."
    return f"This is torch {torch.__version__}, built for CUDA {torch.version.cuda}."
