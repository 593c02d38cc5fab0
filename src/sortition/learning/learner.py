"""One model on one data set: trains cohorts, measures losses, takes gradients. Vectors (P,) in, vectors out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sortition.core.arrays import Array
from sortition.core.errors import bad, unknown
from sortition.core.streams import sequence
from sortition.learning import dropout, optimiser, stacked, vector
from sortition.learning.batches import BatchPlan, batch_plans
from sortition.learning.evaluation import Passes
from sortition.learning.examples import Examples
from sortition.learning.rule import LocalRule
from sortition.learning.sequential import SequentialTrainer
from sortition.learning.vector import Layout, Vector

ENGINES = ("auto", "stacked", "sequential")
PARTS = ("all", "first", "last")  # of a training: all mini-batches, those of the first epoch, the last one
STACK_BYTES = 64 << 20  # parameters of one stack; a larger cohort trains in several


@dataclass(frozen=True, slots=True)
class Trained:
    """What a cohort's local training left: one row per client."""

    deltas: Vector  # (k, P)
    losses: npt.NDArray[np.float32]  # (k,) mean batch loss along the path
    steps: npt.NDArray[np.int64]  # (k,)
    examples: npt.NDArray[np.int64]  # (k,) forward-backward passes of single examples
    dispersion: npt.NDArray[np.float32] | None = None  # (k,)
    rms_losses: npt.NDArray[np.float32] | None = None  # (k, 3) of all batches, of the first epoch's, of the last one
    states: Vector | None = None  # (k, S) what the optimiser remembers, where the rule keeps it


@dataclass(frozen=True, slots=True)
class How:
    """The rule of one round; per client: dropout words, a seed for other random layers, batches an epoch."""

    rule: LocalRule
    lr: float
    sources: Sequence[np.random.BitGenerator] | None
    seeds: Sequence[int]
    per_epoch: Sequence[int]


@dataclass(frozen=True, slots=True)
class DrawnCohort:
    """A cohort whose training is drawn and not yet done: from ``start`` (P,) by one plan per client."""

    learner: Learner
    start: Tensor
    work: Sequence[BatchPlan]
    how: How
    trained: Trained  # filled by the training

    @property
    def tracked(self) -> tuple[bool, bool]:
        """Whether the spread of gradients and the squares of losses are measured."""
        return self.trained.dispersion is not None, self.trained.rms_losses is not None

    def states_of(self, rows: Sequence[int]) -> Tensor | None:
        """What the optimiser remembers of some clients before they train; None where it starts anew."""
        before = self.trained.states
        return None if before is None else torch.from_numpy(before[rows]).to(self.start.device)

    def fill(self, rows: Sequence[int], deltas: Array, *found: Array | None) -> None:
        """Store what the training of some clients left: updates, losses, dispersions, squares of losses by step."""
        losses, dispersion, squares, states = found
        self.trained.deltas[rows], self.trained.losses[rows] = deltas, losses
        if self.trained.dispersion is not None:
            self.trained.dispersion[rows] = dispersion
        if self.trained.states is not None:
            self.trained.states[rows] = states
        if self.trained.rms_losses is not None and squares is not None:
            for i, row in zip(rows, squares, strict=True):
                plan = self.work[i]
                self.trained.rms_losses[i] = rms_by_part(row[: plan.steps], plan.counts, self.how.per_epoch[i])


