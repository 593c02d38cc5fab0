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
    code = start(command, folder).wait(seconds)
    written = (folder / "output.txt").read_text()
    assert code == 0, written[-3000:]
    return written


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
