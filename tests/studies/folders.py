"""Run folders made by hand, so that expected figures can be computed on paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sortition.results import run_folder
from sortition.studies.runs import write_folder


def make(
    out: Path,
    accuracy: list[float],
    *,
    setting: str = "main",
    method: str = "uniform",
    seed: int = 0,
    target: dict[str, Any] | None = None,
    selected: list[int] | None = None,
    available: list[int] | None = None,
    clients: list[float] | None = None,
    done: bool = True,
) -> run_folder.Run:
    """A finished run with this accuracy curve; loss is 1 − accuracy, a round moves 30 bytes."""
    path = out / setting / method / f"seed-{seed}"
    path.mkdir(parents=True)
    config = {"setting": setting, "seed": seed, "rounds": len(accuracy), "method": {"name": method, "label": method}}
    write_folder.write_config(path / run_folder.CONFIG, config | ({"target": target} if target else {}))
    manifest = {
        "format": run_folder.FORMAT,
        "versions": {"sortition": "0"},
        "data": {"digest": "d1"},
        "test_examples": 10_000,
    }
    write_folder.write_document(path / run_folder.MANIFEST, manifest)
    with (path / run_folder.ROUNDS).open("w") as file:
        for t, value in enumerate(accuracy):
            test = {"accuracy": value, "loss": 1 - value + 1e-9 * seed}  # no two seeds have the same records
            record = {"round": t, "available": 4, "cohort": [0, 1], "bytes": {"model_down": 20, "model_up": 10}}
            file.write(json.dumps({**record, "test": test, "passes": {"training": 5}, "clock": t + 1.0}) + "\n")
    with (path / run_folder.TIMINGS).open("w") as file:
        for t in range(len(accuracy)):
            file.write(json.dumps({"round": t, "select": 0.002, "total": 0.5}) + "\n")
    counts = {"selected": selected or [2, 2, 2, 2], "available": available or [4, 4, 4, 4]}
    arrays = {name: np.array(value) for name, value in counts.items()}
    arrays["accuracy"] = np.array([0.5, 0.5, 0.5, 0.5] if clients is None else clients)
    write_folder.write_arrays(path / run_folder.CLIENTS, arrays)
    if done:
        write_folder.write_document(path / run_folder.SUMMARY, {"status": "done"})
    return run_folder.Run(path)
