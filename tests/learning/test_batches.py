import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core.streams import stream
from sortition.learning.batches import draw_batch_plan, draw_batch_plans
from sortition.learning.rule import LocalRule


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 15), st.booleans())
def test_epochs_are_without_replacement(n, batch, work, by_epochs):
    rule = LocalRule(lr=0.1, batch=batch, **({"epochs": min(work, 3)} if by_epochs else {"steps": work}))
    members = np.arange(100, 100 + n)
    got = draw_batch_plan(members, rule, stream(0, "x"))
    per_epoch = -(-n // min(batch, n))
    assert got.steps == (min(work, 3) * per_epoch if by_epochs else work)
    seen = [row[:count] for row, count in zip(got.index, got.counts, strict=True)]
    for start in range(0, got.steps, per_epoch):
        epoch = np.concatenate(seen[start : start + per_epoch])
        assert len(np.unique(epoch)) == len(epoch)
        if start + per_epoch <= got.steps:
            assert sorted(epoch) == members.tolist()
    assert got.examples == sum(map(len, seen)) == rule.examples_of(n)


def test_batches_depend_on_seed_purpose_round_and_client_only():
    rule = LocalRule(lr=0.1, steps=3, batch=4)
    members = [np.arange(20), np.arange(30, 50)]
    a = draw_batch_plans(members, np.array([5, 8]), rule, 1, 2)
    b = draw_batch_plans(members[::-1], np.array([8, 5]), rule, 1, 2)
    np.testing.assert_array_equal(a[0].index, b[1].index)
    np.testing.assert_array_equal(a[1].index, b[0].index)
    others = [(2, 2, "train"), (1, 3, "train"), (1, 2, "rehearsal")]
    for seed, t, purpose in others:
        assert not np.array_equal(
            a[0].index, draw_batch_plans(members, np.array([5, 8]), rule, seed, t, purpose)[0].index
        )


def test_full_batch_and_a_batch_larger_than_the_data():
    for batch in (None, 50):
        got = draw_batch_plan(np.arange(7), LocalRule(lr=0.1, epochs=2, batch=batch), stream(0, "x"))
        assert got.index.shape == (2, 7)
        assert got.counts.tolist() == [7, 7]


def test_only_a_part_of_a_large_client_is_drawn():
    got = draw_batch_plan(np.arange(1_000_000), LocalRule(lr=0.1, steps=2, batch=5), stream(0, "x"))
    assert len(np.unique(got.index)) == 10
    assert got.counts.tolist() == [5, 5]


@pytest.mark.parametrize(("n", "steps"), [(10, [4, 4, 2, 4, 4, 2]), (3, [3] * 6)])
def test_the_last_batch_of_an_epoch_is_smaller(n, steps):
    assert draw_batch_plan(np.arange(n), LocalRule(lr=0.1, steps=6, batch=4), stream(0, "x")).counts.tolist() == steps
