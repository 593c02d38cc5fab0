"""How complex a piece of code may be, and that one name means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from radon.complexity import cc_visit

import sortition
import sortition.core

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sortition"
FILES = sorted(SOURCE.rglob("*.py"))
WORKSHOP = sorted((ROOT / "workshop").glob("*.py"))
COMPLEX = 15

# Names that had two meanings before.
ONCE = {"Closing", "Faults", "Figure", "Goal", "Outcome", "Plan", "Sender", "Task"}


def named(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", [*FILES, *WORKSHOP], ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_simple(path: Path) -> None:
    for block in cc_visit(path.read_text()):
        for function in getattr(block, "methods", [block]):
            where = f"{path.name}:{function.name}"
            assert function.complexity <= COMPLEX, f"{where} has {function.complexity}"


def test_a_public_class_name_means_one_thing() -> None:
    public = {*sortition.__all__, *sortition.core.__all__} | ONCE
    homes = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.name in public:
                homes[node.name].add(named(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
