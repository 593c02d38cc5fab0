import numpy as np
import pytest
from tests.studies.tables import small

import sortition as so
from sortition.core.errors import InputError
from sortition.results import run_folder
from sortition.studies.plan import plan
from sortition.studies.runs import runner

METHODS = [{"name": name} for name in ("uniform", "centralised", "local-only")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    table = small(method=METHODS, rounds=12, seeds=2)
    done = runner.execute(plan(table), out, jobs=1)
    assert not done.failed
    return run_folder.find(out)


def last(runs, method):
    return np.mean([run.curve()[1][-3:].mean() for run in runs if run.method == method])


def test_all_data_in_one_place_are_better_than_a_federation_and_clients_alone_are_worse(runs):
    assert last(runs, "centralised") > last(runs, "uniform") > last(runs, "local-only")


def test_references_keep_the_state_of_their_optimiser(tmp_path):
    curves = {}
    for kept in (False, True):
        local = {"steps": 3, "batch": 8, "lr": 0.02, "momentum": 0.9, "keep_state": kept}
        runner.execute(plan(small(method=METHODS[1:], rounds=4, seeds=1, local=local)), tmp_path / str(kept), jobs=1)
        found = run_folder.find(tmp_path / str(kept))
        curves[kept] = {run.method: [r["train_loss"] for r in run.records] for run in found}
    for method in ("centralised", "local-only"):
        assert curves[True][method][0] == curves[False][method][0]
        assert curves[True][method][1:] != curves[False][method][1:]


def test_centralised_takes_as_many_steps_as_a_cohort(runs):
    steps = {run.method: run.records[0]["steps"] for run in runs}
    assert steps["centralised"] == steps["uniform"] == steps["local-only"] == 3 * 3


def test_nobody_is_selected_and_nothing_is_sent(runs):
    for run in runs:
        if run.method != "uniform":
            assert all(record["cohort"] == [] for record in run.records)
            assert run.summary["figures"]["megabytes"] == 0
            assert not (run.path / "audit.jsonl").exists()


def test_references_are_shown_and_not_compared(runs, tmp_path):
    from sortition.report import write
    from sortition.results import summary

    tables = summary.tables(runs)
    learned = next(table for table in tables if table.title.endswith("test accuracy"))
    assert [row[0] for row in learned.rows] == ["uniform", "centralised", "local-only"]
    compared = [table for table in tables if "compared" in table.title]
    assert compared
    assert all(row[-1] == "reference" for table in compared for row in table.rows[1:])
    page = write([runs[0].path.parents[2]], tmp_path / "page.html").read_text()
    assert "centralised" in page


def test_a_reference_that_was_stopped_begins_anew_and_gives_the_same_bytes(runs, tmp_path):
    config = plan(small(method=METHODS[2:], rounds=12, seeds=1)).runs[0]
    played = []
    task = runner.OneRun(config, tmp_path / "run")
    assert not task(lambda *round: played.append(round), lambda: len(played) == 3)
    assert task(lambda *round: None, lambda: False)
    whole = next(run for run in runs if run.method == "local-only" and run.seed == 0)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == (whole.path / "rounds.jsonl").read_bytes()


def test_references_have_no_options_and_keep_their_label():
    with pytest.raises(InputError, match="Unknown key 'd'; centralised has none"):
        plan(small(method=[{"name": "centralised", "d": 3}]))
    with pytest.raises(InputError, match="left out for local-only"):
        plan(small(method=[{"name": "local-only", "label": "alone"}]))
    assert so.run("centralised", data="digits", clients=5, rounds=1, cohort=2, model="softmax").runs[0].done
