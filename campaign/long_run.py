"""Ten thousand rounds with a hundred thousand clients: does memory stay flat, and the time of a round?

Each method plays in a process of its own, so that its memory is its own. Clients' answers are synthesised; some are
lost, some spoiled, some of a cohort fall silent. The time is the processor time of the registrar and its selector,
without the making of answers.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core import Registrar
from sortition.selectors import load
from sortition.testing.play import AnswerFaults, share_of
from sortition.testing.worlds import ScriptedWorld

METHODS = ("uniform", "power-of-choice", "fedgs", "fedss")
FAULTS = AnswerFaults(lost=0.05, spoiled=0.02, silent=0.1)
SAMPLES = 200  # of memory, over the run


def resident() -> float:
    """This process's resident memory, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def play(name: str, rounds: int, clients: int, cohort: int, share: float) -> dict[str, Any]:
    """One method's run: seconds per round (rounds,), and (round, MB) samples."""
    world = ScriptedWorld(clients)
    registrar = Registrar(load(name), world.population, horizon=rounds)
    available = share_of(world, share)
    spent, memory = np.zeros(rounds), []
    for t in range(rounds):
        ids = available(t)
        spent[t] = _round(registrar, world, ids, cohort, t)
        if t % max(rounds // SAMPLES, 1) == 0:
            memory.append((t, resident()))
    return {"name": name, "seconds": spent, "memory": np.array(memory), "counters": dict(registrar.counters)}


def _round(registrar: Registrar, world: ScriptedWorld, ids: Any, cohort: int, t: int) -> float:
    clock = time.process_time  # of this process: the machine may be busy with others
    begun = clock()
    turn = registrar.begin(ids, cohort)
    spent = clock() - begun
    while turn.question is not None:
        reading = FAULTS.distort(world.measure(turn.question, t), t, "question")
        begun = clock()
        turn.answer(reading)
        spent += clock() - begun
    chosen = turn.cohort
    if chosen is None:
        raise RuntimeError("a turn without question has a cohort")
    done = chosen.ids[np.random.default_rng(t).random(chosen.ids.size) >= FAULTS.silent]
    reports = world.train(chosen, registrar.needs.reports, t)
    heard = {name: FAULTS.distort(reading.restrict(done), t, name) for name, reading in reports.items()}
    begun = clock()
    registrar.finish(turn, done, heard)
    return spent + clock() - begun


def judged(run: dict[str, Any]) -> dict[str, Any]:
    """Medians of an early and of the last tenth of the rounds, and the slope of memory after the first tenth."""
    seconds, memory = run["seconds"], run["memory"]
    tenth = max(len(seconds) // 10, 1)
    settled = memory[memory[:, 0] >= tenth]
    return {
        "method": run["name"],
        "rounds": len(seconds),
        "early ms": float(np.median(seconds[:tenth]) * 1e3),
        "late ms": float(np.median(seconds[-tenth:]) * 1e3),
        "worst ms": float(seconds[1:].max() * 1e3),
        "MB after a tenth": float(settled[0, 1]),
        "MB at the end": float(settled[-1, 1]),
        "MB per 1,000 rounds": float(np.polyfit(settled[:, 0], settled[:, 1], 1)[0] * 1e3),
    }


def _child(arguments: tuple[Any, ...]) -> dict[str, Any]:
    return judged(play(*arguments))


def run(methods: tuple[str, ...], rounds: int, clients: int, cohort: int, share: float) -> bool:
    """Print one row a method; True if time and memory stayed flat."""
    flat = True
    keys: list[str] = []
    for name in methods:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            row = pool.apply(_child, ((name, rounds, clients, cohort, share),))
        if not keys:
            keys = list(row)
            print("| " + " | ".join(keys) + " |\n|" + "---|" * len(keys), flush=True)
        cells = [f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()]
        print("| " + " | ".join(cells) + " |", flush=True)
        grown = row["MB at the end"] - row["MB after a tenth"]
        flat = flat and row["late ms"] < 1.5 * row["early ms"] + 0.5 and grown < max(8.0, 0.05 * row["MB at the end"])
    return flat