class Learner:
    """A model, the examples, and how to train on them.

    Args:
        model: any module whose output is logits (B, classes).
        x: (n, …) examples; ``y`` (n,) labels.
        rule: the local rule.
        device: any name that torch knows.
        engine: ``auto`` stacks what can be stacked; ``stacked`` and ``sequential`` force.
        channels_last: keep images in the order that convolutions are fastest in; a module that takes ``x.view(…)`` of
            them needs False.
        white: the value that stands for 1 in examples of bytes, which are kept so and scaled when they are used.
        whole: whether the model takes whole numbers (int64) as they are, as an embedding does; otherwise it gets
            their values as float32.
    """

    def __init__(
        self,
        model: nn.Module,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        rule: LocalRule,
        *,
        device: str = "cpu",
        engine: str = "auto",
        channels_last: bool = True,
        white: int = 0,
        whole: bool = True,
    ) -> None:
        self.device, self.rule, self.channels_last, self.white = _device(device), rule, channels_last, white
        self.whole = whole
        self.initial = vector.flatten(model)
        self.layout = Layout.of(model)
        self.model = copy.deepcopy(model).to(self.device)
        self.layers = stacked.layers_of(self.model, prod(np.shape(x)[1:]))
        if engine not in ENGINES:
            raise unknown("engine", engine, ENGINES)
        if engine == "stacked" and self.layers is None:
            raise bad("engine", "'auto' or 'sequential' for a model that is no chain of linear layers", engine)
        self.stacks = engine != "sequential" and self.layers is not None
        self.architecture = tuple(repr(layer) for layer in self.layers or ())
        self.y = vector.tensor(y, np.int64, self.device)
        self.examples = self._held(x)
        self._sequential_trainer = SequentialTrainer(self.model, self.examples, self.y)
        self.passes = Passes(self.model, self.examples, self.y)

    def _held(self, x: npt.ArrayLike) -> Examples:
        given = np.asarray(x).dtype
        scale = 1 / self.white if self.white and given == np.uint8 else None
        stay = scale is not None or (self.whole and given == np.int64)
        data = vector.tensor(x, given.type if stay else np.float32, self.device)
        return Examples(data.flatten(1) if self.stacks else data, channels_last=self.channels_last, scale=scale)

    def over(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Passes:
        """Passes of the same model over other examples, such as the test set."""
        return Passes(self.model, self._held(x), vector.tensor(y, np.int64, self.device))

    @property
    def drops(self) -> bool:
        """Whether the model has dropout."""
        return bool(self._sequential_trainer.drops)

    def train(
        self,
        params: Vector,
        members: Sequence[npt.NDArray[np.int64]],
        ids: npt.NDArray[np.int64],
        *,
        seed: int,
        t: int,
        purpose: str = "train",
        dispersion: bool = False,
        rms_losses: bool = False,
        rule: LocalRule | None = None,
        states: Vector | None = None,
    ) -> Trained:
        """Train clients ``ids`` (k,), each on its examples ``members[i]``, from ``params`` (P,).

        A client's result depends on (seed, purpose, t, client), its data and, where the rule keeps it, on what its
        optimiser remembers (``states``, (k, S); default: nothing yet), not on who trains beside it.
        """
        return self.finish(
            self.cohort(
                params,
                members,
                ids,
                seed=seed,
                t=t,
                purpose=purpose,
                dispersion=dispersion,
                rms_losses=rms_losses,
                rule=rule or self.rule,
                states=states,
            )
        )

    def cohort(
        self,
        params: Vector,
        members: Sequence[npt.NDArray[np.int64]],
        ids: npt.NDArray[np.int64],
        *,
        seed: int,
        t: int,
        purpose: str,
        dispersion: bool,
        rms_losses: bool,
        rule: LocalRule,
        states: Vector | None = None,
        version: int | None = None,
    ) -> DrawnCohort:
        """What :meth:`train` is about to do, with everything random drawn; the learning rate is the version's."""
        work, k = batch_plans(members, ids, rule, seed, t, purpose), len(ids)
        sources = [dropout.source(seed, purpose, t, int(i)) for i in ids] if self.drops else None
        seeds = [] if self.stacks else [_seed(seed, purpose, t, int(i)) for i in ids]
        out = Trained(
            np.empty((k, self.layout.size), np.float32),
            np.empty(k, np.float32),
            np.array([p.steps for p in work], np.int64),
            np.array([p.examples for p in work], np.int64),
            np.empty(k, np.float32) if dispersion else None,
            np.empty((k, 3), np.float32) if rms_losses else None,
            self._remembered(rule, k, states),
        )
        rate = rule.lr_at(t if version is None else version)
        how = How(rule, rate, sources, seeds, [rule.per_epoch(len(own)) for own in members])
        return DrawnCohort(self, torch.tensor(params, device=self.device), work, how, out)

    def _remembered(self, rule: LocalRule, k: int, states: Vector | None) -> Vector | None:
        """(k, S) what the optimiser remembers of k clients before they train; the training overwrites it."""
        if not rule.keep_state:
            return None
        size = optimiser.state_size(rule, self.layout.weights)
        return np.zeros((k, size), np.float32) if states is None else np.array(states, np.float32)

    def finish(self, cohort: DrawnCohort) -> Trained:
        """Train a cohort by itself."""
        (self._stacked if self.stacks else self._sequential)(cohort)
        return cohort.trained

    @property
    def most(self) -> int:
        """How many clients one stack holds."""
        return max(1, STACK_BYTES // (4 * self.layout.size))

    def _stacked(self, cohort: DrawnCohort) -> None:
        work, how = cohort.work, cohort.how
        order = sorted(range(len(work)), key=lambda i: -work[i].steps)  # clients of like work share a stack
        for at in range(0, len(order), self.most):
            part = order[at : at + self.most]
            updates, *found = stacked.train_stack(
                self.layers or [],
                self.layout.split(cohort.start.expand(len(part), -1)),
                self.examples,
                self.y,
                [work[i] for i in part],
                how.rule,
                how.lr,
                [how.sources[i] for i in part] if how.sources else None,
                *cohort.tracked,
                cohort.states_of(part),
            )
            cohort.fill(part, updates.cpu().numpy(), *(_array(one) for one in found))

    def _sequential(self, cohort: DrawnCohort) -> None:
        start, how, out = cohort.start, cohort.how, cohort.trained
        for i, plan in enumerate(cohort.work):
            bits = how.sources[i] if how.sources else None
            squares = torch.zeros(plan.steps, device=self.device) if out.rms_losses is not None else None
            kept = cohort.states_of([i])
            state = None if kept is None else kept[0]
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
                torch.manual_seed(how.seeds[i])  # random layers other than nn.Dropout know only torch's own generator
                final, loss, spread = self._sequential_trainer.train(
                    start, plan, how.rule, how.lr, bits, out.dispersion is not None, squares, state
                )
            out.deltas[i], out.losses[i] = (final - start).cpu().numpy(), float(loss) / max(plan.steps, 1)
            if out.states is not None:
                out.states[i] = state
            if out.dispersion is not None:
                out.dispersion[i] = spread
            if out.rms_losses is not None and squares is not None:
                out.rms_losses[i] = rms_by_part(squares.cpu().numpy(), plan.counts, how.per_epoch[i])


def rms_by_part(squares: Vector, counts: npt.NDArray[np.int64], per_epoch: int) -> Vector:
    """Root mean square of the losses of examples (3,): of all batches, of those of the first epoch, of the last one.

    ``squares`` (steps,) are the means of each batch, ``counts`` (steps,) how many examples it has.
    """
    sums = squares.astype(np.float64) * counts
    parts = (slice(None), slice(0, per_epoch), slice(len(counts) - 1, None))
    return np.sqrt([sums[part].sum() / max(int(counts[part].sum()), 1) for part in parts]).astype(np.float32)


def _array(found: Tensor | None) -> Array | None:
    return None if found is None else found.cpu().numpy()


def _seed(seed: int, purpose: str, t: int, client: int) -> int:
    return int(sequence(seed, f"{purpose}-layers", t, client).generate_state(1)[0])


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise bad("device", f"one of {', '.join(_devices())}", name, _this_torch()) from error
    return device


def _devices() -> list[str]:
    """The devices that torch can use on this machine."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *gpus, *apple]


def _this_torch() -> str:
    """Which torch this is, and whether it could use a GPU."""
    if torch.version.cuda is None:
        return f"This is torch {torch.__version__}, built without CUDA: install a build for your GPU."
    return f"This is torch {torch.__version__}, built for CUDA {torch.version.cuda}."
