"""What reviewers of client-selection papers complain of, checked on the runs at hand."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.report.gather import Gathered, Setting

LEARNING_RATES = "lr"


@dataclass
class Point:
    """One complaint: whether these runs are safe from it, and the fact behind the answer."""

    asks: str
    passed: bool
    fact: str


def checklist(gathered: Gathered) -> list[Point]:
    """The points, in the order in which reviewers raise them."""
    settings = gathered.settings
    clients = min(_clients(s) for s in settings)
    seeds = min(min(len(runs) for runs in s.methods.values()) for s in settings)
    partial = [s.name for s in settings if not _intermittent(s)]
    unfinished = sum(not run.done for s in settings for run in s.runs)
    asking = sorted({run.method for s in settings for run in s.runs if run.questions})
    costed = all(run.bytes for s in settings for run in s.runs)
    paired = [s.name for s in settings if len({tuple(sorted(r.seed for r in runs)) for runs in s.methods.values()}) > 1]
    hashes = all(
        (run.manifest.get("data") or run.manifest.get("digests") or run.manifest) for s in settings for run in s.runs
    )
    tuned = {s.name: len({_rate(run) for run in s.runs}) for s in settings}
    return [
        Point("At least 100 clients", clients >= 100, f"{clients} in the smallest setting"),
        Point("Enough seeds for a test (6, better 10)", seeds >= 6, f"{seeds} for the method that has fewest"),
        Point("Methods compared in pairs, on the same seeds", not paired, _told(paired, "different seeds in")),
        Point("A yardstick: uniform is among the methods", all(s.baseline for s in settings), _yardsticks(settings)),
        Point("Availability is not ignored", not partial, _told(partial, "everybody always there in")),
        Point(
            "The cost of questions is counted",
            costed,
            f"questions of {', '.join(asking)}" if asking else "no method asks anything",
        ),
        Point("All runs finished", not unfinished, f"{unfinished} unfinished" if unfinished else "yes"),
        Point("More than one setting", len(settings) > 1, f"{len(settings)}"),
        Point(
            "Baselines tuned for the setting",
            any(n > 1 for n in tuned.values()),
            "one learning rate for all methods: sweep it, or say why" if max(tuned.values()) == 1 else "rates differ",
        ),
        Point("Data and partition can be identified", hashes, "hashes in every manifest" if hashes else "missing"),
    ]


def _clients(setting: Setting) -> int:
    sizes = setting.federation.get("sizes")
    return 0 if sizes is None else int(sizes.size)


def _intermittent(setting: Setting) -> bool:
    mask = setting.federation.get("availability")
    return mask is not None and not bool(mask.all())


def _rate(run: object) -> object:
    config = getattr(run, "config", {})
    return (config.get("method", {}).get("local") or config.get("local") or {}).get(LEARNING_RATES)


def _told(names: list[str], what: str) -> str:
    return f"{what} {', '.join(names)}" if names else "yes"


def _yardsticks(settings: list[Setting]) -> str:
    missing = [s.name for s in settings if not s.baseline]
    return f"none in {', '.join(missing)}" if missing else "yes"
