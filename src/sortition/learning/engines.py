"""Which engine trains a model: a rule on the model, the device and the work of a step, never a race.

| engine     | takes                                                 | how                                      |
|------------|-------------------------------------------------------|------------------------------------------|
| stacked    | chains of linear layers under cross-entropy           | all clients at once, passes written out  |
| vmapped    | models whose rows are independent, under a named loss | all clients at once, ``torch.func.vmap`` |
| sequential | every model                                           | one client after the other               |

The limits come from ``benchmarks/engine.py --only choice``; the table stands in docs/engine.md.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sortition.core.errors import bad
from sortition.learning import dropout
from sortition.learning.batches import BatchPlan
from sortition.learning.client_stack import StackJob
from sortition.learning.examples import AnyExamples
from sortition.learning.objective import outputs_of
from sortition.learning.resident import to_device
from sortition.learning.rule import LocalRule
from sortition.learning.sequential import SequentialTrainer
from sortition.learning.vector import Vector
from sortition.learning.vmapped import MappedModel, train_mapped_stack

ENGINES = ("auto", "stacked", "vmapped", "sequential")
CONVOLUTION_WORK = 1 << 21  # multiplications of one client's step up to which convolutions are vmapped on a CPU
PRODUCT_WORK = 1 << 22  # the same of models without convolutions
MAPPED_WEIGHTS = 1 << 16  # of a model: stacks of larger ones leave the cache, in which one client's would stay
LEAST_CLIENTS = 4  # that train at once on a CPU; of fewer, mapping costs more than the calls that it saves
TOLERANCE = 1e-3  # of gradients in a trial, as a share of the largest number
TRIED_ROWS = 3  # examples of the trial's larger batch; its other client has one row less, and one of padding


@dataclass(frozen=True, slots=True)
class ExampleCost:
    """Says what a model computes for one example.

    Attributes:
        multiplications: how many a forward pass takes, in products of matrices, convolutions and attention.
        has_convolutions: whether convolutions are among them.
        weights: how many weights the model has.
    """

    multiplications: int
    has_convolutions: bool
    weights: int

    def is_small(self, rule: LocalRule) -> bool:
        """Tell whether model and step are so small that on a CPU most of a client's time is calls of PyTorch."""
        if rule.batch is None or self.weights > MAPPED_WEIGHTS:
            return False
        limit = CONVOLUTION_WORK if self.has_convolutions else PRODUCT_WORK
        return self.multiplications * rule.batch <= limit


def measure_example_cost(model: nn.Module, examples: AnyExamples, device: torch.device) -> ExampleCost:
    """Return what one example costs; 0 for a model that fails when it is called, of which the trial says why."""
    weights = sum(parameter.numel() for parameter in model.parameters())
    x = examples.take(torch.zeros(1, dtype=torch.int64, device=device))
    counter = FlopCounterMode(display=False)
    try:
        with _trial_pass(model), counter:
            outputs_of(model, x)
    except Exception:  # a user's module can raise anything
        return ExampleCost(multiplications=0, has_convolutions=False, weights=weights)
    operations = counter.get_flop_counts().get("Global", {})
    return ExampleCost(
        multiplications=counter.get_total_flops() // 2,
        has_convolutions=any("convolution" in str(operation) for operation in operations),
        weights=weights,
    )


