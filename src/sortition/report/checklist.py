"""What reviewers of client-selection papers ask, checked on the runs at hand."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting
from sortition.results.comparisons import BASELINE
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import FEWEST_SEEDS, Comparison, Reason
from sortition.results.verdict_words import unfair_warning

FEWEST_CLIENTS = 100
SHOWN = 6  # undecided comparisons that are named


@dataclass
class Point:
    """One demand: whether these runs meet it, and the fact behind the answer."""

    asks: str
    passed: bool
    fact: str


def checklist(gathered: Gathered) -> list[Point]:
    """The points, in the order in which reviewers raise them."""
    settings = gathered.settings
    return [
        _clients(settings),
        _seeds(settings),
        _pairs(settings),
        _alike(settings),
        _baseline(settings),
        _availability(settings),
        _cost(gathered.runs),
        _finished(gathered.runs),
        Point("More than one setting", len(settings) > 1, f"{len(settings)}"),
        _tuning(settings),
        _identity(gathered.runs),
    ]


def _clients(settings: list[Setting]) -> Point:
    fewest = min(int(s.federation["sizes"].size) if "sizes" in s.federation else 0 for s in settings)
    return Point(f"At least {FEWEST_CLIENTS} clients", fewest >= FEWEST_CLIENTS, f"{fewest:,} in the smallest setting")


def _seeds(settings: list[Setting]) -> Point:
    """Whether the seeds decide: the same computation as the verdicts."""
    fewest = min(sum(run.done for run in runs) for s in settings for runs in s.methods.values())
    compared = [
        (f"{label} in {s.name}" if len(settings) > 1 else label, one)
        for s in settings
        for label, one in s.compared().items()
    ]
    undecided = [f"{label}{_would_decide(one)}" for label, one in compared if not one.decided]
    fact = f"{fewest} for the method that has fewest; "
    fact += f"undecided: {', '.join(undecided[:SHOWN])}" if undecided else "every comparison is decided"
    fact += f" and {len(undecided) - SHOWN} more" if len(undecided) > SHOWN else ""
    return Point("Enough seeds to decide", bool(compared) and fewest >= FEWEST_SEEDS and not undecided, fact)


def _would_decide(one: Comparison) -> str:
    """How many seeds would; nothing where too few seeds, or a run that diverged, say nothing of that."""
    if one.reason is not Reason.MORE_SEEDS:
        return ""
    return f" ({one.seeds_needed or '> 1,000'} would decide)"


def _pairs(settings: list[Setting]) -> Point:
    unpaired = [
        s.name for s in settings if len({tuple(sorted(r.seed for r in runs)) for runs in s.methods.values()}) > 1
    ]
    return Point("Methods compared in pairs, on the same seeds", not unpaired, _fact("different seeds in", unpaired))


def _alike(settings: list[Setting]) -> Point:
    """Whether methods differ in nothing but the selection."""
    compared = [comparison for setting in settings for comparison in setting.comparison.shown_first()]
    unfair = [comparison for comparison in compared if comparison.unlike]
    fact = unfair_warning(unfair) or "cohort, local work, rounds, devices and all else are the same"
    return Point("Methods differ in the selection alone", not unfair, fact)


def _baseline(settings: list[Setting]) -> Point:
    missing = [s.name for s in settings if not s.baseline]
    wanted = settings[0].criteria.baseline or BASELINE
    return Point(f"A baseline: {wanted} is among the methods", not missing, _fact("none in", missing))


def _availability(settings: list[Setting]) -> Point:
    always = [s.name for s in settings if s.availability is None or bool(s.availability.all())]
    return Point("Availability is not ignored", not always, _fact("every client is always available in", always))


def _cost(runs: list[Digest]) -> Point:
    asking = sorted({run.method for run in runs if run.questions})
    fact = f"questions of {', '.join(asking)}" if asking else "no method asks anything"
    return Point("The cost of questions is counted", all(run.bytes for run in runs), fact)


def _finished(runs: list[Digest]) -> Point:
    unfinished = sum(not run.done for run in runs)
    return Point("All runs finished", not unfinished, f"{unfinished} unfinished" if unfinished else "yes")


def _tuning(settings: list[Setting]) -> Point:
    """Whether each method was given the same number of tried values, the baseline among them."""
    tried: dict[str, set[str]] = {}
    for setting in settings:
        for runs in setting.methods.values():
            if runs[0].name not in REFERENCES:
                tried.setdefault(runs[0].name, set()).add(_tuned_values(runs[0]))
    counts = {name: len(values) for name, values in tried.items()}
    fewest = min(counts.values(), default=0)
    most = max(counts.values(), default=0)
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    if fewest != most:
        fact = f"values tried: {listed}"
    elif most <= 1:
        fact = "one value for every method: nothing was tuned; sweep, or say why"
    else:
        fact = f"{most} values were tried for every method"
    return Point("Each method was given the same number of tried values", fewest == most > 1, fact)


def _identity(runs: list[Digest]) -> Point:
    known = all(run.manifest for run in runs)
    return Point("Data and partition can be identified", known, "hashes in every manifest" if known else "missing")


def _tuned_values(run: Digest) -> str:
    """What may be tuned for a method: its parameters, the local rule and the server's."""
    options = {key: value for key, value in run.config.get("method", {}).items() if key not in ("name", "label")}
    return repr([options, run.config.get("local"), run.config.get("server")])


def _fact(words: str, names: list[str]) -> str:
    return f"{words} {', '.join(names)}" if names else "yes"
