"""Studies and run folders from strangers: no memory is filled, nothing is written elsewhere, no script runs."""

import json
import os

import pytest
from tests.studies import folders
from tests.studies.tables import small

from sortition import report
from sortition.core.errors import InputError, SortitionError
from sortition.results import run_folder
from sortition.studies.audit import audit_run as audit
from sortition.studies.audit import explain
from sortition.studies.plan import plan, read
from sortition.studies.runs import runner

HUGE = 10**12
LOCAL = {"batch": 8, "lr": 0.1}


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"name": "digits", "clients": HUGE, "partition": "iid"}},
        {"data": {"name": "synthetic", "clients": HUGE}},
        {"data": {"name": "synthetic", "extra": HUGE}},
        {"data": {"name": "digits", "clients": 12, "partition": {"name": "shards", "per_client": HUGE}}},
        {"data": {"name": "/dev/zero", "clients": 12, "partition": "iid"}},
        {"availability": {"name": "trace", "path": "/dev/zero"}},
        {"rounds": HUGE},
        {"rounds": 10**400},
        {"cohort": HUGE},
        {"seeds": HUGE},
        {"seeds": [10**30]},
        {"local": {**LOCAL, "steps": HUGE}},
        {"local": {**LOCAL, "epochs": HUGE}},
        {"model": {"name": "mlp", "hidden": [HUGE]}},
        {"model": {"name": "mlp", "hidden": [1] * 10_000}},
        {"method": [{"name": "uniform", "label": "../../x"}]},
        {"method": [{"name": "uniform", "label": ".."}]},
        {"method": [{"name": "uniform", "label": "a\0b"}]},
        {"method": [{"name": "uniform", "label": "x" * 300}]},
        {"setting": [{"name": "../up"}]},
        {"setting": [{"name": "/etc"}]},
        {"setting": [{"name": "a\nb"}]},
        {"setting": [{"name": "x" * 300}]},
    ],
)
def test_a_study_that_asks_for_too_much_or_leads_elsewhere(change):
    with pytest.raises(SortitionError):
        runner.check_runs(plan({**small(seeds=1), **change}).runs[:1])


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000, "a." * 5000 + "b = 1", "\0"])
def test_toml_that_goes_too_deep(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InputError):
        plan(read(tmp_path / "a.toml"))


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize(
    "name", [run_folder.CONFIG, run_folder.MANIFEST, run_folder.SUMMARY, run_folder.ROUNDS, run_folder.AUDIT]
)
def test_devices_and_pipes_in_a_run_folder_are_refused_at_once(tmp_path, name, kind):
    run = folders.make(tmp_path, [0.1, 0.2])
    (run.path / run_folder.AUDIT).write_text("{}\n")
    (run.path / name).unlink()
    os.mkfifo(run.path / name) if kind == "pipe" else (run.path / name).symlink_to("/dev/zero")
    fresh = run_folder.Run(run.path)
    readers = {
        run_folder.CONFIG: lambda: fresh.config,
        run_folder.MANIFEST: lambda: fresh.manifest,
        run_folder.SUMMARY: lambda: fresh.summary,
        run_folder.ROUNDS: lambda: fresh.records,
        run_folder.AUDIT: lambda: explain.Log(fresh),
    }
    with pytest.raises(SortitionError, match="must be a file"):
        readers[name]()
    if name == run_folder.AUDIT:
        assert any("must be a file" in fault for fault in audit.examine(fresh).faults)
    else:
        with pytest.raises(SortitionError, match="must be a file"):
            report.write([tmp_path], tmp_path / "report.html")


def test_a_study_that_is_a_device(tmp_path):
    with pytest.raises(InputError, match="/dev/zero must be a file"):
        read("/dev/zero")
    os.mkfifo(tmp_path / "a.toml")
    with pytest.raises(InputError, match="must be a file"):
        read(tmp_path / "a.toml")


SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_no_text_of_a_run_becomes_a_script(tmp_path):
    for seed in range(2):
        run = folders.make(tmp_path / "runs", [0.1, 0.2, 0.3], method="uniform", seed=seed)
        config = run.config | {"setting": SCRIPT, "title": SCRIPT}
        config["method"] = {"name": SCRIPT, "label": SCRIPT}
        from sortition.studies.runs import write_folder

        write_folder.write_config(run.path / run_folder.CONFIG, config)
        manifest = {"sortition": SCRIPT, "cite": SCRIPT, "notes": [SCRIPT], "needs": {"asks": {SCRIPT: SCRIPT}}}
        write_folder.write_document(run.path / run_folder.MANIFEST, run.manifest | manifest)
        lines = [json.loads(line) for line in (run.path / run_folder.ROUNDS).read_text().splitlines()]
        text = "".join(json.dumps({**line, "notes": {SCRIPT: SCRIPT, "phase": SCRIPT}}) + "\n" for line in lines)
        (run.path / run_folder.ROUNDS).write_text(text)
    page = report.write([tmp_path / "runs"], tmp_path / "report.html").read_text()
    assert "<img src=x" not in page
    assert "<script>alert(1)" not in page
    assert "alert(1)" in page  # it is shown, as text
