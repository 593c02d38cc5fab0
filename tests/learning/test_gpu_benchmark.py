"""The benchmark for owners of a card runs on a CPU, by every engine, at a tiny size."""

import importlib
from pathlib import Path

import pytest
import torch

HOME = Path(__file__).parents[2]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(HOME / "benchmarks"))
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "WARM_UP", 1)
    monkeypatch.setattr(module, "EXAMPLES_PER_CLIENT", 10)
    return module


def test_every_way_gives_a_row_of_finite_figures(gpu):
    assert {way.engine for way in gpu.WAYS} == {"sequential", "vmapped", "stacked"}
    assert {way.precision for way in gpu.WAYS} == {"float32", "bf16"}
    for way in gpu.WAYS:
        row = gpu.measured(way, torch.device("cpu"), cohort=2, rounds=1)
        assert row[:3] == [way.name, way.engine, way.precision]
        assert float(row[3]) > 0
        assert 0 < float(row[6]) < 10
