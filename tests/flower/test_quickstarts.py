"""Stock apps with two lines changed, under ``flwr run`` in Flower's simulation."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from tests.flower.in_process import with_two_lines
from tests.flower.processes import LONGEST

pytestmark = pytest.mark.flower
DEPLOY = Path(__file__).parents[2] / "examples" / "flower" / "deploy.py"


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("pytorch", 'SelectorStrategy(load("divfl"), cohort=3)', "DivFL chose 3 of 6"),
        ("sklearn", 'SelectorStrategy(load("active"), cohort=3)', "Active chose 3 of 6"),
        ("numpy", 'SelectorStrategy(load("fedgs"), cohort=3, strategy=FedAvg())', "FedGS chose 3 of 6"),
    ],
)
def test_a_stock_app_with_two_lines_runs(name, line, said, tmp_path):
    app = with_two_lines(name, tmp_path, line)
    command = [sys.executable, DEPLOY, app, "--nodes", "6", "--simulate", "--folder", tmp_path / "flower"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert said in done.stdout
    assert "aggregate_train: Received 3 results and 0 failures" in done.stdout
    assert "aggregate_evaluate" in done.stdout
