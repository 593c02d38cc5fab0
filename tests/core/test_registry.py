from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sortition.core.errors import InputError
from sortition.core.registry import Family, Rule

FILE = """
from pydantic import Field

from sortition.core.registry import Rule


class Quick(Rule):
    speed: float = Field(1.0, gt=0)
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family[Rule]:
    package = tmp_path / "a_family_of_rules"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "very_quick.py").write_text(FILE)
    (package / "_hidden.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("a_family_of_rules")]:
        monkeypatch.delitem(sys.modules, name)
    return Family("a_family_of_rules", "pace", Rule, {"VQ": "very-quick"})


def test_a_file_is_a_rule(family: Family[Rule]) -> None:
    assert family.discover() == ["very-quick"]
    for name in ("very-quick", "very_quick", "VQ", "vq"):
        assert family.make(name, {"speed": 2}).model_dump() == {"speed": 2.0}


def test_mistakes(family: Family[Rule]) -> None:
    with pytest.raises(
        InputError, match=r"Unknown pace 'very-quik'; known are very-quick, VQ. Did you mean 'very-quick'?"
    ):
        family.make("very-quik", {})
    with pytest.raises(InputError, match=r"Unknown key 'sped'; pace very-quick has speed. Did you mean 'speed'?"):
        family.make("very-quick", {"sped": 1})
    with pytest.raises(InputError, match=r"pace very-quick.speed must be > 0"):
        family.make("very-quick", {"speed": 0})
