"""Combine rules in the engine: by hand, over crashes and resumption, with ids that change owners."""

from dataclasses import replace

import numpy as np
import pytest
from tests.simulation.small import RULE, world

from sortition.aggregation import CombineRule
from sortition.core.errors import InputError, StorageError
from sortition.core.storage import snapshot
from sortition.selectors import load
from sortition.simulation import Devices, FaultDraws, Faults, Setup, run, run_checkpoint, start

FAULTS = Faults(before=0.1, newcomers=0.3, leaving=0.2, returning=0.2, reused=0.5, crash=0.5)
DECAYING = replace(RULE, decay=0.9)


def setup(name, faults=None, rounds=12, **options):
    small_world = world(rule=DECAYING, devices=Devices(dropout=0.2))
    draws = FaultDraws(faults or Faults(), 10, 5)
    return Setup(small_world, load("uniform"), 3, rounds, combine=CombineRule(name, **options), faults=draws)


def test_fedvarp_in_the_engine_is_a_loop_of_ones_own():
    played_setup = setup("fedvarp", rounds=6)
    rule = CombineRule("fedvarp")
    simulation = start(played_setup)
    params, memory = simulation.params, rule.init(simulation.params.size, 10)
    for t in range(6):
        record = simulation.play_round()
        ids = np.array(record["cohort"] if record["answered"] is None else record["answered"], np.int64)
        if not ids.size:
            continue
        deltas = played_setup.world.train(params, ids, [], t).deltas
        chosen = dict(zip(record["cohort"], record["weights"], strict=True))
        weights = np.array([chosen[k] for k in ids.tolist()])
        weights *= sum(record["weights"]) / weights.sum()
        update, memory = rule.apply(ids, weights, deltas, memory, clients=10, rate=DECAYING.lr_at(t))
        params = params + update
        np.testing.assert_allclose(simulation.params, params, atol=1e-6)
    assert len(simulation.update_memory.rows) > 3


@pytest.mark.parametrize("name", ["fedvarp", "mifa"])
@pytest.mark.parametrize("faults", [None, FAULTS], ids=["calm", "faults"])
def test_resumed_memory_gives_the_same_bytes(name, faults, tmp_path):
    whole = run(setup(name, faults))
    half = run(setup(name, faults), 5)
    run_checkpoint.save(tmp_path / "run.npz", half)
    back = run_checkpoint.load(tmp_path / "run.npz", setup(name, faults))
    assert sorted(back.update_memory.rows) == sorted(half.update_memory.rows)
    resumed = run(setup(name, faults), simulation=back)
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert resumed.update_memory.total.tobytes() == whole.update_memory.total.tobytes()
    assert {k: row.tobytes() for k, row in resumed.update_memory.rows.items()} == {
        k: row.tobytes() for k, row in whole.update_memory.rows.items()
    }


def test_a_crash_leaves_no_trace_in_the_memory():
    calm, falling = setup("mifa"), setup("mifa", Faults(crash=1.0))
    assert run(falling).update_memory.total.tobytes() == run(calm).update_memory.total.tobytes()


def test_who_takes_an_id_over_is_remembered_by_nothing():
    played_setup = setup("mifa", Faults(leaving=0.4, returning=0.0, reused=0.6), rounds=10)
    simulation, seen = start(played_setup), 0
    for _ in range(10):
        before = set(simulation.update_memory.rows)
        record = simulation.play_round()
        taken = set(record.get("faults", {}).get("taken", ()))
        answered = record["cohort"] if record["answered"] is None else record["answered"]
        assert set(simulation.update_memory.rows) == (before - taken) | set(answered)
        seen += len(taken & before)
    assert seen > 0


def test_robust_rules_in_the_engine():
    mean = run(setup("mean", rounds=4)).params
    for name in ("median", "trimmed-mean", "geometric-median", "norm-bound"):
        params = run(setup(name, rounds=4, bound=0.5)).params
        assert np.isfinite(params).all()
        assert not np.array_equal(params, mean), name


def test_checkpoints_of_another_rule_and_damaged_memories_are_refused(tmp_path):
    remembered, plain = tmp_path / "mifa.npz", tmp_path / "mean.npz"
    run_checkpoint.save(remembered, run(setup("mifa"), 3))
    run_checkpoint.save(plain, run(setup("mean"), 3))
    with pytest.raises(StorageError, match="holds remembered updates; this set-up combines"):
        run_checkpoint.load(remembered, setup("mean"))
    with pytest.raises(StorageError, match="holds no remembered updates; this set-up combines"):
        run_checkpoint.load(plain, setup("mifa"))
    arrays, header = snapshot.load(remembered)
    wrong = {
        "memory.rows": arrays["memory.rows"][:-1],
        "memory.total": np.full_like(arrays["memory.total"], np.inf),
        "memory.ids": arrays["memory.ids"] + 8,
    }
    for name, array in wrong.items():
        snapshot.save(tmp_path / "bad.npz", {**arrays, name: array}, header)
        with pytest.raises(StorageError, match="is damaged: its remembered updates"):
            run_checkpoint.load(tmp_path / "bad.npz", setup("mifa"))


def test_too_much_memory_is_refused_before_the_first_round():
    with pytest.raises(InputError, match="memory_limit must be at least"):
        start(setup("fedvarp", memory_limit=1e-6))
