"""The documentation site: what is generated from the code is complete; `make docs` checks links and builds it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sortition.selectors import discover

DOCS = Path(__file__).parents[1] / "docs"


def extension(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "_ext" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", discover())
def test_every_method_has_a_page_and_every_parameter_a_meaning(name):
    page = DOCS / "methods" / f"{name}.md"
    assert page.read_text().startswith("# "), name
    facts = extension("generated_pages").method_facts(name)
    assert "## Citation" in facts
    rows = [line for line in facts.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert [line for line in rows if line.endswith("|  |")] == []


def test_every_key_of_a_study_has_a_meaning():
    pages = extension("generated_pages")
    for title, cls in pages.tables():
        silent = [key for key, _, _, words in pages.rows(cls) if not words]
        assert silent == [], f"{title}: say what these mean in the docstring of {cls.__name__}: {silent}"


def test_every_command_is_described():
    text = extension("generated_pages").command_line()
    for command in ("run", "report", "reproduce", "list", "show", "check", "audit", "why", "data get"):
        assert f"## `sortition {command}`" in text


def test_every_page_is_reached_from_the_index():
    """A page that no toctree names would be an orphan; patterns of the index are expanded."""
    named: set[Path] = set()
    folder, inside, glob = DOCS, False, False
    for line in (DOCS / "index.md").read_text().splitlines():
        if line.startswith("```"):
            inside = line.startswith("```{toctree}")
            glob = False
        elif inside and line == ":glob:":
            glob = True
        elif inside and line and not line.startswith(":"):
            named |= set(folder.glob(f"{line}.*")) if glob else {folder / f"{line}.md", folder / f"{line}.ipynb"}
    generated = {DOCS / f"{name}.md" for name in ("contributing", "changelog", "methods/index")}
    generated |= {DOCS / "reference" / f"{name}.md" for name in ("study-keys", "command-line")}
    pages = {page for page in DOCS.rglob("*.md") if "_build" not in page.parts} - {DOCS / "index.md"} - generated
    methods = {DOCS / "methods" / f"{name}.md" for name in discover()}
    assert sorted(str(page.relative_to(DOCS)) for page in pages - named - methods) == []


def test_links_out_of_the_documentation_become_words(tmp_path):
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "fedgs.md").write_text("# FedGS")
    plain = extension("repository_links").plain
    assert plain("engine", "see [the code](../src/sortition/core/turn.py)", tmp_path) == "see the code"
    assert plain("engine", "see [FedGS](methods/fedgs.md)", tmp_path) == "see [FedGS](methods/fedgs.md)"
    assert plain("engine", "see [more](../CONTRIBUTING.md)", tmp_path) == "see [more](/contributing.md)"
    assert plain("engine", "see [all](methods/)", tmp_path) == "see all"


def test_the_extensions_need_no_sphinx():
    extension("generated_pages")
    assert "sphinx" not in sys.modules
