"""FedVARP and MIFA against their formulas, their limits and what their papers state."""

from itertools import combinations

import numpy as np
import pytest

from sortition.aggregation import CombineRule, UpdateMemory
from sortition.core.errors import InputError

RNG = np.random.default_rng(0)
DELTAS = RNG.normal(size=(6, 4))


def remembering(rows):
    memory = UpdateMemory.empty(rows.shape[1])
    return memory.with_updates(np.arange(len(rows)), rows)


def combined(name, ids, updates, memory, n=6, rate=1.0, weights=None, **options):
    ids = np.array(ids)
    weights = np.full(ids.size, 1 / ids.size) if weights is None else weights
    return CombineRule(name, **options).apply(ids, weights, updates, memory, clients=n, rate=rate)


def test_fedvarp_is_its_formula_with_the_memory_of_before():
    y = RNG.normal(size=(6, 4))
    update, memory = combined("fedvarp", [4, 1], DELTAS[[4, 1]], remembering(y))
    np.testing.assert_allclose(update, (DELTAS[[4, 1]] - y[[4, 1]]).mean(axis=0) + y.mean(axis=0))
    after = y.copy()
    after[[4, 1]] = DELTAS[[4, 1]]
    np.testing.assert_allclose(memory.total, after.sum(axis=0))
    assert not np.allclose(update, after.mean(axis=0))  # what it would be if the memory were written first


def test_fedvarp_is_unbiased_with_the_stated_variance():
    y = RNG.normal(size=(6, 4))
    found = np.array([combined("fedvarp", s, DELTAS[list(s)], remembering(y))[0] for s in combinations(range(6), 2)])
    np.testing.assert_allclose(found.mean(axis=0), DELTAS.mean(axis=0))
    np.testing.assert_allclose(found.var(axis=0), (DELTAS - y).var(axis=0) / 2 * (6 - 2) / (6 - 1))


def test_fedvarp_in_its_limits():
    nobody = UpdateMemory.empty(4)
    np.testing.assert_allclose(combined("fedvarp", [0, 3], DELTAS[[0, 3]], nobody)[0], DELTAS[[0, 3]].mean(axis=0))
    everybody = combined("fedvarp", range(6), DELTAS, remembering(RNG.normal(size=(6, 4))))[0]
    np.testing.assert_allclose(everybody, DELTAS.mean(axis=0))
    known = combined("fedvarp", [2, 5], DELTAS[[2, 5]], remembering(DELTAS))[0]
    np.testing.assert_allclose(known, DELTAS.mean(axis=0))


def test_mifa_is_the_mean_of_the_table_whatever_the_weights():
    y = RNG.normal(size=(6, 4))
    update, memory = combined("mifa", [4, 1], DELTAS[[4, 1]], remembering(y), weights=np.array([0.9, 0.1]))
    after = y.copy()
    after[[4, 1]] = DELTAS[[4, 1]]
    np.testing.assert_allclose(update, after.mean(axis=0))
    np.testing.assert_allclose(memory.total, after.sum(axis=0))
    seen = combined("mifa", [2], DELTAS[[2]], UpdateMemory.empty(4))[0]
    np.testing.assert_allclose(seen, DELTAS[2] / 6)  # who was never seen contributes nothing
    np.testing.assert_allclose(
        combined("mifa", range(6), DELTAS, UpdateMemory.empty(4))[0], DELTAS.mean(axis=0)
    )  # everybody: FedAvg


@pytest.mark.parametrize("name", ["fedvarp", "mifa"])
def test_old_updates_are_rescaled_to_the_learning_rate_of_today(name):
    y = RNG.normal(size=(6, 4))
    memory = combined(name, range(6), 0.5 * y, UpdateMemory.empty(4), rate=0.5)[1]
    now = combined(name, [4, 1], 0.1 * DELTAS[[4, 1]], memory, rate=0.1)[0]
    same = combined(name, [4, 1], DELTAS[[4, 1]], remembering(y))[0]
    np.testing.assert_allclose(now, 0.1 * same)
    raw = combined(name, range(6), 0.5 * y, UpdateMemory.empty(4), rate=0.5, remember="raw")[1]
    assert not np.allclose(combined(name, [4, 1], 0.1 * DELTAS[[4, 1]], raw, rate=0.1, remember="raw")[0], now)


