"""Every discovered method keeps the public contract; a new file is checked without an edit here."""

from __future__ import annotations

import math

import pytest

from sortition.selectors import discover, find
from sortition.testing import contract, selection_cost


@pytest.mark.parametrize("name", discover())
def test_keeps_the_contract(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory must not outgrow the clients; seconds are for benchmarks/selection.py, on a machine with nothing else."""
    monkeypatch.setattr(selection_cost, "MOST_TIMES_THE_SECONDS", math.inf)
    for _, check in contract(find(name)):
        check()


@pytest.mark.parametrize("name", discover())
def test_cites_its_paper_and_names_its_deviations(name: str) -> None:
    cls = find(name)
    assert cls.cite.startswith("@"), "BibTeX"
    module = __import__(cls.__module__, fromlist=["_"])
    assert "Deviations" in (module.__doc__ or "")
