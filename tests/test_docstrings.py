"""What docstrings refer to is there: modules, classes, functions, and the members of classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
REFERENCE = re.compile(r":(?:mod|class|meth|func|attr|data|exc):`~?([\w.]+)`")
MEMBER = re.compile(r"``(?:\w+\.)*([A-Z]\w+)\.(\w+)``")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body and of its branches, but not what is inside classes and functions."""
    for statement in body:
        yield statement
        for branch in ("body", "orelse", "finalbody", "handlers"):
            if not isinstance(statement, FUNCTION | ast.ClassDef):
                yield from statements(getattr(statement, branch, []))


def defined_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that a module or a class defines or imports."""
    names: set[str] = set()
    for statement in statements(body):
        if isinstance(statement, FUNCTION | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update(imported.asname or imported.name for imported in statement.names)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            names.update(node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return names


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the attributes that the functions of a class set: ``self.name = …``."""
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)}


TREES = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
MODULES = {module_name(path): defined_names(tree.body) for path, tree in TREES.items()}
CLASSES: dict[str, list[ast.ClassDef]] = {}
for parsed in TREES.values():
    for part in ast.walk(parsed):
        if isinstance(part, ast.ClassDef):
            CLASSES.setdefault(part.name, []).append(part)


def has_member(class_name: str, member: str) -> bool:
    """Tell whether a class of this name, or one that it inherits from, has this member; of foreign ones it may."""
    if class_name not in CLASSES:
        return True
    for node in CLASSES[class_name]:
        if member in defined_names(node.body) | attributes(node):
            return True
        parents = {part.id for base in node.bases for part in ast.walk(base) if isinstance(part, ast.Name)}
        if any(has_member(parent, member) for parent in parents & CLASSES.keys() - {class_name}):
            return True
    return False


def leads_somewhere(reference: str, path: Path, classes: tuple[str, ...]) -> bool:
    """Tell whether a reference in a docstring of this module, inside these classes, names something."""
    module = module_name(path)
    if reference.startswith("."):
        return module_name(path.parent) + reference in MODULES
    parts = reference.split(".")
    if parts[0] == "sortition":
        n_module_parts = max(n for n in range(1, len(parts) + 1) if ".".join(parts[:n]) in MODULES)
        module = ".".join(parts[:n_module_parts])
        parts = parts[n_module_parts:]
    if not parts:
        return True
    is_member = len(parts) == 1 and any(parts[0] in CLASSES or has_member(name, parts[0]) for name in classes)
    if parts[0] not in MODULES[module] and parts[0] not in CLASSES:
        return is_member
    return len(parts) == 1 or has_member(parts[0], parts[1])


def dangling(node: ast.AST, path: Path, classes: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the references of all docstrings below a node that lead nowhere."""
    if isinstance(node, ast.ClassDef):
        classes = (*classes, node.name)
    if isinstance(node, ast.Module | ast.ClassDef | FUNCTION):
        text = ast.get_docstring(node) or ""
        for reference in REFERENCE.findall(text):
            if not leads_somewhere(reference, path, classes):
                yield reference
        for class_name, member in MEMBER.findall(text):
            if not has_member(class_name, member):
                yield f"{class_name}.{member}"
    for child in ast.iter_child_nodes(node):
        yield from dangling(child, path, classes)


@pytest.mark.parametrize("path", TREES, ids=module_name)
def test_docstrings_refer_to_what_is_there(path: Path) -> None:
    assert not list(dangling(TREES[path], path))
