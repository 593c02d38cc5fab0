import numpy as np
import pytest
import torch

from sortition.learning import build
from sortition.learning.examples import Examples
from sortition.learning.learner import Learner
from sortition.learning.rule import LocalRule

BYTES = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), dtype=np.uint8)
FLOATS = BYTES * np.float32(1 / 255)
INDICES = [torch.tensor([3, 1, 3, 39]), torch.tensor([0, 2])]


@pytest.mark.parametrize("shape", [(40, 3, 8, 8), (40, 192)])
def test_bytes_become_the_numbers_of_examples_that_were_scaled_at_once(shape):
    small = Examples(torch.from_numpy(BYTES.reshape(shape)), scale=1 / 255)
    large = Examples(torch.from_numpy(FLOATS.reshape(shape)))
    assert small.rows.dtype == torch.uint8
    assert torch.equal(small.take(INDICES[0]), large.take(INDICES[0]))
    for index in (None, torch.arange(39, 0, -1)):
        for (spot, few), (same, many) in zip(small.parts(7, index), large.parts(7, index), strict=True):
            assert spot == same
            assert torch.equal(few, many)
    for few, many in zip(small.batches(INDICES), large.batches(INDICES), strict=True):
        assert torch.equal(few, many)


def test_bytes_become_single_floats_whatever_the_default():
    examples, before = Examples(torch.from_numpy(BYTES), scale=1 / 255), torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert {x.dtype for _, x in examples.parts(16)} == {torch.float32}
        assert {x.dtype for x in examples.batches(INDICES)} == {torch.float32}
    finally:
        torch.set_default_dtype(before)


def test_batches_are_the_rows_of_their_indices():
    rows = FLOATS.reshape(40, -1)
    batches = [x.clone() for x in Examples(torch.from_numpy(rows)).batches(INDICES)]
    assert [x.tolist() for x in batches] == [rows[index.numpy()].tolist() for index in INDICES]


@pytest.mark.parametrize("scale", [None, 1 / 255])
@pytest.mark.parametrize("index", [None, torch.tensor([3, 1, 3, 39, 0]), torch.tensor([], dtype=torch.int64)])
def test_parts_are_what_is_taken_at_their_places(scale, index):
    examples = Examples(torch.from_numpy(BYTES if scale else FLOATS), scale=scale)
    expected = examples.take(torch.arange(40) if index is None else index)
    parts_joined = torch.full_like(expected, -1)
    sizes = []
    for spot, x in examples.parts(3, index):
        assert x.shape == expected[spot].shape
        parts_joined[spot] = x
        sizes.append(len(x))
    assert torch.equal(parts_joined, expected)
    assert sizes == [3] * (len(expected) // 3) + [len(expected) % 3] * (len(expected) % 3 > 0)


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize(("model", "options"), [("mlp", {"hidden": [5]}), ("cnn", {"preset": "small"})])
def test_training_and_losses_of_bytes_have_the_bits_of_floats(model, options, gathered, monkeypatch):
    if not gathered:
        monkeypatch.setattr("sortition.learning.stacked.MOST_GATHERED_NUMBERS", 0)
    side = 8 if model == "mlp" else 32
    x = np.random.default_rng(1).integers(0, 256, (40, 3, side, side), dtype=np.uint8)
    y, rule = np.arange(40) % 4, LocalRule(lr=0.1, steps=3, batch=4)
    members, ids = [np.arange(0, 15), np.arange(15, 18)], np.array([0, 1])
    net = build(model, x.shape[1:], 4, **options)
    as_bytes = Learner(net, x, y, rule, white=255)
    scaled = Learner(net, x * np.float32(1 / 255), y, rule)
    assert as_bytes.examples.rows.dtype == torch.uint8
    trained_on_bytes, trained_on_floats = (
        learner.train(learner.initial, members, ids, seed=0, t=0) for learner in (as_bytes, scaled)
    )
    assert trained_on_bytes.deltas.tobytes() == trained_on_floats.deltas.tobytes()
    assert (
        as_bytes.passes.losses_and_hits(as_bytes.initial)[0].tobytes()
        == scaled.passes.losses_and_hits(as_bytes.initial)[0].tobytes()
    )
