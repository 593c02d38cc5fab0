"""What commands import: those that only read and plan must not wait for PyTorch."""

import json
import subprocess
import sys

import pytest
import tomli_w
from tests.studies.tables import small

from sortition.studies.plan import plan
from sortition.studies.runs import runner

SCRIPT = """
import json, sys
from sortition.cli import main
sys.argv = ["sortition", *json.loads(sys.argv[1])]
try:
    main()
finally:
    heavy = {"torch", "sklearn", "scipy.stats", "polars", "altair"}
    print("\\nheavy:" + json.dumps(sorted(heavy & set(sys.modules))))
"""


def heavy(*words, code=0):
    """The heavy packages that a command imports."""
    called = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([str(word) for word in words])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.returncode == code, called.stderr
    return set(json.loads(called.stdout.rpartition("heavy:")[2]))


def test_a_typo_in_a_study_is_found_without_pytorch(tmp_path):
    file = tmp_path / "typo.toml"
    file.write_text(tomli_w.dumps({**small(), "cohrot": 3}))
    assert heavy("run", file, code=2) <= {"polars"}


@pytest.mark.parametrize("words", [["schema"], ["cite", "fedcor"]], ids=" ".join)
def test_reading_commands_import_nothing_heavy(words):
    assert not heavy(*words)


def test_why_needs_no_pytorch(tmp_path):
    runner.execute(plan(small(seeds=1, rounds=2)), tmp_path, jobs=1)
    folder = next(path.parent for path in tmp_path.rglob("audit.jsonl"))
    assert heavy("why", folder, "--round", 0) <= {"polars"}
