"""Jobs in NVFlare's simulator, as scripts in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sortition.core.storage import snapshot

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "nvflare"
STARTS = 4  # of a job whose sites NVFlare's simulator gives up
LOST_A_SITE = ("run_client_thread error", "ClientTaskWorker run error", "Communication error with", "Subprocess died")
TRAINS = "Sending task train"  # what a controller logs from its first training on


def environment(folder):
    """NVFlare's settings and caches stay in the test's folder."""
    tools = Path(sys.executable).parent
    return os.environ | {
        "HOME": str(folder),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
    }


def start(command, folder):
    """Start a command in a folder, as the leader of its own group; it writes to output.txt."""
    with (folder / "output.txt").open("a") as out:
        return subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=out, stderr=out, start_new_session=True
        )


def kill(process):
    """Kill a command with all its descendants: NVFlare's server and sites lead groups of their own."""
    if process.poll() is not None:
        return
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listing.splitlines())}
    family = {process.pid}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def run(command, folder, seconds=400):
    """Run it to its end, and give what it wrote."""
    process = start_with_all_sites(command, folder, until=lambda: False, seconds=seconds)
    written = (folder / "output.txt").read_text()
    if process.poll() is None:
        kill(process)
        raise TimeoutError(f"it did not end in {seconds} s: {written[-3000:]}")
    assert process.returncode == 0, written[-3000:]
    return written


def start_with_all_sites(command, folder, until, seconds=400):
    """Start a job, and wait until something holds or the job has ended; return its process.

    NVFlare's simulator gives the process of a site 60 seconds to start and 10 to connect. On a busy machine it may give
    up one that is alive, and the job plays without that site: other cohorts, rightly. Such a job is begun anew before
    it has trained anything.
    """
    for _ in range(STARTS):
        output = folder / "output.txt"
        n_before = output.stat().st_size if output.exists() else 0
        process = start(command, folder)

        def lost_a_site(output=output, n_before=n_before):
            written = output.read_bytes()[n_before:].decode(errors="replace")
            return TRAINS not in written and any(line in written for line in LOST_A_SITE)

        wait_for(lambda lost_a_site=lost_a_site: until() or lost_a_site(), seconds, process)
        if not lost_a_site():
            return process
        kill(process)
    raise AssertionError(f"NVFlare lost a site at each of {STARTS} starts: {output.read_text()[-3000:]}")


def history(file):
    """The rounds of a checkpoint; none before the first."""
    journal = file.with_name(f"{file.name}.history.jsonl")
    if not file.exists() or not journal.exists():
        return []
    rounds = snapshot.load(file)[1]["rounds"]
    return [json.loads(line) for line in journal.read_text().splitlines()[:rounds]]


def wait_for(condition, seconds=240, process=None):
    """Wait until it holds, and say whether it does; a process that ended is not waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        if condition():
            return True
        time.sleep(0.2)
    return bool(condition())
