"""How processes react to Ctrl-C, how many threads they use, and when they collect garbage."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C set a flag instead of raising; a second one raises as usual.

    SIGTERM raises SystemExit, so that workers are ended before the process is.
    """
    pressed = threading.Event()

    def handle(signal_number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    def end(signal_number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous_interrupt = signal.signal(signal.SIGINT, handle)
    previous_terminate = signal.signal(signal.SIGTERM, end)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous_interrupt)
        signal.signal(signal.SIGTERM, previous_terminate)


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Let new processes ignore Ctrl-C from their first instruction on: the parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def unaware_of_main() -> Iterator[None]:
    """Keep new processes from importing the script that is run, which would play its studies again.

    They need nothing of it: objects that are defined there are never sent to them.
    """
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def one_thread() -> Iterator[None]:
    """Let new processes use one thread each: many fill the cores, and sums do not depend on their number."""
    previous_values = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in previous_values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: importing PyTorch makes many objects and no garbage, a sixth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
