"""The files of a small federation, written by hand: five hospitals, four rounds, everything that can become of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.storage import snapshot

NAMES = ["hospital-1", "hospital-2", "hospital-10", "hospital-11", "hospital-12"]
COUNTS = np.array([[4, 0], [0, 4], [2, 2], [1, 3], [3, 1]])
LOSS = {"signal": "loss", "of": "model", "asked": 4, "answered": 3, "floats": 3, "after": 0}


def record(round_index: int, present: list[int], cohort: list[int], answered: list[int], **more: Any) -> dict[str, Any]:
    """A line of a history, as the messenger writes it."""
    return {
        "round": round_index,
        "available": len(present),
        "cohort": cohort,
        "weights": [1 / max(len(cohort), 1)] * len(cohort),
        "answered": answered,
        "skipped": not cohort,
        "full": False,
        "questions": [],
        "members": 5,
        "names": [NAMES[client] for client in cohort],
        "present": present,
        "busy": 0,
        "silent": [],
        "failed": {},
        "left_out": {},
        "clock": 2.0 * (round_index + 1),
        "notes": {},
        **more,
    }


ROUNDS = [
    record(0, [0, 1, 2, 3], [2, 0], [2, 0], members=4, questions=[LOSS]),
    record(1, [0, 1, 2, 3], [0, 1, 3], [0], standby=[1], silent=[3], members=4, notes={"shortfall": 1}),
    record(
        2, [0, 1, 2, 4], [4, 2], [], failed={"4": "CUDA out of memory"}, left_out={"2": "w is not finite"}, late=[3]
    ),
    record(3, [], [], [], clock=30.0),
]
ABOUT = {
    "sortition": "0.1.0",
    "backend": "server",
    "method": "PowerOfChoice",
    "parameters": {"d": "4"},
    "needs": {"reads": ["sizes"], "asks": ["loss"], "reports": [], "individual": False},
    "cohort": 2,
    "overselect": 1.0,
    "horizon": None,
    "guards": {},
    "audit": None,
    "names": NAMES,
}


def written(
    folder: Path,
    records: list[dict[str, Any]] | None = None,
    *,
    name: str = "run.npz",
    about: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
) -> Path:
    """Write a federation's files; the history's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.history.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (ROUNDS if records is None else records)))
    (folder / f"{name}.about.json").write_text(json.dumps({**ABOUT, **(about or {})}))
    rows = {"label_counts": COUNTS} if facts is None else facts
    header = {"federation": {"backend": "server"}, "registrar": {"index": 4}, "rounds": 4}
    snapshot.save(folder / name, {f"facts.{fact}": np.asarray(values) for fact, values in rows.items()}, header)
    return path
