"""The same answers give the same choices, whatever the processor; ``make test-portable`` tries all kernels."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.selectors.portable_cohorts import slow_numpy

ROOT = Path(__file__).parents[2]
X86 = platform.machine().lower() in ("x86_64", "amd64")


def started(**environment: str) -> subprocess.Popen[str]:
    """A process that prints what every method chooses."""
    everything = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.selectors.portable_cohorts"]
    return subprocess.Popen(command, cwd=ROOT, env=everything, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not X86, reason="these are kernels for x86")
def test_methods_choose_the_same_under_other_kernels_and_threads():
    processes = [
        started(OPENBLAS_CORETYPE="Prescott", OPENBLAS_NUM_THREADS="1", **slow_numpy("Prescott")),
        started(OPENBLAS_CORETYPE="Haswell", OPENBLAS_NUM_THREADS="2"),
    ]
    first, second = (json.loads(process.communicate(timeout=300)[0]) for process in processes)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
