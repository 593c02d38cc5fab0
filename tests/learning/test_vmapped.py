"""Mapped over clients, any model trains as client by client; what cannot be mapped is found before anything trains."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from sortition.core.errors import InputError
from sortition.core.inputs import Inputs
from sortition.learning import Learner, LocalRule, build, engines
from sortition.learning.fitting import learner_for
from sortition.learning.objective import Objective
from sortition.learning.task import TaskRule
from sortition.learning.together import train_together

CLASSES = 4
RNG = np.random.default_rng(0)
N = 90
Y = RNG.integers(0, CLASSES, N)
IMAGES = RNG.normal(size=(N, 2, 8, 8)).astype(np.float32)
TOKENS = RNG.integers(0, 11, (N, 6))
NUMBERS = RNG.normal(size=(N, 12)).astype(np.float32)
SIZES = (23, 7, 1, 16, 30)  # ragged batches, and a client of one example
ENDS = np.cumsum(SIZES)
MEMBERS = [np.arange(end - size, end) for size, end in zip(SIZES, ENDS, strict=True)]
IDS = np.array([3, 5, 8, 9, 20])


def convolutions(*norms):
    first, second = norms or (nn.Identity(), nn.Identity())
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), first, nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding=1), second, nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, CLASSES),
    )  # fmt: skip


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 5)
        self.head = nn.Linear(5, CLASSES)
        self.register_buffer("scale", torch.tensor(2.0))  # floating, so it travels

    def forward(self, x):
        return self.head(self.table(x).mean(1) * self.scale)


class Attention(nn.Module):
    """Tokens attend to one another; dropout acts on (rows, tokens, width)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.positions = nn.Parameter(0.1 * torch.randn(6, 8))
        self.norm = nn.LayerNorm(8)
        self.mixed = nn.Linear(8, 24, bias=False)  # a bias of keys has gradient 0, of which Adam would make noise
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.table(x) + self.positions
        q, k, v = self.mixed(self.norm(h)).chunk(3, dim=-1)
        h = h + self.drop(nn.functional.scaled_dot_product_attention(q, k, v))
        return self.head(self.drop(self.norm(h)).mean(1))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Conv2d(2, 3, 3)
        self.numbers = nn.Linear(12, 108)
        self.head = nn.Linear(108, CLASSES)

    def forward(self, image, numbers):
        return self.head(torch.tanh(self.image(image).flatten(1) + self.numbers(numbers)))


def resnet():
    return build("resnet", (2, 8, 8), CLASSES, width=8)


MODELS = {
    "cnn": (convolutions, IMAGES),
    "group norm": (lambda: convolutions(nn.GroupNorm(2, 4), nn.GroupNorm(2, 8)), IMAGES),
    "embedding": (Embedded, TOKENS),
    "attention": (Attention, TOKENS),
    "residual net": (resnet, IMAGES),
    "two inputs": (TwoInputs, Inputs.of((IMAGES, NUMBERS), np.asarray)),
    "mlp": (lambda: build("mlp", (12,), CLASSES, hidden=(9,), dropout=0.5), NUMBERS),
}
RULES = {
    "plain": LocalRule(lr=0.05, epochs=2, batch=8),
    "momentum, decay, FedProx": LocalRule(lr=0.05, steps=5, batch=6, momentum=0.9, weight_decay=0.1, proximal=0.5),
    "whole data sets": LocalRule(lr=0.05, steps=3, batch=None),
    "adam": LocalRule(lr=0.001, epochs=1, batch=8, optimizer="adam", keep_state=True),
}


def model_and_data(name):
    make, x = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return make(), x


def learner_of(name, rule, engine):
    model, x = model_and_data(name)
    return Learner(model, x, Y, rule, engine=engine)