@dataclass(eq=False)
class EngineChoice:
    """Chooses the engine that trains one model.

    Attributes:
        engine: one of ENGINES, as the study names it.
        is_stacked: whether the stacked engine takes the model.
        trainer: the sequential engine with the model and the examples.
        mapped: the same model, mapped over clients.
        initial: (P,) the parameters from which a trial begins.
        device: where the model trains.
    """

    engine: str
    is_stacked: bool
    trainer: SequentialTrainer
    mapped: MappedModel
    initial: Vector
    device: torch.device

    def engine_for(self, rule: LocalRule, n_clients: int | None = None) -> str:
        """Return the engine that trains by a local rule, after a trial where it is the vmapped one.

        ``n_clients`` train at once; None stands for as many as each engine needs.
        """
        if self.is_stacked:
            return "stacked"
        if self.engine == "sequential" or (self.engine == "auto" and not self._prefers_vmapped(rule, n_clients)):
            return "sequential"
        if not self.vmap_fault:
            return "vmapped"
        if self.engine == "vmapped":
            hint = f"{self.vmap_fault[:1].upper()}{self.vmap_fault[1:]}."
            raise bad("engine", "'auto' or 'sequential' for a model that cannot be vmapped", "vmapped", hint)
        return "sequential"

    def sequential_note(self, rule: LocalRule, n_clients: int | None = None) -> str:
        """Say why clients train one after the other although their steps are small; empty where nothing is to say."""
        would_vmap = self.engine == "auto" and not self.is_stacked and self._prefers_vmapped(rule, n_clients)
        if not (would_vmap and self.vmap_fault):
            return ""
        return f"Clients train one after the other, since {self.vmap_fault}."

    def _prefers_vmapped(self, rule: LocalRule, n_clients: int | None) -> bool:
        """Tell whether clients should be vmapped: always on an accelerator, and on a CPU where steps are small."""
        is_cpu = self.device.type in ("cpu", "meta")
        least_clients = LEAST_CLIENTS if is_cpu else 2
        if n_clients is not None and n_clients < least_clients:
            return False
        if not is_cpu:
            return True
        if self._fault_without_trial:
            return rule.batch is not None  # what cannot be counted is noted
        return self.example_cost.is_small(rule)

    @cached_property
    def example_cost(self) -> ExampleCost:
        """Return what one example costs."""
        return measure_example_cost(self.trainer.model, self.trainer.examples, self.device)

    @cached_property
    def vmap_fault(self) -> str:
        """Say why the model cannot be vmapped; empty where it can."""
        if self._fault_without_trial:
            return self._fault_without_trial
        self.mapped.maps_single_clients = not self.example_cost.has_convolutions
        start = to_device(self.initial, self.device)
        has_numbers = self.device.type != "meta"
        return trial_fault(self.trainer, self.mapped, start, compare=has_numbers)

    @cached_property
    def _fault_without_trial(self) -> str:
        """Say why the model or its loss cannot be vmapped, as far as that is seen without a trial."""
        objective = self.trainer.objective
        if objective is not None and not objective.is_weighable:
            if objective.is_computed_by_model:
                return "the model computes its own loss, which cannot be mapped over clients"
            return f"the loss {objective.loss_name!r} is a function, and only losses by name are mapped over clients"
        return layer_fault(self.trainer.model)


@contextmanager
def _trial_pass(model: nn.Module) -> Iterator[None]:
    """Call a model as in training, without gradients, and leave torch's random generator as it was."""
    model.train()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        yield


# ---- what cannot be vmapped


def layer_fault(model: nn.Module) -> str:
    """Say which layer of a model cannot be vmapped; empty where there is none."""
    for module in model.modules():
        name = type(module).__name__
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            return f"{name} mixes the rows of a batch"
        if isinstance(module, nn.RNNBase):
            return f"{name} is a recurrent kernel that torch cannot map over clients"
    return ""


def trial_fault(trainer: SequentialTrainer, mapped: MappedModel, start: Tensor, *, compare: bool = True) -> str:
    """Say why a model cannot be vmapped, by a step of two clients on a few examples; empty where it can.

    Both clients take a step by both engines, which must agree. One batch is smaller, so that rows which depend on one
    another are seen.

    Args:
        trainer: the sequential engine with the model and the examples.
        mapped: the same model, mapped.
        start: (P,) the parameters from which the clients begin.
        compare: whether the steps are compared; a device without numbers has none to compare.
    """
    examples = trainer.examples
    index = np.arange(TRIED_ROWS) % len(trainer.labels)
    index_on_device = torch.as_tensor(index, device=start.device)
    try:
        state_fault = _state_fault(trainer.model, examples, index_on_device)
        if state_fault:
            return state_fault
        with _trial_pass(trainer.model):
            mapped.find_masks(examples.take(index_on_device), TRIED_ROWS)
        with _without_fallback():
            if mapped.precision != "float32":
                _step_fault(trainer, mapped, start, index, compare=False)
            with _in_float32(trainer, mapped):
                return _step_fault(trainer, mapped, start, index, compare=compare)
    except Exception as error:  # a user's module can raise anything
        words = " ".join(str(error).split())
        without_rule = re.match(r"aten::(\w+) hit the vmap fallback", words)
        if without_rule:
            return f"torch cannot map {without_rule[1]} over clients"
        return f"{type(error).__name__}: {words[:160]}"


