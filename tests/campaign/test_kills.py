"""A few real kills; ``python -m campaign kills`` makes two hundred."""

import subprocess
import sys

from campaign.kills import METHODS

from sortition.selectors import discover


def test_every_method_is_killed():
    assert sorted(method["name"] for method in METHODS) == sorted(discover())


def test_killed_runs_come_out_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "campaign", "kills", "--kills", "2"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 came out different" in done.stdout
