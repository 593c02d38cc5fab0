"""docs/images/time.svg: who was at work when, under three paces, and what became of the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sortition.report.strips import PALE, STRONG, TEXT
from sortition.simulation.event_loop import OverlappingSimulation
from sortition.simulation.simulation import Simulation, start
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan
from workshop import DOCS

CLIENTS = 10
SHOWN_SECONDS = 40.0
PACES: dict[str, dict[str, Any]] = {
    "rounds, deadline = 8": {"deadline": 8.0},
    'rounds, quorum = 0.5, late = "use"': {"quorum": 0.5, "late": "use", "max_staleness": 4},
    "buffered, concurrency = 4, buffer = 2": {
        "kind": "buffered",
        "concurrency": 4,
        "buffer": 2,
        "max_staleness": 5,
    },
}
FEDERATION: dict[str, Any] = {
    "rounds": 60,
    "cohort": 4,
    "seeds": [1],
    "data": {"name": "digits", "clients": CLIENTS, "partition": {"name": "iid"}},
    "model": "softmax",
    "local": {"steps": 5, "batch": 10, "lr": 0.1},
    "devices": {"speed_quantiles": [[0.0, 3.0], [0.5, 20.0], [1.0, 60.0]], "jitter": 0.2},
    "method": [{"name": "uniform"}],
}
# Pixels. Text is large, so that it can be read when a phone shows the picture at two thirds of its size.
WIDTH = 480
ROW = 9
BAR = 6
LEFT = 34
TEXT_SIZE = 16
LINE_HEIGHT = 22
TITLE = 2 * LINE_HEIGHT  # above a strip: its pace, and what came of it
GAP = TITLE + LINE_HEIGHT + 14  # between strips: the seconds, and the next one's title
LEGEND_COLUMN = 155
LEGEND_COLUMNS = 3
FATES = {"used": STRONG, "used late": "#e8912d", "wasted": "#c94f4f", "still at work": PALE}


@dataclass
class Work:
    """The work of one client.

    Attributes:
        client: who.
        begins: the second at which it was sent to work.
        ends: the second at which its work ends.
        fate: what became of it, a key of ``FATES``.
    """

    client: int
    begins: float
    ends: float
    fate: str = "still at work"


def draw_strips() -> None:
    """Play three small federations, and draw them."""
    path = DOCS / "images" / "time.svg"
    path.write_text(draw_picture({name: observe_run(pace) for name, pace in PACES.items()}))
    print(path, f"{path.stat().st_size:,} bytes")


def observe_run(pace: dict[str, Any]) -> tuple[list[Work], list[float]]:
    """Return all work of a run until the last second that is shown, and the seconds of its steps."""
    _, what = setup(plan({**FEDERATION, "pace": pace}).runs[0])
    simulation = start(what)
    works: list[Work] = []
    steps: list[float] = []
    while simulation.clock < SHOWN_SECONDS:
        simulation.before_training()
        open_work = {work.client: work for work in works if work.fate == "still at work"}
        for work in dispatched_work(simulation):
            if work.client not in open_work:
                works.append(work)
                open_work[work.client] = work
        record: Any = simulation.after_training()
        steps.append(record["clock"])
        answered = record["cohort"] if record["answered"] is None else record["answered"]
        staleness = record.get("staleness", [0] * len(answered))
        for client, versions in zip(answered, staleness, strict=True):
            open_work[client].fate = "used late" if versions else "used"
        ended = {int(client) for fate in ("failed", "given_up", "too_stale") for client in record.get(fate, ())}
        for client, work in open_work.items():
            if client in ended:
                work.fate = "wasted"
            elif work.fate == "still at work" and not what.pace.overlaps:
                work.fate = "wasted"
                work.ends = min(work.ends, record["clock"])  # nobody waits for it any longer
    return works, steps


def dispatched_work(simulation: Simulation) -> list[Work]:
    """Return the work that is under way after a dispatch."""
    if isinstance(simulation, OverlappingSimulation):
        return [Work(f.client, f.ends - f.seconds, f.ends) for f in simulation.flying.values()]
    current = simulation.current
    ids = current.at_work.cohort.ids
    seconds = current.world.costs.seconds(ids, current.t)
    begins = simulation.clock
    return [Work(client, begins, begins + took) for client, took in zip(ids.tolist(), seconds.tolist(), strict=True)]


def draw_picture(runs: dict[str, tuple[list[Work], list[float]]]) -> str:
    """Draw the SVG: a strip per pace, a row per client, seconds from left to right."""
    strip = CLIENTS * ROW
    height = len(runs) * (strip + GAP) + 2 * LINE_HEIGHT
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {LEFT + WIDTH + 20} {height}' "
        f"width='{LEFT + WIDTH + 20}' height='{height}' role='img' "
        f"font-family='sans-serif' font-size='{TEXT_SIZE}' fill='{TEXT}'>",
        "<title>Who is at work when, under three paces, and what becomes of the work</title>",
    ]
    for number, (name, (works, steps)) in enumerate(runs.items()):
        lines += _draw_strip(name, works, steps, top=number * (strip + GAP) + TITLE + 4, height=strip)
    marks_by_word = {fate: f"h14' stroke='{colour}' stroke-width='{BAR}" for fate, colour in FATES.items()}
    marks_by_word["a step"] = f"m7 -7v14' stroke='{TEXT}"
    for place, (word, mark) in enumerate(marks_by_word.items()):
        x = LEFT + place % LEGEND_COLUMNS * LEGEND_COLUMN
        y = height - 8 - LINE_HEIGHT * (1 - place // LEGEND_COLUMNS)
        lines.append(f"<path d='M{x} {y - 5}{mark}'/><text x='{x + 20}' y='{y}'>{word}</text>")
    return "\n".join([*lines, "</svg>", ""])


def _draw_strip(name: str, works: list[Work], steps: list[float], *, top: int, height: int) -> list[str]:
    """Draw the strip of one pace: its title, the steps, a bar for each training, and the seconds below."""
    shown = [second for second in steps if second <= SHOWN_SECONDS]
    ended = [work for work in works if work.fate != "still at work" and work.begins < SHOWN_SECONDS]
    used = sum(work.fate.startswith("used") for work in ended)
    summary = f"{len(shown)} steps, {used} of {len(ended)} trainings used"
    middle = top + height / 2
    marks = "".join(f"M{_x(second):.1f} {top}v{height}" for second in shown)
    lines = [
        f"<text x='{LEFT}' y='{top - 8 - LINE_HEIGHT}' font-weight='bold'>{_escaped(name)}</text>",
        f"<text x='{LEFT}' y='{top - 8}'>{summary}</text>",
        f"<text transform='translate(18 {middle}) rotate(-90)' text-anchor='middle'>clients</text>",
        f"<path d='{marks}' stroke='{TEXT}' stroke-opacity='.6' fill='none'/>",
    ]
    for fate, colour in FATES.items():
        bars = [_draw_bar(work, top) for work in works if work.fate == fate and work.begins < SHOWN_SECONDS]
        lines.append(f"<path d='{''.join(bars)}' stroke='{colour}' stroke-width='{BAR}' fill='none'/>")
    lines += [
        f"<text x='{_x(second):.1f}' y='{top + height + 17}' text-anchor='middle'>{second} s</text>"
        for second in range(0, int(SHOWN_SECONDS) + 1, 10)
    ]
    return lines


def _x(second: float) -> float:
    return LEFT + WIDTH * second / SHOWN_SECONDS


def _draw_bar(work: Work, top: int) -> str:
    """Draw the work of a client as a stroke that leaves a gap to the next."""
    begins = _x(work.begins)
    ends = _x(min(work.ends, SHOWN_SECONDS))
    y = top + work.client * ROW + ROW / 2
    return f"M{begins:.1f} {y:g}H{max(ends - 1.5, begins + 1):.1f}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")
