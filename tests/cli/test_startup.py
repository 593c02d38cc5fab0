"""What a command loads before it answers: nobody waits for a library that is not needed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.studies.tables import small

from sortition.studies.plan import plan
from sortition.studies.runs import runner

SCRIPT = """
import sys
from sortition.__main__ import main
sys.argv = ["sortition", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("LOADED", *sys.modules)
"""
HEAVY = {"torch", "sklearn", "scipy.stats", "altair", "polars"}


def loaded(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.rsplit("LOADED", 1)[1].split())


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("data", "--help")], ids=" ".join)
def test_help_loads_no_array_and_no_vocabulary(words):
    found = loaded(*words)
    assert {"typer", "sortition.cli"} <= found
    assert not {"numpy", "pydantic", "polars", "sortition.core", *HEAVY} & found


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("show", "fedgs"),
        ("cite", "fedss"),
        ("schema",),
        ("data", "list"),
        ("why", "no-such-run", "--round", "1"),
        ("run", "{typo}"),
    ],
    ids=" ".join,
)
def test_light_commands_load_no_heavy_library(words, tmp_path):
    typo = tmp_path / "typo.toml"
    typo.write_text('rouds = 3\n[[method]]\nname = "uniform"\n')
    found = loaded(*[word.format(typo=typo) for word in words])
    assert "sortition.core" in found
    assert not HEAVY & found


def test_a_study_loads_neither_markdown_nor_tls(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('rounds = 0\n[[method]]\nname = "uniform"\n')
    assert not {"rich.markdown", "urllib.request", "ssl"} & loaded("run", str(study))


def test_the_index_of_published_tables_needs_no_pytorch():
    assert "torch" not in loaded("reproduce")


def test_why_needs_no_pytorch(tmp_path):
    runner.execute(plan(small(seeds=1, rounds=2)), tmp_path, jobs=1)
    folder = next(path.parent for path in tmp_path.rglob("audit.jsonl"))
    assert not HEAVY & loaded("why", str(folder), "--round", "0")