def trained_by(learner, ids=IDS, members=MEMBERS):
    return learner.train(learner.initial, members, ids, seed=1, t=2, dispersion=True, rms_losses=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rule", RULES)
def test_a_round_is_that_of_the_sequential_engine(name, rule):
    mapped = trained_by(learner_of(name, RULES[rule], "vmapped"))
    alone = trained_by(learner_of(name, RULES[rule], "sequential"))
    for field in ("deltas", "losses", "rms_losses"):
        np.testing.assert_allclose(getattr(mapped, field), getattr(alone, field), atol=1e-5, err_msg=field)
    np.testing.assert_allclose(mapped.dispersion, alone.dispersion, atol=1e-4)
    np.testing.assert_array_equal(mapped.steps, alone.steps)
    assert learner_of(name, RULES[rule], "vmapped").engine_choice.engine_for(RULES[rule]) == "vmapped"
    if RULES[rule].keep_state:
        np.testing.assert_allclose(mapped.states, alone.states, atol=1e-5)
    assert np.abs(mapped.deltas).max() > 1e-3


@pytest.mark.parametrize("name", ["attention", "embedding", "mlp"])
def test_bits_do_not_depend_on_who_else_trains(name):
    learner = learner_of(name, RULES["plain"], "vmapped")
    together = trained_by(learner)
    alone = trained_by(learner, IDS[3:4], MEMBERS[3:4])
    pair = trained_by(learner, IDS[[3, 1]], [MEMBERS[3], MEMBERS[1]])
    for fewer in (alone, pair):
        np.testing.assert_array_equal(fewer.deltas[0], together.deltas[3])
        assert fewer.losses[0] == together.losses[3]
        assert fewer.dispersion[0] == together.dispersion[3]


@pytest.mark.parametrize("name", ["attention", "embedding", "cnn"])
def test_cohorts_of_several_runs_share_a_stack_with_the_bits_of_each_alone(name, monkeypatch):
    rule = RULES["plain"]
    drawn = []
    for run in range(4):
        model, x = model_and_data(name)
        learner = Learner(model, x, Y, rule, engine="vmapped")
        ids = np.arange(run + 1)
        members = [np.random.default_rng([run, i]).choice(N, 20, replace=False) for i in ids]
        keys = {"seed": run, "t": 1, "purpose": "train", "dispersion": True, "rms_losses": False, "rule": rule}
        drawn.append((learner.draw_cohort(learner.initial, members, ids, **keys), learner, members, ids, keys))
    stacks = []
    train_stack = Learner.train_stack
    monkeypatch.setattr(Learner, "train_stack", lambda *a, **k: stacks.append(len(k["plans"])) or train_stack(*a, **k))
    train_together([cohort for cohort, *_ in drawn])
    expected = [1, 2, 3, 4] if name == "cnn" else [1 + 2 + 3 + 4]  # the bits of convolutions depend on the stack
    assert stacks == expected
    for cohort, learner, members, ids, keys in drawn:
        alone = learner.train(learner.initial, members, ids, **keys)
        np.testing.assert_array_equal(cohort.trained.deltas, alone.deltas)
        np.testing.assert_array_equal(cohort.trained.losses, alone.losses)


class Permuting(nn.Module):
    """Holds what is neither parameter nor exchanged buffer, drawn anew for each model."""

    def __init__(self, kind):
        super().__init__()
        order = torch.randperm(12)
        if kind == "buffer":
            self.register_buffer("order", order)
        elif kind == "attribute":
            self.order = order
        else:
            self.order = order.tolist()
        self.layer = nn.Linear(12, CLASSES)

    def forward(self, x):
        return torch.tanh(self.layer(x[:, self.order]))


@pytest.mark.parametrize("kind", ["buffer", "attribute", "list"])
def test_models_that_compute_with_other_constants_train_apart(kind):
    rule = RULES["plain"]
    drawn = []
    for run in range(2):
        learner = Learner(Permuting(kind), NUMBERS, Y, rule, engine="vmapped")
        keys = {"seed": run, "t": 1, "purpose": "train", "dispersion": False, "rms_losses": False, "rule": rule}
        drawn.append((learner.draw_cohort(learner.initial, MEMBERS, IDS, **keys), learner, keys))
    train_together([cohort for cohort, _, _ in drawn])
    for cohort, learner, keys in drawn:
        alone = learner.train(learner.initial, MEMBERS, IDS, **keys)
        np.testing.assert_array_equal(cohort.trained.deltas, alone.deltas)


@pytest.mark.parametrize("loss", ["mse", "mae", "bce", "cross-entropy"])
def test_losses_by_name_are_those_of_the_sequential_engine(loss):
    rng = np.random.default_rng(3)
    targets = rng.random((N, CLASSES)).astype(np.float32)
    model = nn.Sequential(nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, CLASSES))
    x = NUMBERS
    if loss == "cross-entropy":  # of sequences, some of whose labels count for nothing
        targets = np.where(rng.random((N, 6)) < 0.3, -100, rng.integers(0, CLASSES, (N, 6)))
        model = nn.Sequential(nn.Embedding(11, 5), nn.Linear(5, CLASSES))
        x = TOKENS
    results = []
    for engine in ("vmapped", "sequential"):
        objective = Objective(TaskRule(loss=loss, metric="loss"))
        results.append(trained_by(Learner(model, x, targets, RULES["plain"], engine=engine, objective=objective)))
    mapped, alone = results
    np.testing.assert_allclose(mapped.deltas, alone.deltas, atol=1e-5)
    np.testing.assert_allclose(mapped.rms_losses, alone.rms_losses, atol=1e-5)


