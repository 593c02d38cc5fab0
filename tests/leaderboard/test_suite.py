from __future__ import annotations

import pytest

from sortition.core import InputError
from sortition.leaderboard.suite import SUITE_FILE, load_suite
from sortition.studies.plan import read

# the cells on which the prototype of Microcosm was measured: none of them may be held out
SEEN = {
    ("digits", "shards-2", "always", 10),
    ("digits", "shards-1", "lognormal", 10),
    ("digits", "dirichlet-0.1", "label-cycle", 5),
    ("digits", "sizes", "more-data-first", 10),
    ("digits", "dirichlet-0.5", "markov", 5),
    ("digits", "shards-2", "sine-lognormal", 20),
    ("digits", "iid", "lognormal", 5),
    ("synthetic", "", "always", 10),
    ("digits", "shards-2", "label-cycle", 10),
    ("digits", "dirichlet-0.1", "lognormal", 10),
    ("digits", "sizes", "sine-lognormal", 5),
    ("digits", "shards-1", "markov", 20),
    ("digits", "shards-1", "always", 5),
    ("digits", "sizes", "less-data-first", 10),
    ("digits", "dirichlet-0.1", "always", 20),
    ("digits", "iid", "always", 10),
    ("synthetic", "", "lognormal", 10),
    ("synthetic", "", "more-data-first", 5),
    ("fashion-mnist", "shards-2", "lognormal", 10),
    ("fashion-mnist", "dirichlet-0.1", "label-cycle", 10),
}


def kind(cell):
    rule = cell.partition or {"name": ""}
    name = {"dirichlet-sizes": "sizes"}.get(rule["name"], rule["name"])
    tail = rule.get("per_client", rule.get("alpha", ""))
    partition = name if name in ("sizes", "iid", "") else f"{name}-{tail}"
    return cell.data, partition, cell.availability["name"], cell.cohort


def test_the_suite_is_large_and_its_halves_are_apart():
    suite = load_suite()
    assert len(suite.cell) >= 24
    assert suite.seeds >= 8
    assert {cell.data for cell in suite.cell} == {"digits", "synthetic", "mnist", "fashion-mnist"}
    held = [kind(cell) for cell in suite.cells("held-out")]
    assert len(held) >= 12
    assert not set(held) & SEEN
    assert not set(held) & {kind(cell) for cell in suite.cells("tuning")}
    assert any(cell.dropout for cell in suite.cells("held-out"))


def test_another_cell_makes_another_suite():
    suite = load_suite()
    assert suite.version == load_suite().version
    changed = suite.model_copy(update={"cell": [suite.cell[0].model_copy(update={"cohort": 7}), *suite.cell[1:]]})
    assert type(suite)(**changed.model_dump()).version != suite.version


def test_the_frozen_suite_is_the_one_that_was_frozen():
    """Whoever means to change a cell names the suite anew, here and in its file."""
    assert load_suite().version == VERSION


VERSION = "suite-1-eb608a46"


def test_every_cell_resolves_and_pairs_all_methods():
    suite = load_suite()
    plan = suite.study(suite.cell, [{"name": "uniform"}, {"name": "fedgs"}], range(2))
    assert len(plan.runs) == len(suite.cell) * 2 * 2
    assert [run.seed for run in plan.runs] == sorted(run.seed for run in plan.runs)
    by_cell = {run.setting: run for run in plan.runs}
    for cell in suite.cell:
        run = by_cell[cell.name]
        assert (run.cohort, run.data.name, run.data.clients) == (cell.cohort, cell.data, 100)
        assert (run.faults.before if run.faults else 0.0) == cell.dropout
        assert run.audit is False


def test_a_half_and_the_quick_subset():
    suite = load_suite()
    assert {cell.half for cell in suite.cells("tuning")} == {"tuning"}
    assert 4 <= len(suite.cells(quick=True)) <= 8
    with pytest.raises(InputError, match="--half must be tuning or held-out; got 'other'"):
        suite.cells("other")


def test_a_suite_of_ones_own_is_checked(tmp_path):
    text = SUITE_FILE.read_text().replace("cohort = 10", "cohort = 0", 1)
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="cohort"):
        load_suite(path)
    assert read(SUITE_FILE)["name"] == "suite-1"
