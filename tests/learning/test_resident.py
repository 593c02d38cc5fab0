"""Models and updates stay on an accelerator between rounds: whole rounds, and every transfer of them by name.

No accelerator is needed. A world on the CPU keeps its models as one on a card does where ``lives_on_device`` says so,
which gives numbers to compare. A world on a card that is not there, or on ``meta``, has none, but refuses to read them.
"""

import sys
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from tests.helpers.playing import simulate
from tests.simulation.small import RULE, SIZES, Scripted, parts, world
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

from sortition.aggregation import CombineRule, StepRule
from sortition.core.signals import BIAS_UPDATE, LOSS, UPDATE
from sortition.data import Dataset
from sortition.learning import LocalRule, build, resident
from sortition.learning.resident import ResidentArray
from sortition.simulation import FaultDraws, Faults, Setup, World, round_cache, run_checkpoint, start

EVERYBODY = tuple(range(10))
WEIGHTS = tuple(np.arange(1, 11) / 55)


def setup(inner=None, selector=None, **options):
    selector = selector or Scripted(cohort=EVERYBODY, weights=WEIGHTS)
    return Setup(inner or world(), selector, 10, 3, **options)


@pytest.fixture
def stays(monkeypatch):
    """Lets worlds on the CPU keep their models as those on an accelerator do."""
    monkeypatch.setattr(resident, "lives_on_device", lambda device: True)


# ---- the same rounds


def reporting(*signals):
    return Scripted(cohort=EVERYBODY, reported=signals)