# ---- what cannot be mapped


class Counting(nn.Module):
    """Keeps a state that its forward pass changes in place."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) + 0 * self.calls


class Centred(nn.Module):
    """Lets the rows of a batch depend on one another."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class Branching(nn.Module):
    """Decides by a number, which has many values where clients train together."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)

    def forward(self, x):
        outputs = self.layer(x)
        return outputs if outputs.sum() > 0 else 2 * outputs


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.layer(nn.functional.dropout(x, 0.5, self.training))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, CLASSES)
        self.spare = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.layer(x)


UNMAPPABLE = {
    "batch norm": (
        lambda: convolutions(nn.BatchNorm2d(4), nn.BatchNorm2d(8)), IMAGES, "BatchNorm2d mixes the rows of a batch",
    ),
    "recurrent": (
        lambda: build("char-lstm", (6,), CLASSES, tokens=11, hidden=4), TOKENS, "LSTM is a recurrent kernel",
    ),
    "state": (Counting, NUMBERS, "forward pass changes calls"),
    "mixing": (Centred, NUMBERS, "other gradients together than alone"),
    "branching": (Branching, NUMBERS, "vmap"),
    "random": (Noisy, NUMBERS, "random"),
    "unused": (Unused, NUMBERS, "not have been used"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNMAPPABLE)
def test_what_cannot_be_mapped_trains_client_by_client_with_a_note(name):
    make, x, reason = UNMAPPABLE[name]
    rule = RULES["plain"]
    learner = Learner(make(), x, Y, rule)
    assert learner.engine_choice.engine_for(rule) == "sequential"
    assert learner.engine_choice.sequential_note(rule).startswith("Clients train one after the other, since ")
    assert reason in learner.engine_choice.sequential_note(rule)
    forced = Learner(make(), x, Y, rule, engine="vmapped")
    with pytest.raises(InputError, match="engine must be 'auto' or 'sequential' for a model that cannot be vmapped"):
        trained_by(forced)


class FusedAttention(nn.Module):
    """Attention by torch's fused kernel, which has no rule for clients side by side."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 2, batch_first=True)

    def forward(self, x):
        rows = x[:, None].expand(-1, 3, -1)
        return self.attention(rows, rows, rows, need_weights=False)[0].mean(1)


def test_a_kernel_that_torch_cannot_map_is_named_in_a_sentence():
    learner = Learner(FusedAttention(), NUMBERS, Y, RULES["plain"])
    note = learner.engine_choice.sequential_note(RULES["plain"])
    assert re.fullmatch(r"Clients train one after the other, since torch cannot map \w+ over clients\.", note)


def test_a_trial_leaves_model_and_random_numbers_as_they_were():
    make, x, _ = UNMAPPABLE["state"]
    learner = Learner(make(), x, Y, RULES["plain"])
    state = torch.get_rng_state()
    learner.engine_choice.engine_for(RULES["plain"])
    assert torch.equal(torch.get_rng_state(), state)
    sequential = Learner(make(), x, Y, RULES["plain"], engine="sequential")
    sequential.initial = learner.initial
    np.testing.assert_array_equal(trained_by(learner).deltas, trained_by(sequential).deltas)


def test_a_loss_of_ones_own_trains_client_by_client():
    objective = Objective.of_function(lambda outputs, targets: (outputs.sum(1) - targets).square().mean())
    learner = Learner(nn.Linear(12, 1), NUMBERS, Y.astype(np.float32), RULES["plain"], objective=objective)
    assert learner.engine_choice.engine_for(RULES["plain"]) == "sequential"
    assert "only losses by name are mapped over clients" in learner.engine_choice.sequential_note(RULES["plain"])


