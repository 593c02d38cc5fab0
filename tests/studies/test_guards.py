"""Guards of a study: a table of the file, of a setting, of a method; runs without them stay as they were."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.studies.tables import small

from sortition.core import Guards
from sortition.core.errors import InputError
from sortition.studies import build_federation
from sortition.studies.config import RunConfig, validated
from sortition.studies.plan import plan
from sortition.studies.runs.resume import run_state

PAGE = (Path(__file__).parents[2] / "docs" / "guards.md").read_text()


def test_a_method_overrides_a_setting_overrides_the_study():
    made = plan(
        small(
            guards={"explore": 0.1, "minimum": 2},
            setting=[{"name": "a"}, {"name": "b", "guards": {"explore": 0.2}}],
            method=[{"name": "uniform"}, {"name": "uniform", "label": "own", "guards": {"minimum": 3, "norm": 0}}],
            seeds=1,
        )
    )
    found = {(run.setting, run.method.label): run.guards.changed() for run in made.runs}
    assert found == {
        ("a", "uniform"): {"explore": 0.1, "minimum": 2},
        ("a", "own"): {"explore": 0.1, "minimum": 3, "norm": 0},
        ("b", "uniform"): {"explore": 0.2, "minimum": 2},
        ("b", "own"): {"explore": 0.2, "minimum": 3, "norm": 0},
    }
    for run in made.runs:
        assert validated(RunConfig, run.table(), "run").guards == run.guards
        assert build_federation.setup(run)[1].guards == run.guards


def test_the_command_line_and_sweeps_reach_them():
    assert plan(small(seeds=1), ["guards.quarantine=7"]).runs[0].guards.quarantine == 7
    swept = plan(small(seeds=1, sweep={"guards": {"explore": [0.0, 0.3]}}))
    assert sorted({run.guards.explore for run in swept.runs}) == [0.0, 0.3]


def test_folders_without_guards_stay_as_they_were():
    run = plan(small(seeds=1)).runs[0]
    assert "guards" not in run.table()
    assert run.guards == type(run.guards)()
    assert Guards(**run.guards.changed()) == Guards()


def test_other_guards_are_another_configuration(tmp_path):
    import tomli_w

    run = plan(small(seeds=1)).runs[0]
    (tmp_path / "config.toml").write_text(tomli_w.dumps(run.table()))
    assert run_state(run, tmp_path) == "started"
    with pytest.raises(Exception, match=r"guards.explore was absent, is 0.1"):
        run_state(plan(small(seeds=1, guards={"explore": 0.1})).runs[0], tmp_path)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"explor": 0.1}, r"Unknown key 'explor'; study.guards has .*Did you mean 'explore'"),
        ({"explore": 1.5}, r"Guards.explore must be a share in \[0, 1\]"),
        ({"minimum": "five"}, "study.guards.minimum must be a whole number"),
    ],
)
def test_bad_tables_are_told_before_anything_runs(wrong, told):
    with pytest.raises(InputError, match=told):
        plan(small(guards=wrong))


def test_a_minimum_above_the_cohort_is_told_too():
    with pytest.raises(InputError, match=r"Guards.minimum must be at most the cohort, 3; got 9"):
        build_federation.setup(plan(small(seeds=1, guards={"minimum": 9})).runs[0])


def test_the_page_works_as_printed(tmp_path):
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "thinned" in done.stdout
    table = next(block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    made = plan({**small(seeds=1), "cohort": 5, **tomllib.loads(table)})
    assert [run.guards.winsorise for run in made.runs] == [3, 0]
    for name in Guards.__dataclass_fields__:
        assert f"`{name}`" in PAGE, name
