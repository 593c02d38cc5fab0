"""Nothing in the engine assumes a CPU: every tensor is made where the model is. No accelerator is needed to test that.

Tensors on torch's device ``meta`` have shapes but no numbers, and mostly refuse to be mixed with others.
"""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sortition.learning import Learner, LocalRule, build, dropout, stacked, vmapped
from sortition.learning.batches import draw_batch_plans
from sortition.learning.client_stack import StackJob
from sortition.learning.evaluation import Passes
from sortition.learning.examples import Examples
from sortition.learning.sequential import SequentialTrainer
from sortition.learning.vector import Layout

META = torch.device("meta")
X = np.random.default_rng(0).normal(size=(60, 1, 12, 12)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 4, 60)
MEMBERS, IDS = [np.arange(0, 25), np.arange(25, 60)], np.array([3, 5])
RULE = LocalRule(lr=0.1, epochs=2, batch=8, momentum=0.5, weight_decay=0.1, proximal=0.5)
MODELS = {"mlp": {"hidden": (9, 6), "dropout": 0.4}, "cnn": {"preset": "small"}}


def dropout_sources():
    return [dropout.word_source(0, "train", 0, int(i)) for i in IDS]


def test_a_stacked_round_stays_on_its_device():
    plans = sorted(draw_batch_plans(MEMBERS, IDS, RULE, 0, 0), key=lambda plan: -plan.steps)
    model = build("mlp", (64,), 4, **MODELS["mlp"]).to(META)
    rows, labels = torch.empty(60, 64, device=META), torch.zeros(60, dtype=torch.int64, device=META)
    job = StackJob(
        initial=[parameter.detach().expand(2, *parameter.shape) for parameter in model.parameters()],
        trainable=Layout.of(model).trainable,
        examples=Examples(rows),
        labels=labels,
        plans=plans,
        rule=RULE,
        lr=0.1,
        dropout_sources=dropout_sources(),
        measures_dispersion=True,
        measures_squared_losses=True,
    )
    result = stacked.train_stack(stacked.stackable_layers(model), job)
    measured = [result.updates, result.losses, result.dispersion, result.squared_losses]
    steps = max(plan.steps for plan in plans)
    assert [tuple(tensor.shape) for tensor in measured] == [(2, Layout.of(model).size), (2,), (2,), (2, steps)]
    assert result.states is None
    assert {tensor.device for tensor in measured} == {META}


@pytest.mark.parametrize("name", MODELS)
def test_a_sequential_round_stays_on_its_device(name):
    plans = draw_batch_plans(MEMBERS, IDS, RULE, 0, 0)
    model = build(name, (1, 12, 12), 4, **MODELS[name]).to(META)
    labels = torch.zeros(60, dtype=torch.int64, device=META)
    trainer = SequentialTrainer(model, Examples(torch.empty(60, 1, 12, 12, device=META)), labels)
    start = torch.empty(trainer.layout.size, device=META)
    final, loss, _ = trainer.train(
        start, plans[0], rule=RULE, lr=0.1, dropout_source=dropout_sources()[0], measures_dispersion=False
    )
    assert final.shape == start.shape
    assert {final.device, loss.device} == {META}


@pytest.mark.parametrize(
    ("name", "engine"),
    [("mlp", "stacked"), ("mlp", "vmapped"), ("mlp", "sequential"), ("cnn", "vmapped"), ("cnn", "sequential")],
)
def test_no_tensor_is_made_on_the_default_device(name, engine):
    learner = Learner(build(name, (1, 12, 12), 4, **MODELS[name]), X, Y, RULE, engine=engine)

    def everything():
        trained = learner.train(learner.initial, MEMBERS, IDS, seed=1, t=2, dispersion=True)
        after = learner.initial + trained.deltas.mean(0)
        passes = learner.passes_over(X[:20], Y[:20])
        outputs = passes.outputs(after, X[:5])
        return [
            trained.deltas,
            trained.losses,
            trained.dispersion,
            *passes.losses_and_hits(after),
            outputs,
            learner.passes.gradient(after, MEMBERS[0]),
        ]

    before = everything()
    with torch.device("meta"):  # whoever forgets to name a device gets tensors without numbers
        now = everything()
    for a, b in zip(before, now, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("device", "rows"), [(META, 1024), (torch.device("cpu"), 128)])
def test_large_examples_pass_in_small_parts_on_a_cpu_alone(device, rows):
    x, y = torch.empty(3, 3, 64, 64, device=device), torch.zeros(3, dtype=torch.int64, device=device)
    passes = Passes(build("cnn", (3, 64, 64), 4, preset="small").to(device), Examples(x), y)
    assert passes._rows_per_pass == rows


# ---- a card that is not there