# ---- the rule


def test_the_engine_follows_from_the_work_of_a_step():
    small = LocalRule(lr=0.1, steps=1, batch=4)
    tiny = Learner(convolutions(), IMAGES, Y, small)
    assert tiny.engine_choice.engine_for(small) == "vmapped"
    assert not tiny.engine_choice.sequential_note(small)
    assert tiny.engine_choice.engine_for(LocalRule(lr=0.1, steps=1, batch=4096)) == "sequential"
    assert tiny.engine_choice.engine_for(LocalRule(lr=0.1, steps=1, batch=None)) == "sequential"
    assert [tiny.engine_choice.engine_for(small, n_clients) for n_clients in (1, 3, 4)] == [
        "sequential",
        "sequential",
        "vmapped",
    ]
    forced = Learner(convolutions(), IMAGES, Y, small, engine="vmapped")
    assert forced.engine_choice.engine_for(small, 1) == "vmapped"
    chain = Learner(build("mlp", (12,), CLASSES), NUMBERS, Y, small)
    assert (
        chain.engine_choice.engine_for(small)
        == chain.engine_choice.engine_for(LocalRule(lr=0.1, steps=1, batch=None))
        == "stacked"
    )


def test_a_wide_model_stays_client_by_client_though_its_steps_are_small():
    rule = LocalRule(lr=0.1, steps=1, batch=1)
    narrow, wide = (
        Learner(nn.Sequential(nn.Linear(12, width), nn.LayerNorm(width), nn.Linear(width, CLASSES)), NUMBERS, Y, rule)
        for width in (64, 6_400)
    )
    assert narrow.engine_choice.engine_for(rule) == "vmapped"
    assert wide.layout.weights > engines.MAPPED_WEIGHTS
    assert wide.engine_choice.engine_for(rule) == "sequential"


def test_a_cnn_on_images_of_28_x_28_stays_client_by_client():
    x = np.zeros((4, 1, 28, 28), np.float32)
    rule = LocalRule(lr=0.1, steps=1, batch=20)
    for preset in ("small", "mcmahan-mnist"):
        learner = Learner(build("cnn", (1, 28, 28), 10, preset=preset), x, np.zeros(4, np.int64), rule)
        assert learner.engine_choice.engine_for(rule) == "sequential"


def test_the_work_of_an_example_is_counted_by_hand():
    learner = Learner(convolutions(), IMAGES, Y, RULES["plain"])
    by_hand = 64 * 4 * 2 * 9 + 16 * 8 * 4 * 9 + 128 * CLASSES
    assert learner.engine_choice.example_cost.multiplications == by_hand
    assert learner.engine_choice.example_cost.has_convolutions
    assert not Learner(Attention(), TOKENS, Y, RULES["plain"]).engine_choice.example_cost.has_convolutions


def test_a_model_that_reads_views_of_images_is_mapped():
    class Viewing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(128, CLASSES)

        def forward(self, x):
            return torch.tanh(self.layer(x.view(len(x), -1)))

    learner = learner_for(Viewing(), IMAGES, Y, RULES["plain"], CLASSES)
    assert learner.engine_choice.engine_for(RULES["plain"]) == "vmapped"


# ---- bf16


@pytest.mark.parametrize("engine", ["vmapped", "sequential"])
def test_bf16_is_near_float32(engine):
    model, x = model_and_data("cnn")
    exact = trained_by(Learner(model, x, Y, RULES["plain"], engine=engine))
    rough = trained_by(Learner(model, x, Y, RULES["plain"], engine=engine, precision="bf16"))
    scale = np.abs(exact.deltas).max()
    difference = np.abs(rough.deltas - exact.deltas).max()
    assert 1e-5 * scale < difference < 0.1 * scale
    assert rough.deltas.dtype == np.float32


def test_the_stacked_engine_refuses_bf16():
    model = build("mlp", (12,), CLASSES)
    with pytest.raises(InputError, match="precision"):
        Learner(model, NUMBERS, Y, RULES["plain"], engine="stacked", precision="bf16")
    learner = Learner(model, NUMBERS, Y, RULES["plain"], precision="bf16")
    assert learner.engine_choice.engine_for(RULES["plain"]) == "vmapped"
    with pytest.raises(InputError, match="precision"):
        Learner(model, NUMBERS, Y, RULES["plain"], precision="fp8")