ADAM = LocalRule(lr=0.01, epochs=1, batch=8, optimizer="adam", keep_state=True)
ROUNDS = {
    "plain": lambda: setup(),
    "server momentum": lambda: setup(step=StepRule("momentum", lr=0.5)),
    "server adam": lambda: setup(step=StepRule("adam", lr=0.1)),
    "dropouts": lambda: setup(faults=FaultDraws(Faults(before=0.2, after=0.2), 10, 0)),
    "damaged updates": lambda: setup(faults=FaultDraws(Faults(damaged=0.3), 10, 0)),
    "reported losses": lambda: setup(selector=reporting(LOSS)),
    "reported updates": lambda: setup(selector=reporting(UPDATE, BIAS_UPDATE)),
    "rehearsal": lambda: setup(selector=Scripted(questions=((LOSS, (1, 2), None),))),
    "median": lambda: setup(combine=CombineRule("median")),
    "fedvarp": lambda: setup(combine=CombineRule("fedvarp")),
    "kept optimisers": lambda: setup(world(ADAM)),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_are_those_of_arrays(name, monkeypatch):
    arrays, expected_records = simulate(ROUNDS[name](), 3)
    monkeypatch.setattr(resident, "lives_on_device", lambda device: True)
    stayed, records = simulate(ROUNDS[name](), 3)
    if name not in ("median", "fedvarp"):  # these rules combine on the host
        assert isinstance(stayed.params, ResidentArray)
    np.testing.assert_allclose(stayed.params, arrays.params, atol=1e-5)
    for record, expected in zip(records, expected_records, strict=True):
        for volatile in ("test", "train_loss"):
            assert record.pop(volatile) == pytest.approx(expected.pop(volatile), abs=1e-5)
        assert record == expected


def test_a_cohort_of_several_blocks_is_added_up_where_it_was_trained(stays, monkeypatch):
    whole, _ = simulate(setup(), 2)
    monkeypatch.setattr(round_cache, "BLOCK_BYTES", 4 * 3 * whole.params.size)
    folded, _ = simulate(setup(), 2)
    assert isinstance(folded.params, ResidentArray)
    np.testing.assert_allclose(folded.params, whole.params, atol=1e-5)


def test_a_model_that_stayed_is_saved_and_goes_on(stays, tmp_path):
    whole, _ = simulate(setup(step=StepRule("adam", lr=0.1)), 3)
    first, _ = simulate(setup(step=StepRule("adam", lr=0.1)), 2)
    run_checkpoint.save(tmp_path / "checkpoint.npz", first)
    resumed = run_checkpoint.load(tmp_path / "checkpoint.npz", setup(step=StepRule("adam", lr=0.1)))
    resumed.play_round()
    np.testing.assert_array_equal(np.asarray(resumed.params), np.asarray(whole.params))


# ---- what travels


class Transfers(TorchFunctionMode):
    """Names what travels between host and device: which function of the engine sends or reads how many numbers."""

    TO_HOST = (Tensor.numpy, Tensor.tolist, Tensor.item, Tensor.__array__, Tensor.__float__, Tensor.__bool__)
    TO_DEVICE = (torch.tensor, torch.as_tensor)

    def __init__(self):
        super().__init__()
        self.numbers = Counter()
        self.sizes = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in self.TO_HOST:
            self._note("to host", args[0])
            if isinstance(args[0], FakeTensor) or args[0].device.type == "meta":
                return self._zeros(function, args[0])
        if function is Tensor.cpu and args[0].device.type == "meta":
            return args[0]  # it is read next
        result = function(*args, **kwargs)
        if function in self.TO_DEVICE:
            self._note("to device", result)
        return result

    def _zeros(self, function, tensor):
        """Answer for numbers that are not there."""
        if function is Tensor.numpy:
            return np.zeros(tensor.shape, str(tensor.dtype).removeprefix("torch."))
        return {Tensor.tolist: [], Tensor.__bool__: False}.get(function, 0.0)

    def _note(self, direction, tensor):
        frame = sys._getframe(2)
        gates = ("to_device", "to_host", "to_host_together", "__array__", "_index", "_operand", "__array_ufunc__")
        while frame.f_code.co_name in (*gates, "<listcomp>") or "sortition" not in frame.f_code.co_filename:
            frame = frame.f_back
        key = (direction, frame.f_code.co_qualname)
        self.numbers[key] += 1
        self.sizes[key] = max(self.sizes.get(key, 0), tensor.numel())


K, STEPS = 10, 8  # clients, and steps of the one with most examples: 2 epochs of 31 examples in batches of 8
IN_A_ROUND = {
    ("to device", "_take_all_steps"): 3,  # whose examples each step reads, their weights, dropout words
    ("to device", "ClientStack.result"): 1,  # steps of each client
    ("to device", "ResidentArray.write_rows"): 1,  # in which order clients trained
    ("to device", "weighted_sum"): 1,  # aggregation weights
    ("to host", "DrawnCohort.store"): 1,  # losses of all clients
    ("to host", "_einsum"): 1,  # lengths of updates, which the guards judge
}


def played_round(made):
    """Plays a round and counts what travels in the next."""
    simulation = start(made)
    simulation.play_round()
    with Transfers() as transfers:
        simulation.play_round()
    return simulation, transfers


@pytest.mark.parametrize("server", [StepRule(), StepRule("momentum"), StepRule("adam", lr=0.1)])
def test_what_travels_in_a_round_is_known_by_name_and_the_model_is_not_among_it(stays, server):
    simulation, transfers = played_round(setup(step=server, evaluate_every=0))
    assert dict(transfers.numbers) == IN_A_ROUND
    n_examples = STEPS * K * 8
    drawn = n_examples * 5  # words of a dropout layer of five units
    assert max(transfers.sizes.values()) == drawn
    assert transfers.sizes["to host", "DrawnCohort.store"] == transfers.sizes["to host", "_einsum"] == K
    assert isinstance(simulation.params, ResidentArray)
    assert simulation.params._host is None  # nobody has read it


def test_an_evaluation_brings_losses_and_hits(stays):
    _, transfers = played_round(setup(evaluate_every=1))
    assert dict(transfers.numbers) == {**IN_A_ROUND, ("to host", "Passes.losses_and_hits"): 2}  # 1 on a card: see below


def test_reports_bring_what_is_read_once(stays):
    selector = Scripted(cohort=EVERYBODY, reported=(BIAS_UPDATE,))
    _, transfers = played_round(setup(selector=selector, evaluate_every=0))
    columns = ("to host", "ResidentArray._columns_on_host")
    assert transfers.numbers.pop(columns) == 1
    assert transfers.sizes[columns] == K * 4
    assert dict(transfers.numbers) == IN_A_ROUND


# ---- a card that is not there


def images():
    n = sum(SIZES) + 60
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1, 12, 12)).astype(np.float32)
    y = rng.integers(0, 4, n)
    return Dataset("images", x[:-60], y[:-60], x[-60:], y[-60:], 4)


MODELS = {  # the engine, and the model
    "stacked": lambda: build("mlp", (1, 12, 12), 4, hidden=(5,), dropout=0.3),
    "vmapped": lambda: build("cnn", (1, 12, 12), 4, preset="small"),
}


