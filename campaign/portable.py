"""The tests on other processors' kernels, and all of them where little is as usual.

First what every method chooses is compared with its golden record under each kernel that OpenBLAS has for this
machine, with one thread and two, and with numpy's own faster loops off. Then the whole suite runs in a copy named
``sortition``, in a folder with a space and letters beyond ASCII, offline, on one core, in random order, with a home
that cannot be written, another folder for temporary files, and neither git nor a browser on the path; and once more as
a user who is not root. A condition that this machine cannot make is left out and named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE_TYPES = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake")
NOBODY = 65534
LOOPBACK = (  # a machine without a network has the loopback all the same: raise it, then go on with the command
    "import fcntl, os, socket, struct, sys;"
    "fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack('16sh14x', b'lo', 1 | 64));"
    "os.execv(sys.argv[1], sys.argv[1:])"
)
STARTS = "import subprocess, sys, torch; subprocess.run([sys.executable, '-c', 'import torch'], check=True)"
COPIED = (".ci", ".github", "src", "tests", "campaign", "workshop", "docs", "examples", "benchmarks")


def run(only: list[str], paths: list[str]) -> int:
    """Every condition, or only those named; how many failed."""
    conditions = {"kernels": kernels, "odd": odd, "nobody": nobody}
    failed = [name for name in only or conditions if not conditions[name](paths)]
    print(f"{len(failed)} of {len(only or conditions)} conditions failed: {', '.join(failed) or 'none'}", flush=True)
    return len(failed)


def kernels(paths: list[str]) -> bool:
    """The golden records under every kernel of OpenBLAS, with one thread and with two."""
    from tests.selectors.portable_cohorts import slow_numpy

    done = True
    for core in CORE_TYPES:
        for threads in ("1", "2"):
            extra = {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads, **slow_numpy(core)}
            passed = _pytest(ROOT, ["tests/selectors/test_golden.py"], extra)
            print(f"{core}, {threads} threads: {'agrees' if passed else 'DIFFERS'}", flush=True)
            done &= passed
    return done


def odd(paths: list[str]) -> bool:
    """The suite where little is as usual."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "sortition" / "Größe und Maß" / "sortition"
        _copy(tree)
        elsewhere = tree.parent / "temporary"
        elsewhere.mkdir()
        tools = Path(folder) / "bin"
        tools.mkdir()
        (tools / "python").symlink_to(sys.executable)
        extra = {"HOME": "/proc/self", "TMPDIR": str(elsewhere), "PATH": str(tools), "PYTHONHASHSEED": "7"}
        return _pytest(tree, ["-p", "tests.shuffled", *paths], extra, prefix=[*_offline(), *_one_core()])


def nobody(paths: list[str]) -> bool:
    """The suite as a user who is not root and who owns nothing but a copy of it."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0:
        print("nobody: this user is not root already, so the usual run covers it")
        return True
    if setpriv is None:
        print("nobody: left out, there is no setpriv")
        return True
    user = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    if subprocess.run([*user, sys.executable, "-c", STARTS], capture_output=True, check=False).returncode:
        print("nobody: LEFT OUT, other users cannot run this interpreter; take one outside of a home folder")
        return True
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        tree = Path(folder) / "tree"
        _copy(tree)
        for path in (tree, *tree.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        return _pytest(tree, paths, {"HOME": str(tree), "TMPDIR": str(tree)}, prefix=user)


def _copy(tree: Path) -> None:
    """The project without history, environment and results."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, tree / file.name)


def _pytest(tree: Path, arguments: list[str], extra: dict[str, str], prefix: list[str] | None = None) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), **extra}
    command = [*(prefix or []), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=tree, env=environment, check=False).returncode == 0


def _offline() -> list[str]:
    unshare = shutil.which("unshare")
    usable = unshare and not subprocess.run([unshare, "-rn", "true"], capture_output=True, check=False).returncode
    if not usable:
        print("odd: the network stays, unshare cannot take it away here")
    return [str(unshare), "-rn", sys.executable, "-c", LOOPBACK] if usable else []


def _one_core() -> list[str]:
    taskset = shutil.which("taskset")
    return [taskset, "-c", str(min(os.sched_getaffinity(0)))] if taskset else []