@contextmanager
def _in_float32(trainer: SequentialTrainer, mapped: MappedModel) -> Iterator[None]:
    """Let both engines compute in float32: the rounding of fewer digits would hide a difference."""
    precision = mapped.precision
    try:
        trainer.precision = mapped.precision = "float32"
        yield
    finally:
        trainer.precision = mapped.precision = precision


@contextmanager
def _without_fallback() -> Iterator[None]:
    """Refuse operations that torch maps over clients by a loop."""
    enabled = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(enabled)


def _state_fault(model: nn.Module, examples: AnyExamples, index: Tensor) -> str:
    """Say which tensor a forward pass in training changes; empty where there is none."""
    twin = copy.deepcopy(model)
    named_tensors = [*twin.named_parameters(), *twin.named_buffers()]
    versions = {name: (id(tensor), tensor._version) for name, tensor in named_tensors}
    with _trial_pass(twin):
        outputs_of(twin, examples.take(index))
    for name, tensor in [*twin.named_parameters(), *twin.named_buffers()]:
        if versions.get(name) != (id(tensor), tensor._version):
            return f"its forward pass changes {name}"
    return ""


def _step_fault(
    trainer: SequentialTrainer, mapped: MappedModel, start: Tensor, index: np.ndarray, *, compare: bool
) -> str:
    """Say how the steps of two clients differ between the engines; empty where they do not."""
    rule = LocalRule(lr=1.0, steps=1, batch=TRIED_ROWS)
    row_counts = (TRIED_ROWS, TRIED_ROWS - 1)
    plans = [BatchPlan(index[None], np.array([count])) for count in row_counts]

    def mapped_updates(clients: slice) -> Tensor:
        job = StackJob(
            initial=trainer.layout.split(start.expand(len(plans[clients]), -1)),
            trainable=trainer.layout.trainable,
            examples=trainer.examples,
            labels=trainer.labels,
            plans=plans[clients],
            rule=rule,
            lr=rule.lr,
            dropout_sources=_trial_sources()[clients],
        )
        return train_mapped_stack(mapped, job).updates

    (second_alone,) = mapped_updates(slice(1, 2))
    first_of_both, second_of_both = mapped_updates(slice(0, 2))
    expected_updates = []
    for plan, source in zip(plans, _trial_sources(), strict=True):
        local_params, _, _ = trainer.train(
            start, plan, rule=rule, lr=rule.lr, dropout_source=source, measures_dispersion=False
        )
        expected_updates.append(local_params - start)
    expected_first, expected_second = expected_updates
    engines_agree = (
        _are_close(second_alone, expected_second)
        and _are_close(first_of_both, expected_first)
        and _are_close(second_of_both, expected_second)
    )
    if compare and not engines_agree:
        return "its clients get other gradients together than alone, as where rows of a batch depend on one another"
    return ""


def _trial_sources() -> list[np.random.BitGenerator]:
    return [dropout.word_source(0, "trial", 0, client) for client in range(2)]


def _are_close(update: Tensor, expected: Tensor) -> bool:
    """Tell whether two updates are the same up to rounding, in proportion to their largest number."""
    scale = float(expected.abs().max())
    return bool((update - expected).abs().max() <= TOLERANCE * scale + 1e-7)
