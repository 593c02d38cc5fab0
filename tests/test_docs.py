"""What the documents print works as printed."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

from sortition.testing import check_selector

ROOT = Path(__file__).parents[1]


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_the_registrar_lines_of_the_readme(tmp_path):
    code = next(block for block in blocks("README.md") if "Registrar(" in block)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("train") == 3
    assert (tmp_path / "registrar.npz").exists()


def test_the_method_of_contributing_keeps_the_contract(monkeypatch):
    module = types.ModuleType("neglected")
    monkeypatch.setitem(sys.modules, "neglected", module)
    exec(blocks("CONTRIBUTING.md")[0], vars(module))  # noqa: S102
    check_selector(module.Neglected)
