"""Every block of Python in the documentation runs, each page in one namespace with what its reader has at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from tests.studies.tables import small

ROOT = Path(__file__).parents[1]
ELSEWHERE = {  # where else the blocks of a page are run
    "README.md": "test_docs.py",
    "CONTRIBUTING.md": "test_docs.py",
    "docs/aggregation.md": "test_docs.py",
    "docs/start/server-loop.md": "test_docs.py",
    "docs/tutorials/own-method.md": "test_docs.py",
    "docs/tutorials/from-logs.md": "test_docs.py",
    "docs/flower.md": "flower/matrix.py: lines to be put into an app, and run in apps of many kinds",
    "docs/nvflare.md": "nvflare: the same, in NVFlare's simulator",
    "docs/time.md": "federation/test_overlap.py and flower/test_pace.py: lines of a server and of an app",
    "docs/operate.md": "federation/test_shadow.py and core/test_policy.py: lines of a server and of an app",
    "docs/design.md": "selectors/test_power_of_choice.py: an excerpt of a method's file",
}


def blocks(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)


PAGES = [
    str(page.relative_to(ROOT))
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if blocks(str(page.relative_to(ROOT))) and not {"_build", "reproduction"} & set(page.parts)
]


def files_of_the_data_page(folder: Path) -> dict[str, Any]:
    """The files that docs/data.md names, and small arrays."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)).astype(np.float32), np.arange(40) % 2
    np.savez(folder / "my.npz", x=x, y=y)
    for part in ("train", "test"):
        held = {"u": {"x": [[0.0, 1.0]] * 4, "y": [0, 1, 0, 1]}}
        (folder / "femnist" / part).mkdir(parents=True)
        (folder / "femnist" / part / "all.json").write_text(
            json.dumps({"users": ["u"], "num_samples": [4], "user_data": held})
        )
    rows = [f"{k % 3},{k % 2},{k}.5" for k in range(30)]
    (folder / "visits.csv").write_text("\n".join(["ward,outcome,pulse", *rows]) + "\n")
    return {"x": x, "y": y}


def runs_of_the_studies_page(folder: Path) -> dict[str, Any]:
    """The runs that docs/studies.md reads, and what a reader has of their own."""
    import torch

    from sortition.studies import study

    (folder / "study.toml").write_text(tomli_w.dumps(small(rounds=2, seeds=1)))
    study(folder / "study.toml", out=folder / "runs" / "mine", progress=False)
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(120, 5)).astype(np.float32), "y": np.arange(120) % 2}
    return given | {"my_torch_module": torch.nn.Linear(5, 2), "MySelector": {"name": "by-size", "label": "mine"}}


def runs_of_the_statistics_page(folder: Path) -> dict[str, Any]:
    return {"uniform": [0.5, 0.6, 0.7], "fedgs": [0.6, 0.69, 0.8], "hics": {0: 0.5, 1: 0.61, 2: 0.7}}


def result_of_the_report_page(folder: Path) -> dict[str, Any]:
    """A small study with the methods that docs/report.md names."""
    from sortition.studies import compare

    methods = ["uniform", "fedgs", "oort"]
    return {"result": compare(methods, data="digits", clients=10, cohort=2, rounds=12, seeds=2, progress=False, jobs=1)}


AT_HAND = {
    "docs/data.md": files_of_the_data_page,
    "docs/report.md": result_of_the_report_page,
    "docs/studies.md": runs_of_the_studies_page,
    "docs/statistics.md": runs_of_the_statistics_page,
}
SMALLER = {  # so that a test is quick and needs no data set and no pandas
    "docs/data.md": {'"fashion-mnist"': '"digits"'},
    "docs/studies.md": {
        "clients=100": "progress=False, clients=6",
        "rounds=100, cohort=10, seeds=10": "rounds=2, cohort=2, seeds=1",
        "result.to_pandas(); ": "",
    },
}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = AT_HAND[page](tmp_path) if page in AT_HAND else {}
    for code in blocks(page):
        for long, short in SMALLER.get(page, {}).items():
            code = code.replace(long, short)
        exec(compile(code, page, "exec"), space)  # noqa: S102


def test_what_runs_elsewhere_has_blocks():
    assert [page for page in ELSEWHERE if page not in PAGES] == []
