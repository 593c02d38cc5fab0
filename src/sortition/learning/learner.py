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
from sortition.learning.batches import BatchPlan, draw_batch_plans
from sortition.learning.client_stack import StackJob, StackResult, clients_per_stack
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


@dataclass(frozen=True, slots=True)
class CohortTrainingResult:
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
    """Further arguments of a cohort's training, beside the model and the clients.

    Attributes:
        seed: the seed of the run.
        t: the round.
        purpose: separates the randomness of one training from another's; default ``train``.
        dispersion: whether to measure the spread of the stochastic gradients.
        rms_losses: whether to measure the root mean squares of losses.
        rule: the local rule; default: the learner's.
        states: (k, S) what the clients' optimisers remember, where the rule keeps it; default: nothing yet.
        version: the version of the model, which decides the learning rate; default: the round.
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
        trained: the arrays of the results, which the training fills.
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
    trained: CohortTrainingResult

    @property
    def measures_dispersion(self) -> bool:
        """Tell whether the spread of the stochastic gradients is measured."""
        return self.trained.dispersion is not None

    @property
    def measures_squared_losses(self) -> bool:
        """Tell whether the squares of the losses of single examples are measured."""
        return self.trained.rms_losses is not None

    def states_of(self, positions: Sequence[int]) -> Tensor | None:
        """Return what the optimiser remembers of the clients at these positions; None where it starts anew."""
        states = self.trained.states
        if states is None:
            return None
        return torch.as_tensor(states[positions], device=self.start.device)

    def store(self, results: Iterable[tuple[Sequence[int], StackResult]]) -> None:
        """Store the results of clients, which are given by their positions in the cohort, some at a time.

        Updates stay where they are; what was measured beside them comes to the host together.
        """
        measured_parts = []
        for positions, result in results:
            self._store_updates(positions, result.updates)
            measured_parts.append((positions, result.measured))
        arrays = iter(to_host_together([tensor for _, measured in measured_parts for tensor in measured.values()]))
        for positions, measured in measured_parts:
            self._store_measured(positions, {name: next(arrays) for name in measured})

    def _store_updates(self, positions: Sequence[int], updates: Tensor) -> None:
        deltas: object = self.trained.deltas
        if isinstance(deltas, ResidentArray):
            deltas.write_rows(positions, updates)
        else:
            self.trained.deltas[positions] = to_host(updates)

    def _store_measured(self, positions: Sequence[int], measured: Mapping[str, Array]) -> None:
        trained = self.trained
        trained.losses[positions] = measured["losses"]
        if trained.dispersion is not None:
            trained.dispersion[positions] = measured["dispersion"]
        if trained.states is not None:
            trained.states[positions] = measured["states"]
        if "squared_losses" in measured:
            for position, squared_losses in zip(positions, measured["squared_losses"], strict=True):
                self._store_rms_losses(position, squared_losses[: self.plans[position].steps])

    def _store_rms_losses(self, position: int, squared_losses: Vector) -> None:
        """Store a client's root mean squares, from the mean squared loss of each of its batches (steps,)."""
        if self.trained.rms_losses is not None:
            counts = self.plans[position].counts
            self.trained.rms_losses[position] = rms_by_part(squared_losses, counts, self.batches_per_epoch[position])


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
        takes_whole_numbers: whether the model takes whole numbers (int64) as they are, as an embedding does; otherwise
            it gets their values as float32.
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
        takes_whole_numbers: bool = True,
        objective: Objective | None = None,
        precision: str = "float32",
    ) -> None:
        if engine not in engines.ENGINES:
            raise unknown("engine", engine, engines.ENGINES)
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        self.device = _checked_device(device)
        self.engine = engine
        self.precision = precision
        self.rule = rule
        self.channels_last = channels_last
        self.white = white
        self.takes_whole_numbers = takes_whole_numbers
        self.initial = vector.flatten(model)
        self.layout = Layout.of(model)
        self.model = copy.deepcopy(model).to(self.device)
        self.objective = objective
        self.y = self._put_targets_on_device(y)
        self.layers = None
        is_by_label = objective is None or objective.is_by_label(self.y)
        if is_by_label and not isinstance(x, Inputs):
            self.layers = stacked.stackable_layers(self.model, prod(np.shape(x)[1:]))
        if engine == "stacked":
            self._check_stacked()
        self.is_stacked = engine in ("auto", "stacked") and self.layers is not None and precision == "float32"
        self.architecture = self._architecture()
        self.examples = self._put_examples_on_device(x)
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
        other_engines = "'auto', 'vmapped' or 'sequential'"
        if self.layers is None and self.objective is not None and not self.objective.is_cross_entropy:
            raise bad("engine", f"{other_engines} for a loss other than cross-entropy", self.engine)
        if self.layers is None:
            raise bad("engine", f"{other_engines} for a model that is no chain of linear layers", self.engine)
        if self.precision != "float32":
            raise bad("engine", f"{other_engines} for precision = {self.precision!r}", self.engine)

    def _architecture(self) -> Hashable:
        """Return what models that compute the same function of parameters and examples have in common."""
        if self.is_stacked:
            return tuple(repr(layer) for layer in self.layers or ())
        modules = [(name, type(module), _fixed_facts(module)) for name, module in self.model.named_modules()]
        return (tuple(modules), self.layout)

    def _put_targets_on_device(self, y: npt.ArrayLike) -> Tensor:
        """Put labels on the device as int64; real targets of another task as float32."""
        is_real = self.objective is not None and np.asarray(y).dtype.kind == "f"
        if is_real:
            return vector.put_on_device(y, np.float32, self.device)
        return vector.put_on_device(y, np.int64, self.device)

    def _put_examples_on_device(self, x: npt.ArrayLike | Inputs) -> AnyExamples:
        """Put examples on the device in the type that the model takes."""
        if isinstance(x, Inputs):
            parts = {name: self._put_array_on_device(array) for name, array in x.arrays.items()}
            return SeveralExamples(parts, by_name=x.by_name)
        return self._put_array_on_device(x)

    def _put_array_on_device(self, x: npt.ArrayLike) -> Examples:
        dtype = np.asarray(x).dtype
        scale = None
        if self.white and dtype == np.uint8:
            scale = 1 / self.white
        keeps_type = scale is not None or (self.takes_whole_numbers and dtype == np.int64)
        data = vector.put_on_device(x, dtype.type if keeps_type else np.float32, self.device)
        if self.is_stacked:
            data = data.flatten(1)
        return Examples(data, channels_last=self.channels_last, scale=scale)

    def passes_over(self, x: npt.ArrayLike | Inputs, y: npt.ArrayLike) -> Passes:
        """Return passes of the same model over other examples, such as the test set."""
        return Passes(self.model, self._put_examples_on_device(x), self._put_targets_on_device(y), self.objective)

    @property
    def task_rule(self) -> TaskRule | None:
        """Return loss and metric as the study says them; None for cross-entropy and accuracy."""
        if self.objective is None:
            return None
        return self.objective.rule

    @property
    def has_dropout(self) -> bool:
        """Tell whether the model has dropout."""
        return bool(self._sequential_trainer.dropout_layers)

    # -- what a model costs -----------------------------------------------------------------------------------------

    @property
    def has_convolutions(self) -> bool:
        """Tell whether the model's forward pass contains convolutions."""
        return self.engine_choice.example_cost.has_convolutions

    @property
    def multiplications(self) -> int:
        """Return the multiplications of an example's forward pass: they say how many runs' cohorts share a stack."""
        if self.is_stacked:
            return self.layout.size
        return max(self.engine_choice.example_cost.multiplications, self.layout.size)

    @property
    def clients_per_stack(self) -> int:
        """Return how many clients one stack holds at most."""
        return clients_per_stack(n_parameters=self.layout.size)

    def train(
        self, params: Vector, examples_by_client: Sequence[Ids], ids: Ids, **options: Unpack[CohortOptions]
    ) -> CohortTrainingResult:
        """Train clients ``ids`` (k,), each on its examples ``examples_by_client[i]``, from ``params`` (P,).

        A client's result depends on (seed, purpose, t, client), its data and, where the rule keeps it, on what its
        optimiser remembers, not on who trains beside it; the number of clients decides about last bits at most.
        """
        return self.train_cohort(self.draw_cohort(params, examples_by_client, ids, **options))

    def draw_cohort(
        self, params: Vector, examples_by_client: Sequence[Ids], ids: Ids, **options: Unpack[CohortOptions]
    ) -> DrawnCohort:
        """Draw everything random that :meth:`train` needs, without training."""
        k = len(ids)
        seed = options["seed"]
        t = options["t"]
        rule = options.get("rule", self.rule)
        purpose = options.get("purpose", "train")
        version = options.get("version")
        if version is None:
            version = t
        engine = self.engine_choice.engine_for(rule, k)
        plans = draw_batch_plans(examples_by_client, ids, rule, seed=seed, t=t, purpose=purpose)
        dropout_sources = None
        if self.has_dropout:
            dropout_sources = [dropout.word_source(seed, purpose, t, int(client)) for client in ids]
        layer_seeds: list[int] = []
        if engine == "sequential":
            layer_seeds = [_layer_seed(seed, purpose, t, int(client)) for client in ids]
        trained = CohortTrainingResult(
            deltas=empty_rows(k, self.layout.size, self.device),
            losses=np.empty(k, np.float32),
            steps=np.array([plan.steps for plan in plans], np.int64),
            examples=np.array([plan.examples for plan in plans], np.int64),
            dispersion=np.empty(k, np.float32) if options.get("dispersion") else None,
            rms_losses=np.empty((k, len(PARTS)), np.float32) if options.get("rms_losses") else None,
            states=self._initial_states(rule, k, options.get("states")),
        )
        return DrawnCohort(
            learner=self,
            engine=engine,
            start=to_device(params, self.device),
            plans=plans,
            rule=rule,
            lr=rule.lr_at(version),
            dropout_sources=dropout_sources,
            layer_seeds=layer_seeds,
            batches_per_epoch=[rule.batches_per_epoch(len(client_examples)) for client_examples in examples_by_client],
            trained=trained,
        )

    def _initial_states(self, rule: LocalRule, k: int, states: Vector | None) -> Vector | None:
        """Return what the optimiser remembers of k clients (k, S) before they train, as a copy to be overwritten."""
        if not rule.keep_state:
            return None
        if states is not None:
            return np.array(states, np.float32)
        return np.zeros((k, optimiser.state_size(rule, self.layout.weights)), np.float32)

    def train_cohort(self, cohort: DrawnCohort) -> CohortTrainingResult:
        """Train a cohort by itself."""
        cohort.store(self._train_in_parts(cohort))
        return cohort.trained

    def _train_in_parts(self, cohort: DrawnCohort) -> Iterator[tuple[list[int], StackResult]]:
        """Train some clients of a cohort at a time, and yield their positions in it and their results on the device."""
        if cohort.engine == "sequential":
            yield from self._train_sequentially(cohort)
            return
        plans = cohort.plans
        positions_by_steps = sorted(
            range(len(plans)), key=lambda i: -plans[i].steps
        )  # clients of like work share a stack
        for start in range(0, len(plans), self.clients_per_stack):
            positions = positions_by_steps[start : start + self.clients_per_stack]
            dropout_sources = None
            if cohort.dropout_sources:
                dropout_sources = [cohort.dropout_sources[i] for i in positions]
            result = self.train_stack(
                cohort,
                starts=cohort.start.expand(len(positions), -1),
                plans=[plans[i] for i in positions],
                dropout_sources=dropout_sources,
                states=cohort.states_of(positions),
            )
            yield positions, result

    def train_stack(
        self,
        cohort: DrawnCohort,
        *,
        starts: Tensor,
        plans: Sequence[BatchPlan],
        dropout_sources: Sequence[np.random.BitGenerator] | None,
        states: Tensor | None,
    ) -> StackResult:
        """Train clients in one stack, of a cohort or of several that have rule and engine in common with it.

        Args:
            cohort: from which rule, engine and what is measured are taken.
            starts: (k, P) where each client begins.
            plans: one per client, those with most steps first.
            dropout_sources: of dropout words, one per client; None without dropout.
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
            dropout_sources=dropout_sources,
            measures_dispersion=cohort.measures_dispersion,
            measures_squared_losses=cohort.measures_squared_losses,
            states=states,
        )
        if cohort.engine == "vmapped":
            return vmapped.train_mapped_stack(self.mapped, job)
        return stacked.train_stack(self.layers or [], job)

    def _train_sequentially(self, cohort: DrawnCohort) -> Iterator[tuple[list[int], StackResult]]:
        """Train one client after the other, each as a stack of one."""
        forked_devices = []
        if self.device.type == "cuda":
            forked_devices.append(self.device)
        for i, plan in enumerate(cohort.plans):
            states = cohort.states_of([i])
            state = None
            if states is not None:
                state = states[0]
            squared_losses = None
            if cohort.measures_squared_losses:
                squared_losses = torch.zeros(plan.steps, device=self.device)
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
                    measures_dispersion=cohort.measures_dispersion,
                    squared_losses=squared_losses,
                    state=state,
                )
            result = StackResult(
                updates=(final - cohort.start)[None],
                losses=(loss / max(plan.steps, 1))[None],
                dispersion=dispersion[None],
                squared_losses=_stack_of_one(squared_losses),
                states=states,
            )
            yield [i], result


def _stack_of_one(tensor: Tensor | None) -> Tensor | None:
    if tensor is None:
        return None
    return tensor[None]


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


def rms_by_part(squared_losses: Vector, counts: npt.NDArray[np.int64], batches_per_epoch: int) -> Vector:
    """Return the root mean square of the losses of examples in the three ``PARTS`` of a training.

    Args:
        squared_losses: (steps,) mean squared losses of each batch.
        counts: (steps,) examples of each batch.
        batches_per_epoch: batches of an epoch.
    """
    sums = squared_losses.astype(np.float64) * counts
    parts = (slice(None), slice(0, batches_per_epoch), slice(len(counts) - 1, None))
    mean_squares = [sums[part].sum() / max(int(counts[part].sum()), 1) for part in parts]
    return np.sqrt(mean_squares).astype(np.float32)


def _layer_seed(seed: int, purpose: str, t: int, client: int) -> int:
    return int(seed_sequence(seed, f"{purpose}-layers", t, client).generate_state(1)[0])


def _checked_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise bad("device", f"one of {', '.join(_usable_devices())}", name, _torch_build()) from error
    return device


def _usable_devices() -> list[str]:
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
