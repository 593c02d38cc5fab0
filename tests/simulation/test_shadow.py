"""Shadows in the simulator: the run is the same to the byte, also where its server crashes, stops and goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.studies.tables import small

from sortition.core.errors import InputError
from sortition.results import run_folder
from sortition.studies import study

FAULTS = {"crash": 0.5, "stale": 0.3, "duplicated": 0.3, "before": 0.1, "lost": 0.2}
SHADOWS = ["uniform", {"name": "oort", "label": "oort-quick"}, "fedgs"]


def lines(result):
    (run,) = result.runs
    return [json.loads(line) for line in (run.path / run_folder.ROUNDS).read_text().splitlines()]


def played(out, **changes):
    table = small(seeds=[0], method=[{"name": "power-of-choice", "d": 6}], **changes)
    return study(table, out=out)


@pytest.mark.parametrize("faults", [None, FAULTS], ids=["calm", "faulty"])
def test_live_records_are_the_same_with_shadows(tmp_path, faults):
    changes = {} if faults is None else {"faults": faults}
    plain = lines(played(tmp_path / "plain", **changes))
    shadowed = lines(played(tmp_path / "shadowed", shadow=SHADOWS, **changes))
    assert all("shadows" not in record for record in plain)
    for record, twin in zip(shadowed, plain, strict=True):
        remarks = record.pop("shadows")
        assert list(remarks) == ["uniform", "oort-quick", "fedgs"]
        assert record == twin


def test_a_shadow_knows_what_the_live_method_reads_and_hears(tmp_path):
    records = lines(played(tmp_path, shadow=SHADOWS))
    assert any(record["shadows"]["uniform"].get("overlap") is not None for record in records)
    assert all(record["shadows"]["fedgs"]["cannot"].startswith("it reads label_counts") for record in records)
    assert all(0 <= record["shadows"]["uniform"].get("mixture", 0) <= 1 for record in records)


def test_the_same_shadows_twice_are_the_same(tmp_path):
    faulty = {"shadow": SHADOWS, "faults": FAULTS}
    assert lines(played(tmp_path / "one", **faulty)) == lines(played(tmp_path / "two", **faulty))


def test_a_run_that_goes_on_has_the_same_shadows(tmp_path):
    from tests.simulation.test_run_checkpoint import setup

    from sortition.selectors import load
    from sortition.simulation import run, run_checkpoint, start

    def remarks(simulation, rounds):
        kept = []
        run(simulation.setup, rounds, lambda _, record: kept.append(record["shadows"]) and None, simulation)
        return kept

    from dataclasses import replace

    made = replace(setup(), shadows={"uniform": load("uniform"), "oort": load("oort")})
    whole = remarks(start(made), 8)
    first = start(made)
    half = remarks(first, 4)
    run_checkpoint.save(tmp_path / "half.npz", first)
    second = run_checkpoint.load(tmp_path / "half.npz", made)
    assert half + remarks(second, 8) == whole
    assert np.array_equal(second.params, run(replace(made, shadows={}), 8).params)


def test_audit_and_replay_hold_with_shadows(tmp_path):
    from sortition.studies.audit.audit_run import examine

    (run,) = played(tmp_path, shadow=SHADOWS).runs
    finding = examine(run_folder.Run(run.path), replay=True)
    assert finding.faults == []
    assert finding.replayed


def test_bad_shadows_of_a_study_are_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match=r"labels of their own; got 'uniform' twice"):
        played(tmp_path, shadow=["uniform", "uniform"])
    with pytest.raises(InputError, match="Unknown method 'orot'"):
        played(tmp_path, shadow=["orot"])
    assert not list(tmp_path.rglob("rounds.jsonl"))


PACES = {
    "late": {"quorum": 0.6, "late": "use"},
    "buffered": {"kind": "buffered", "concurrency": 5, "buffer": 2},
    "arrival": {"kind": "buffered", "concurrency": 5, "buffer": 3, "refill": "arrival", "normalise": "count"},
}
SLOW = {"speed": 100.0, "speed_spread": 1.0, "jitter": 0.2}


@pytest.mark.parametrize("pace", PACES)
def test_overlapping_live_records_are_the_same_with_shadows(tmp_path, pace):
    changes = {"pace": PACES[pace], "devices": SLOW, "rounds": 12}
    plain = lines(played(tmp_path / "plain", **changes))
    shadowed = lines(played(tmp_path / "shadowed", shadow=SHADOWS, **changes))
    again = lines(played(tmp_path / "again", shadow=SHADOWS, **changes))
    assert shadowed == again
    assert any("staleness" in record for record in plain)
    for record, twin in zip(shadowed, plain, strict=True):
        assert list(record.pop("shadows")) == ["uniform", "oort-quick", "fedgs"]
        assert record == twin
    assert sum(record["shadows"]["uniform"]["trained"] for record in again) > 0


@pytest.mark.parametrize("pace", ["late", "buffered"])
def test_an_overlapping_run_that_goes_on_has_the_same_shadows(tmp_path, pace):
    from dataclasses import replace

    from tests.simulation.test_event_loop import setup

    from sortition.federation.pace import Pace
    from sortition.selectors import load
    from sortition.simulation import run_checkpoint, start

    made = replace(setup(Pace(**PACES[pace])), shadows={"by-size": load("by-size"), "oort": load("oort")})
    whole = start(made)
    expected = [whole.play_round() for _ in range(8)]
    first = start(made)
    records = [first.play_round() for _ in range(4)]
    run_checkpoint.save(tmp_path / "half.npz", first)
    second = run_checkpoint.load(tmp_path / "half.npz", made)
    records += [second.play_round() for _ in range(4)]
    assert [record["shadows"] for record in records] == [record["shadows"] for record in expected]
    assert any(record["shadows"]["oort"]["trained"] for record in records)
