"""Run folders small enough to reckon with by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from sortition.results.run_folder import FORMAT

COUNTS = np.array([[4, 0], [0, 4], [2, 2], [4, 0]])
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)


def write_run(
    out: Path,
    method: str,
    seed: int,
    accuracies: list[float],
    *,
    setting: str = "main",
    cohorts: list[list[int]] | None = None,
    target: float | None = 0.5,
    done: bool = True,
    notes: dict | None = None,
    name: str | None = None,
    sent: dict | None = None,
    options: dict | None = None,
    test_examples: int | None = 10_000,
) -> Path:
    home = out / setting / method / f"seed-{seed}"
    home.mkdir(parents=True)
    config = {
        "rounds": len(accuracies),
        "cohort": 2,
        "seed": seed,
        "setting": setting,
        "data": {"name": "tiny", "clients": 4, "partition": {"name": "shards"}},
        "model": {"name": "softmax"},
        "local": {"steps": 2, "batch": 4, "lr": 0.1},
        "method": {"name": name or method, "label": method, **(options or {})},
    }
    if target is not None:
        config["target"] = {"accuracy": target}
    (home / "config.toml").write_text(tomli_w.dumps(config))
    needs = {"reads": ["sizes"], "asks": {"loss": "mean loss"}, "reports": {}, "individual": method == "longfed"}
    manifest = {
        "format": FORMAT,
        "sortition": "0.1.0",
        "needs": needs,
        "cite": f"@misc{{{method}}}",
        "test_examples": test_examples,
    }
    (home / "manifest.json").write_text(json.dumps(manifest))
    cohorts = cohorts or [[0, 1]] * len(accuracies)
    records = [
        {
            "round": t, "available": 3, "cohort": cohorts[t], "weights": [1 / len(cohorts[t])] * len(cohorts[t]),
            "answered": None, "skipped": False, "full": False,
            "questions": [{"signal": "loss", "of": "model", "asked": 3, "answered": 3, "floats": 3, "after": 0}],
            "bytes": sent or {"model_down": 1e6, "model_up": 1e6, "questions_down": 5e5}, "passes": {"training": 100},
            "steps": 4, "clock": 2.0 * (t + 1), "train_loss": 0.5,
            "test": {"accuracy": value, "loss": None if value is None else 1 - value + 1e-9 * (seed % 97)},
            "notes": (notes or {}) if t == 1 else {},
        }
        for t, value in enumerate(accuracies)
    ]  # fmt: skip
    (home / "rounds.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (home / "timings.jsonl").write_text(
        "".join(f'{{"round": {t}, "select": 0.002, "total": 0.01}}\n' for t in range(3))
    )
    np.savez(
        home / "federation.npz", sizes=COUNTS.sum(axis=1), label_counts=COUNTS, availability=np.packbits(MASK, axis=1)
    )
    if done:
        selected = np.bincount(np.concatenate(cohorts), minlength=4)
        np.savez(
            home / "clients.npz", selected=selected, available=MASK.sum(axis=0), accuracy=np.array([1, 0.5, 0.25, 1])
        )
        (home / "summary.json").write_text('{"status": "done"}')
    return home


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two methods, two seeds, three rounds."""
    out = tmp_path / "runs"
    write_run(out, "uniform", 0, [0.2, 0.4, 0.6])
    write_run(out, "uniform", 1, [0.1, 0.3, 0.4])
    write_run(out, "fedgs", 0, [0.3, 0.6, 0.8], cohorts=[[0, 1], [1, 3], [2, 3]])
    write_run(out, "fedgs", 1, [0.2, 0.5, 0.7])
    return out