@pytest.mark.parametrize("name", ["fedvarp", "mifa"])
def test_quadratics_of_which_two_of_ten_step_converge(name):
    """F_i = (w − a_i)²/2, one exact step of 0.05: FedAvg never settles, a server that remembers does."""
    a, rng = np.random.default_rng(1).normal(size=10), np.random.default_rng(2)
    rule, plain = CombineRule(name), CombineRule()
    w, v, memory = np.zeros(1), np.zeros(1), rule.init(1, 10)
    wandering = []
    for _ in range(3000):
        ids = rng.choice(10, 2, replace=False)
        update, memory = rule.apply(ids, np.full(2, 0.5), 0.05 * (a[ids, None] - w), memory, clients=10)
        w = w + update
        v = v + plain.apply(ids, np.full(2, 0.5), 0.05 * (a[ids, None] - v))[0]
        wandering.append(abs(v[0] - a.mean()))
    assert abs(w[0] - a.mean()) < 1e-12
    assert max(wandering[-100:]) > 1e-2


def test_the_memory_given_stays_as_it_is_and_the_sum_does_not_drift():
    rng, memory = np.random.default_rng(3), UpdateMemory.empty(5)
    rule = CombineRule("fedvarp")
    for _ in range(2000):
        ids = rng.choice(8, 3, replace=False)
        before, rows, total = memory, dict(memory.rows), memory.total.copy()
        updates = (10.0 ** rng.integers(-3, 3) * rng.normal(size=(3, 5))).astype(np.float32)
        _, memory = rule.apply(ids, np.full(3, 1 / 3), updates, memory, clients=8)
        assert before.rows == rows
        np.testing.assert_array_equal(before.total, total)
        updates[:] = np.nan  # what the caller does with its array afterwards is of no matter
    np.testing.assert_allclose(memory.total, np.sum([*memory.rows.values()], axis=0, dtype=float), atol=1e-9)


@pytest.mark.parametrize("name", ["fedvarp", "mifa"])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_huge_update_leaves_nothing_behind_when_it_is_replaced(name, forgotten):
    memory = remembering(np.ones((4, 2), np.float32))
    memory = combined(name, [2], np.full((1, 2), 3e25, np.float32), memory, n=4)[1]
    if forgotten:
        memory = memory.without(np.array([2]))
        np.testing.assert_array_equal(memory.total, [3, 3])
    update, memory = combined("mifa", [2], np.ones((1, 2), np.float32), memory, n=4)
    np.testing.assert_array_equal(update, [1, 1])
    np.testing.assert_array_equal(memory.total, [4, 4])
    assert memory.without(np.array([7])) is memory


def test_a_client_that_is_forgotten_counts_as_never_seen():
    memory = remembering(DELTAS).without(np.array([2, 9]))
    assert sorted(memory.rows) == [0, 1, 3, 4, 5]
    np.testing.assert_allclose(memory.total, np.delete(DELTAS, 2, axis=0).sum(axis=0))


def test_export_and_restore_are_exact():
    memory = remembering(DELTAS.astype(np.float32))
    back = UpdateMemory.restore(memory.export())
    assert sorted(back.rows) == sorted(memory.rows)
    assert all(np.array_equal(back.rows[k], row) for k, row in memory.rows.items())
    np.testing.assert_array_equal(back.total, memory.total)
    assert UpdateMemory.restore(UpdateMemory.empty(3).export()).rows == {}


def test_memory_is_declared_and_refused_beyond_its_bound():
    rule = CombineRule("mifa", memory_limit=0.5)
    assert rule.memory_bytes(1000, 100) == 4 * 1000 * 100 + 8 * 1000
    assert CombineRule("median").memory_bytes(1000, 100) == 0
    with pytest.raises(InputError, match=r"memory_limit must be at least 3\.7\d+ GiB for 10,000 updates of 100,000"):
        rule.init(100_000, 10_000)
    rule.init(10_000, 10_000)
    assert [CombineRule(name).individual for name in ("mean", "fedvarp", "median")] == [False, True, True]
    with pytest.raises(InputError, match=r"combine must be given the memory of mifa; got None"):
        rule.apply(np.arange(2), np.full(2, 0.5), np.ones((2, 3)))
    with pytest.raises(InputError, match="combine must be given the number of clients"):
        rule.apply(np.arange(2), np.full(2, 0.5), np.ones((2, 3)), rule.init(3, 10), clients=1)
    with pytest.raises(InputError, match="CombineRule has rate, raw"):
        CombineRule("mifa", remember="lr")
