"""What a release needs: workflows that name what exists, an image that can be built, types that others can use."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import sortition

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    return read


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


def test_changes_are_checked_where_the_package_promises_to_run():
    jobs = workflow("checks")["jobs"]
    assert jobs["tests"]["strategy"]["matrix"] == {
        "os": ["ubuntu-latest", "macos-latest"],
        "python": ["3.11", "3.12", "3.13"],
    }
    assert "--resolution lowest-direct" in commands(jobs["lower-bounds"])
    assert jobs["adapters"]["strategy"]["matrix"]["target"] == ["test-flower", "test-nvflare", "test-ray"]
    assert "make docs" in commands(jobs["documentation"])
    assert "make dist" in commands(jobs["documentation"])


def test_a_tag_publishes_without_a_password():
    read = workflow("release")
    assert read[True]["push"]["tags"] == ["v*"]  # YAML 1.1 reads the key "on" as true
    publish = read["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert "make dist" in commands(read["jobs"]["build"])
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_version_changelog_and_citation_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = citation.get("date-released")
    assert str(citation["version"]) == sortition.__version__
    assert headings[0] == f"{sortition.__version__} {f'– {released}' if released else '(unreleased)'}"


def test_the_citation_names_the_five_papers():
    from sortition import load

    references = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    titles = [" ".join(reference["title"].split()) for reference in references]
    for name, title in zip(("fedgs", "fedcor", "longfed", "hics", "fedss"), titles, strict=True):
        cited = re.sub(r"[{}]", "", " ".join(load(name).cite.split()))
        assert title.lower() in cited.lower()


def test_classifiers_name_the_versions_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert named == workflow("checks")["jobs"]["tests"]["strategy"]["matrix"]["python"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_only_what_exists(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        called = set(re.findall(r"\bmake ([a-z-]+)", commands(job)))
        called |= set(job.get("strategy", {}).get("matrix", {}).get("target", []))
        assert called <= targets
        assert all((ROOT / script).exists() for script in re.findall(r"bash (\S+)", commands(job)))


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
ATTRIBUTES = {"label", "description", "placeholder", "value", "render", "multiple", "options", "default"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_have_the_keys_that_github_knows(path):
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    for element in form["body"]:
        assert set(element["attributes"]) <= ATTRIBUTES, "quote a label that has a comma"


def test_the_image_can_be_built_from_this_tree():
    text = (ROOT / "Containerfile").read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert {words[0] for words in lines} <= {"FROM", "WORKDIR", "COPY", "RUN", "USER", "CMD"}
    assert lines[0][0] == "FROM"
    assert ":" in lines[0][1], "the base image must have a tag"
    for words in lines:
        if words[0] == "COPY":
            assert [name for name in words[1:-1] if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = {name for words in lines if words[0] == "COPY" for name in words[1:-1]}
    assert {project["readme"], *project["license-files"], "pyproject.toml", "src"} <= copied
    for extra in re.findall(r"'\.\[([^\]]+)\]'", text)[0].split(","):
        assert extra in project["optional-dependencies"]
    assert [words[0] for words in lines].index("USER") > [words[0] for words in lines].index("RUN"), "not as root"


CONSUMER = """
import sortition as so

registrar = so.Registrar(so.load("fedgs", alpha=0.5), so.Population(sizes=[3, 4], label_counts=[[3, 0], [0, 4]]))
turn = registrar.begin([0, 1], budget=1)
cohort = turn.cohort
if cohort is not None:
    total: float = float(cohort.weights.sum())
"""


@pytest.mark.slow
def test_types_can_be_used_from_outside(tmp_path):
    """The package is typed for others: right calls pass, and wrong ones are found."""
    (tmp_path / "right.py").write_text(CONSUMER)
    (tmp_path / "wrong.py").write_text(f"{CONSUMER}\nregistrar.begin([0, 1], budget='one')\nnumber: int = cohort\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "right.py", "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in found if not line.startswith("wrong.py")] == [], done.stdout + done.stderr
    assert any("[arg-type]" in line for line in found)
    assert any("[assignment]" in line for line in found)
