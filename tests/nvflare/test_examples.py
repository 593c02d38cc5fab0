"""The examples run offline as they stand, as scripts and exported; a stock FedAvg recipe has changed a few lines."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pytest
from tests.nvflare.processes import EXAMPLES, history, run

STOCK = Path(__file__).parent / "stock"


@pytest.mark.parametrize("name", ["job.py", "client.py", "model.py"])
def test_the_pytorch_example_is_a_stock_app_and_a_few_lines(name):
    stock, ours = ((folder / name).read_text().split('"""', 2)[2] for folder in (STOCK, EXAMPLES / "pytorch"))
    lines = [
        line for line in difflib.ndiff(stock.splitlines(), ours.splitlines()) if line[0] in "+-" and line[1:].strip()
    ]
    assert len([line for line in lines if line[0] == "-"]) <= 1
    assert len([line for line in lines if line[0] == "+"]) <= {"job.py": 4, "client.py": 3, "model.py": 0}[name]


@pytest.mark.nvflare
def test_the_stock_recipe_runs_without_us(tmp_path):
    run([sys.executable, STOCK / "job.py", "--rounds", "2"], tmp_path)
    assert list(tmp_path.rglob("FL_global_model.pt"))


@pytest.mark.nvflare
@pytest.mark.parametrize("method", ["fedgs", "divfl"])
def test_the_pytorch_example(method, tmp_path):
    written = run([sys.executable, EXAMPLES / "pytorch" / "job.py", "--rounds", "3", "--method", method], tmp_path)
    rounds = history(tmp_path / "workspace" / "run.npz")
    assert [len(record["answered"]) for record in rounds] == [2, 2, 2]
    assert list(tmp_path.rglob("FL_global_model.pt"))
    assert "chose site-" in written


@pytest.mark.nvflare
def test_the_exported_pytorch_job_in_nvflares_simulator(tmp_path):
    export = ["--rounds", "2", "--export", "--export-dir", tmp_path / "jobs"]
    run([sys.executable, EXAMPLES / "pytorch" / "job.py", *export], tmp_path)
    assert not (tmp_path / "workspace" / "run.npz").exists()
    (job,) = (tmp_path / "jobs").iterdir()
    tool = Path(sys.executable).parent / "nvflare"
    run([tool, "simulator", "-w", tmp_path / "simulated", "-n", "6", "-t", "6", job], tmp_path)
    assert [len(record["answered"]) for record in history(tmp_path / "workspace" / "run.npz")] == [2, 2]


@pytest.mark.nvflare
def test_the_numpy_example(tmp_path):
    run([sys.executable, EXAMPLES / "numpy" / "job.py", "power-of-choice"], tmp_path)
    assert [len(record["answered"]) for record in history(tmp_path / "nvflare-digits.npz")] == [2] * 5
    run([sys.executable, EXAMPLES / "numpy" / "job.py", "--export"], tmp_path)
    assert (tmp_path / "jobs" / "digits" / "meta.json").exists()