def stacked_round(device, rule=RULE):
    """A round of the stacked engine with everything that it can measure, on tensors of a device."""
    plans = sorted(draw_batch_plans(MEMBERS, IDS, rule, 0, 0), key=lambda plan: -plan.steps)
    model = build("mlp", (64,), 4, **MODELS["mlp"])
    initial = [torch.zeros(2, *parameter.shape, device=device) for parameter in model.parameters()]
    job = StackJob(
        initial=initial,
        trainable=len(initial),
        examples=Examples(torch.zeros(60, 64, dtype=torch.uint8, device=device), scale=1 / 255),
        labels=torch.zeros(60, dtype=torch.int64, device=device),
        plans=plans,
        rule=rule,
        lr=0.1,
        dropout_sources=dropout_sources(),
        measures_dispersion=True,
        measures_squared_losses=True,
    )
    return stacked.train_stack(stacked.stackable_layers(model), job)


@pytest.mark.parametrize("rule", [RULE, LocalRule(lr=0.1, epochs=1, batch=8, optimizer="adam")])
def test_a_stacked_round_mixes_no_devices_on_a_card(rule):
    with FakeTensorMode(allow_non_fake_inputs=True):
        result = stacked_round(torch.device("cuda:0"), rule)
    measured = [result.updates, result.losses, result.dispersion, result.squared_losses]
    assert {str(tensor.device) for tensor in measured} == {"cuda:0"}


def test_fake_tensors_catch_what_the_tests_above_are_for():
    with FakeTensorMode(allow_non_fake_inputs=True):
        on_card = torch.zeros(3, device="cuda:0")
        with pytest.raises(Exception, match="cuda"):
            on_card + torch.zeros(3)
        with pytest.raises((RuntimeError, TypeError)):
            on_card.numpy()


def mapped_round(name, device, batch_rule=RULE):
    """A round of the vmapped engine on tensors of a device."""
    plans = sorted(draw_batch_plans(MEMBERS, IDS, batch_rule, 0, 0), key=lambda plan: -plan.steps)
    model = build(name, (1, 12, 12), 4, **MODELS[name]).to(device)
    layers = dropout.replace_dropouts(model)
    layout = Layout.of(model)
    mapped = vmapped.MappedModel(model, layers)
    examples = Examples(torch.zeros(60, 1, 12, 12, device=device))
    model.train()
    mapped.find_masks(examples.take(torch.arange(3, device=device)), 3)
    job = StackJob(
        initial=layout.split(torch.zeros(2, layout.size, device=device)),
        trainable=layout.trainable,
        examples=examples,
        labels=torch.zeros(60, dtype=torch.int64, device=device),
        plans=plans,
        rule=batch_rule,
        lr=0.1,
        dropout_sources=dropout_sources() if layers else None,
        measures_dispersion=True,
        measures_squared_losses=True,
    )
    return vmapped.train_mapped_stack(mapped, job)


@pytest.mark.parametrize("name", MODELS)
def test_a_vmapped_round_stays_on_its_device(name):
    result = mapped_round(name, META)
    measured = [result.updates, result.losses, result.dispersion, result.squared_losses]
    assert {tensor.device for tensor in measured} == {META}


class Transfers(TorchDispatchMode):
    """Counts copies between devices, and numbers that Python reads."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        result = function(*args, **(kwargs or {}))
        reads_a_number = "_local_scalar_dense" in name or "item" in name
        copies = "_to_copy" in name and args[0].device != result.device
        copies_into = "copy_" in name and isinstance(args[1], torch.Tensor) and args[0].device != args[1].device
        self.count += reads_a_number or copies or copies_into
        return result


@pytest.mark.parametrize("name", MODELS)
def test_a_vmapped_step_reads_nothing_back(name, monkeypatch):
    steps = []
    take_step = vmapped.MappedStack.take_step

    def counted(stack, *args, **options):
        with Transfers() as transfers:
            outcome = take_step(stack, *args, **options)
        steps.append(transfers.count)
        return outcome

    monkeypatch.setattr(vmapped.MappedStack, "take_step", counted)
    mapped_round(name, META, LocalRule(lr=0.1, epochs=2, batch=8, optimizer="adam"))
    assert steps
    assert not any(steps)


def test_a_stacked_step_reads_nothing_back(monkeypatch):
    steps = []
    take_step = stacked.Stack.take_step

    def counted(stack, *args):
        with Transfers() as transfers:
            take_step(stack, *args)
        steps.append(transfers.count)

    monkeypatch.setattr(stacked.Stack, "take_step", counted)
    stacked_round(META, LocalRule(lr=0.1, epochs=2, batch=8, optimizer="adam"))
    assert steps
    assert not any(steps)


def test_a_sequential_training_reads_nothing_back():
    plan = draw_batch_plans(MEMBERS, IDS, RULE, 0, 0)[0]
    model = build("cnn", (1, 12, 12), 4, **MODELS["cnn"])
    examples = Examples(torch.zeros(60, 1, 12, 12))
    trainer = SequentialTrainer(model, examples, torch.zeros(60, dtype=torch.int64))
    start = torch.zeros(trainer.layout.size)
    with Transfers() as transfers:
        trainer.train(start, plan, rule=RULE, lr=0.1, dropout_source=None, measures_dispersion=True)
    assert transfers.count == 0


def test_transfers_are_counted():
    with Transfers() as transfers:
        torch.zeros(3).to("meta")
        float(torch.ones(1))
    assert transfers.count == 2
