"""What ``import sortition`` gives, and what it does not load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sortition

FACE = Path(sortition.__file__)


def loaded(code: str) -> set[str]:
    """The top-level packages and rooms that a fresh interpreter has loaded after the code."""
    script = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", sortition.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(sortition, name) is not None


def test_names_are_those_of_their_rooms():
    from sortition.core import Registrar
    from sortition.selectors import load
    from sortition.testing import check_selector

    assert (sortition.Registrar, sortition.load, sortition.check_selector) == (Registrar, load, check_selector)


def test_importing_the_package_loads_no_library_and_no_room():
    found = loaded("import sortition")
    assert not {"numpy", "pydantic", "scipy", "torch", "sortition.core"} & found
    assert {"numpy", "sortition.core"} <= loaded("from sortition import Registrar")
    assert not {"torch", "scipy", "sklearn"} & loaded("from sortition import *")


@pytest.mark.parametrize("room", sortition._ROOMS)
def test_packages_are_attributes_before_anything_else_imported_them(room):
    assert f"sortition.{room}" in loaded(f"import sortition as so; assert so.{room}.__name__ == 'sortition.{room}'")
    assert room in dir(sortition)


def test_packages_of_the_reference_are_attributes():
    """But the adapters: their frameworks may be missing, so they are imported by name."""
    reference = (FACE.parents[2] / "docs" / "reference" / "api.md").read_text()
    packages = set(re.findall(r"\bsortition\.([a-z_]+)\.", reference))
    assert packages - {"flower", "nvflare"} <= set(sortition._ROOMS)


def test_dir_lists_the_public_names_before_they_are_used():
    script = "import sortition; print(set(sortition.__all__) <= set(dir(sortition)), 'Registrar' in vars(sortition))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'sortition' has no attribute 'Registrrar'"):
        sortition.Registrrar  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse(FACE.read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test))
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen | {"__version__"} == set(sortition.__all__)
