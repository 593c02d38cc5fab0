"""The example apps run as they stand, in simulation, and a stock app has changed two lines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.flower
EXAMPLES = Path(__file__).parents[2] / "examples" / "flower"


@pytest.mark.parametrize(("app", "method"), [("pytorch", "fedgs"), ("numpy", "divfl")])
def test_apps_run_in_simulation(app, method, tmp_path):
    history = tmp_path / "history.jsonl"
    config = f"history='{history}' cohort=3 num-server-rounds=2 method='{method}'"
    command = [sys.executable, EXAMPLES / "deploy.py", EXAMPLES / app, "--nodes", "6", "--simulate"]
    done = subprocess.run(
        [*command, "--folder", tmp_path / "flower", "--config", config],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    told = [json.loads(line) for line in history.read_text().splitlines()]
    assert [len(record["answered"]) for record in told] == [3, 3]
