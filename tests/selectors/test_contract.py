"""Every discovered method keeps the public contract; a new file is checked without an edit here."""

from __future__ import annotations

import pytest

from sortition.selectors import discover, find
from sortition.testing import contract


@pytest.mark.parametrize("name", discover())
def test_keeps_the_contract(name: str) -> None:
    for _, check in contract(find(name)):
        check()


@pytest.mark.parametrize("name", discover())
def test_cites_its_paper_and_names_its_deviations(name: str) -> None:
    cls = find(name)
    assert cls.cite.startswith("@"), "BibTeX"
    module = __import__(cls.__module__, fromlist=["_"])
    assert "Deviations" in (module.__doc__ or "")
