"""What tests, examples and campaigns import from the package exists, also in files that need an optional library."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.test_docstrings import MODULES

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "campaign", "benchmarks", "examples", "workshop")


def lacks(module: str, name: str) -> bool:
    """Tell whether a module of the package has no such name; a module with ``__getattr__`` may have any."""
    names = MODULES[module]
    return name not in names and "__getattr__" not in names and f"{module}.{name}" not in MODULES


def missing_names(tree: ast.Module) -> list[str]:
    """Return the names that a file imports from the package, or reads of its modules, and that are not there."""
    missing = []
    imported_modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sortition"):
            continue
        if node.module not in MODULES:
            missing.append(str(node.module))
            continue
        for imported in node.names:
            if lacks(node.module, imported.name):
                missing.append(f"{node.module}.{imported.name}")
            if f"{node.module}.{imported.name}" in MODULES:
                imported_modules[imported.asname or imported.name] = f"{node.module}.{imported.name}"
    hidden = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    hidden |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        module = imported_modules.get(node.value.id)
        if module and node.value.id not in hidden and not node.attr.startswith("__") and lacks(module, node.attr):
            missing.append(f"{module}.{node.attr}")
    return missing


def test_a_name_that_is_not_there_is_found():
    imports = "from sortition.results import run_folder\nfrom sortition.results.run_folder import find, linez\n"
    tree = ast.parse(f"{imports}run_folder.lines(run_folder.ROUNDS)")
    assert missing_names(tree) == ["sortition.results.run_folder.linez", "sortition.results.run_folder.lines"]


def test_every_imported_name_is_there():
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 800
    names_by_file = {
        str(path.relative_to(ROOT)): missing_names(ast.parse(path.read_text(encoding="utf-8"))) for path in files
    }
    assert {file: names for file, names in names_by_file.items() if names} == {}
