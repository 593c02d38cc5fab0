"""A federation that is played with a registrar of its own: its audit log, its history and what lies beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tests.results.histories import ABOUT

from sortition.audit.encoding import encode_ids
from sortition.audit.log_file import LogFile
from sortition.core import Population, Registrar
from sortition.federation.driver import in_order, round_record
from sortition.selectors import load

NAMES = [f"hospital-{number}" for number in range(1, 7)]
SILENT = 3  # this hospital never answers in time


def played(folder: Path, rounds: int = 4, *, disclosed: bool = True, names: list[str] | tuple[str, ...] = ()) -> Path:
    """Play rounds of power-of-choice among six hospitals, of which each is away in one round; the log's path."""
    folder.mkdir(parents=True, exist_ok=True)
    registrar = Registrar(load("power-of-choice", d=4), Population(sizes=np.arange(1, 7)), seed=5)
    log = LogFile(folder / "audit.jsonl")
    log.watch(registrar)
    records = [_play_round(registrar) for _ in range(rounds)]
    if disclosed:
        log.reveal(names=names)
    else:
        log.sync()
        log.close()
    (folder / "run.npz.history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "run.npz.about.json").write_text(json.dumps({**ABOUT, "audit": "audit.jsonl", "names": NAMES}))
    return log.path


def _play_round(registrar: Registrar) -> dict[str, Any]:
    available = np.delete(np.arange(6), registrar.index)
    turn = registrar.begin(available, 3)
    while turn.question is not None:
        turn.answer({client: float(client) for client in turn.question.ids.tolist()})
    done = turn.cohort.ids[turn.cohort.ids != SILENT]
    registrar.finish(turn, done)
    fates = {
        "answered": done.tolist(),
        "members": 6,
        "names": [NAMES[client] for client in turn.cohort.ids.tolist()],
        "present": encode_ids(available),
        "silent": [client for client in turn.cohort.ids.tolist() if client == SILENT],
    }
    record = round_record(turn, available=available.size, answered=done, notes=dict(turn.cohort.notes))
    return dict(in_order({**record, **fates}))