def moved(model, device):
    """Does what ``nn.Module.to`` does, which cannot put fake tensors into a model."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = nn.Parameter(parameter.detach().to(device))
    return model


@pytest.mark.parametrize(("engine", "device"), [("stacked", "cuda:0"), ("stacked", "meta"), ("vmapped", "meta")])
def test_whole_rounds_on_a_card_that_is_not_there(engine, device, monkeypatch):
    """Fake tensors refuse to be mixed with others or to be read; the one gate to the host is answered with zeros."""
    evaluates = int(device == "meta")  # without a card Python cannot take slices of fake tensors
    pretended = FakeTensorMode(allow_non_fake_inputs=True) if device == "cuda:0" else nullcontext()
    if device == "cuda:0":
        monkeypatch.setattr(nn.Module, "to", moved)
    model = MODELS[engine]()
    with pretended, Transfers():
        inner = World(images(), parts(), model, RULE, device=device, engine=engine)
        simulation, transfers = played_round(setup(inner, evaluate_every=evaluates, clients_every=evaluates))
    assert simulation.params.tensor.device == torch.device(device)
    to_host = {key: count for key, count in transfers.numbers.items() if key[0] == "to host"}
    expected = {("to host", "DrawnCohort.store"): 1, ("to host", "_einsum"): 1}
    if evaluates:
        expected["to host", "Passes.losses_and_hits"] = 2  # of the test set, and of all clients
    assert to_host == expected
    assert max(transfers.sizes[key] for key in to_host) < simulation.params.size


def test_fake_tensors_refuse_what_the_test_above_is_for():
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = ResidentArray(torch.zeros(3, device="cuda:0"))
        with pytest.raises((RuntimeError, TypeError)):
            np.asarray(model)
        with pytest.raises(Exception, match="cuda"):
            model.tensor + torch.zeros(3)


# ---- as an array


def test_it_computes_as_an_array_does(stays):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 6)).astype(np.float32)
    stayed = resident.as_resident(torch.from_numpy(rows.copy()))
    np.testing.assert_allclose(np.ones(4, np.float32) @ stayed, rows.sum(0), rtol=1e-5)
    np.testing.assert_allclose(np.float32(2) * stayed[1] - rows[2], 2 * rows[1] - rows[2], rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(stayed**2), np.abs(rows), rtol=1e-5)
    np.testing.assert_array_equal(stayed[np.array([True, False, False, True])], rows[[0, 3]])
    np.testing.assert_array_equal(np.delete(stayed, [1], axis=0), rows[[0, 2, 3]])
    np.testing.assert_array_equal(np.stack([stayed[3], rows[0]]), rows[[3, 0]])
    np.testing.assert_array_equal(stayed[2][1:3], rows[2, 1:3])
    np.testing.assert_array_equal(np.median(stayed, axis=0), np.median(rows, axis=0))  # on the host
    total = np.zeros(()) + stayed[0].astype(np.float64)
    total += stayed[1]
    total -= stayed[1]
    assert isinstance(total, ResidentArray)
    assert total.dtype == np.float64
    np.testing.assert_array_equal(total.astype(np.float32), rows[0])
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(stayed)[0] = 0


def test_what_is_written_is_read_again(monkeypatch):
    """On an accelerator the host's copy is another memory: here the gate copies, as it does there."""
    monkeypatch.setattr(resident, "to_host", lambda tensor: tensor.clone().numpy())
    model = resident.ResidentArray(torch.zeros(3))
    assert np.asarray(model).tolist() == [0, 0, 0]
    model += np.ones(3, np.float32)
    assert np.asarray(model).tolist() == [1, 1, 1]
    rows = resident.ResidentArray(torch.zeros(2, 2))
    assert np.asarray(rows).sum() == 0
    rows.write_rows([1], torch.ones(1, 2))
    assert np.asarray(rows).tolist() == [[0, 0], [1, 1]]


def test_columns_are_deleted_as_columns():
    rows = resident.ResidentArray(torch.arange(6.0).reshape(2, 3))
    assert np.asarray(np.delete(rows, [0], axis=0)).tolist() == [[3, 4, 5]]
    assert np.delete(rows, [0], axis=1).tolist() == [[1, 2], [4, 5]]
