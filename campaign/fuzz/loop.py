"""The loop: make an input, give it to a target, and note whatever comes out that is not one of our own errors."""

from __future__ import annotations

import random
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sortition
from sortition.core.errors import SortitionError

PACKAGE = Path(sortition.__file__).parent
HANG = 10  # seconds that one input may take
ROOM = 3 << 30  # bytes of address space beyond what the process has when the loop begins


class Hang(BaseException):
    """One input took too long."""


@dataclass(frozen=True)
class Target:
    """Something that reads untrusted input.

    Attributes:
        name: in reports.
        play: makes one input from the random source and gives it to the target; how many inputs that were.
        prepare: makes the sound inputs that are damaged later, outside any limit.
        share: of the time, in those of the others; less for what tries thousands a second.
    """

    name: str
    play: Callable[[random.Random], int]
    prepare: Callable[[], object] = lambda: None
    share: float = 1.0


@dataclass
class Tally:
    """What became of the inputs of one target; ``found`` keeps one seed per place where something else came out."""

    name: str
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    found: dict[str, tuple[int, str]] = field(default_factory=dict)


def guarded(target: Target, source: random.Random) -> tuple[int, bool]:
    """One call under the hang guard: the number of inputs, and whether it was refused by an error of ours."""
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        return target.play(source), False
    except SortitionError:
        return 1, True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def loop(target: Target, *, seed: int = 0, first: int = 0, seconds: float = 60.0, inputs: int = 1 << 60) -> Tally:
    """Play inputs number ``first``, … of a seed until the time or the number is up; any of them can be repeated."""
    target.prepare()
    tally, begun, at = Tally(target.name), time.monotonic(), first
    with watched():
        while tally.inputs < inputs and time.monotonic() - begun < seconds:
            try:
                count, refused = guarded(target, random.Random(f"{seed}/{at}"))
                tally.inputs += count
                tally.refused += refused
                tally.accepted += not refused
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a panic of a library written in Rust is no Exception
                tally.inputs += 1
                tally.found.setdefault(place(error), (at, traceback.format_exc()))
            at += 1
    tally.seconds = time.monotonic() - begun
    return tally


def place(error: BaseException) -> str:
    """The kind of an error and where in our code it came out."""
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [f"{file.relative_to(PACKAGE).as_posix()}:{line}" for file, line in frames if file.is_relative_to(PACKAGE)]
    where = ours[-1] if ours else "outside"
    return f"{type(error).__name__} at {where}"


@contextmanager
def watched() -> Iterator[None]:
    """Alarm and memory limit for the time of a loop; warnings of numpy about spoiled numbers are no finding."""

    def ring(*_: Any) -> None:
        raise Hang(f"one input took more than {HANG} s")

    before = signal.signal(signal.SIGALRM, ring)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, before)
