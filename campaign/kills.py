"""kill -9 at random instants of small studies, each resumed until all are done: the folders equal undisturbed ones.

This process has imported everything and forks the one that is killed, so that a kill costs no start-up. Methods with
memory are played under faults; checkpoints are written every few rounds, as a long run's are every ten seconds.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from campaign.fuzz.studied import played, small
from sortition.core.errors import SortitionError
from sortition.results import run_folder
from sortition.selectors import discover
from sortition.studies.audit.audit_run import examine
from sortition.studies.runs import one_run

PARAMETERS: dict[str, dict[str, Any]] = {"fedcor": {"warmup": 4}, "hics": {"clusters": 3}, "power-of-choice": {"d": 6}}
METHODS = tuple({"name": name, **PARAMETERS.get(name, {})} for name in discover())
FAULTS = {"after": 0.1, "lost": 0.1, "damaged": 0.1, "newcomers": 0.3, "joining": 0.2, "leaving": 0.1, "crash": 0.1}
SAME = (run_folder.ROUNDS, run_folder.CLIENTS, run_folder.FEDERATION, run_folder.SUMMARY, run_folder.CONFIG)
OFTEN = 0.02  # seconds between checkpoints


def study(at: int) -> dict[str, Any]:
    """The table of the study number ``at``."""
    faults = {"faults": FAULTS} if at >= len(METHODS) else {}
    return small(rounds=30, method=[METHODS[at % len(METHODS)]], **faults)


def start(out: Path, table: dict[str, Any]) -> int:
    """Fork a process that plays or resumes the study; its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        one_run.CHECKPOINT_SECONDS = OFTEN
        warnings.simplefilter("ignore")
        status = 1 if played(out, table, resume=True).failed else 0
    except SortitionError as error:
        print(error, flush=True)
    finally:
        os._exit(status)


def duration(table: dict[str, Any], out: Path) -> float:
    """Seconds of the undisturbed run, which stays in ``out``."""
    begun = time.monotonic()
    _, status = os.waitpid(start(out, table), 0)
    if status:
        raise RuntimeError(f"the undisturbed run failed with {status}")
    return time.monotonic() - begun


def disturbed(out: Path, table: dict[str, Any], within: float, rng: random.Random) -> int:
    """Start and kill until the study is done; how many kills it took."""
    kills = 0
    while True:
        child = start(out, table)
        time.sleep(rng.uniform(0.0, within * 1.1**kills))  # longer and longer: on a busy machine, too, it ends
        done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif os.WEXITSTATUS(status):
            raise RuntimeError(f"resuming {table['method']} after {kills} kills failed; {out} is kept")
        else:
            return kills


def differences(one: Path, other: Path) -> list[str]:
    """Files of two runs that are not the same, byte by byte; and an audit log that does not hold."""
    runs = [next(folder.rglob(run_folder.CONFIG)).parent for folder in (one, other)]
    wrong = [name for name in SAME if (runs[0] / name).read_bytes() != (runs[1] / name).read_bytes()]
    if (runs[1] / run_folder.AUDIT).exists() and examine(run_folder.Run(runs[1])).faults:
        wrong.append(run_folder.AUDIT)
    return wrong


def run(kills: int, seed: int = 0) -> int:
    """Kill until so many are reached; print a row a study. 0 if every folder came out the same."""
    torch.set_num_threads(1)
    rng = random.Random(seed)
    done, studies, wrong = 0, 0, 0
    home = Path(tempfile.mkdtemp(prefix="kills-"))
    references: dict[int, tuple[Path, float]] = {}
    while done < kills:
        at = studies % (2 * len(METHODS))
        table = study(at)
        if at not in references:
            reference = home / f"whole-{at}"
            references[at] = reference, duration(table, reference)
        out = home / f"killed-{studies}"
        count = disturbed(out, table, references[at][1], rng)
        differing = differences(references[at][0], out)
        done, studies, wrong = done + count, studies + 1, wrong + bool(differing)
        name = table["method"][0]["name"]
        print(f"{name}: {count} kills, {'the same' if not differing else f'other {differing} in {out}'}", flush=True)
        if not differing:
            shutil.rmtree(out)
    print(f"{done} kills over {studies} studies, {wrong} came out different", flush=True)
    if not wrong:
        shutil.rmtree(home)
    return 1 if wrong else 0
