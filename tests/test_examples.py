"""Every example runs as it stands."""

import runpy
import sys
from pathlib import Path

import pytest

from sortition.studies import study

EXAMPLES = Path(__file__).parents[1] / "examples"


CUT = {
    "adversaries": ["rounds=3", 'methods=["uniform", "power-of-choice", "cs-ucb-q", "fedgs"]']
}  # 169 runs are too many


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_studies(path, tmp_path):
    sets = ["seeds=1", *CUT.get(path.stem, [])]  # every setting, once; every method too unless cut
    result = study(path, out=tmp_path, sets=sets)
    assert all(run.done for run in result.runs)
    assert result.tables


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_scripts(path, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert "| uniform" in capsys.readouterr().out
    sys.modules.pop(path.stem, None)
