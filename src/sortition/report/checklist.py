"""What reviewers of client-selection papers ask, checked on the runs at hand."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting
from sortition.results.comparisons import BASELINE
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import FEWEST_SEEDS, Comparison, Reason
from sortition.results.verdict_words import seeds_that_decide, unfair_warning

FEWEST_CLIENTS = 100
MOST_NAMED = 6  # undecided comparisons that are named


@dataclass
class Point:
    """One demand of reviewers.

    Attributes:
        asks: what they ask for.
        passed: whether these runs have it.
        fact: what is behind the answer.
    """

    asks: str
    passed: bool
    fact: str


def review_points(gathered: Gathered) -> list[Point]:
    """Return the points, in the order in which reviewers raise them."""
    settings = gathered.settings
    return [
        _clients_point(settings),
        _seeds_point(settings),
        _pairs_point(settings),
        selection_alone_point(settings),
        _baseline_point(settings),
        _availability_point(settings),
        _question_cost_point(gathered.runs),
        _finished_point(gathered.runs),
        Point(asks="More than one setting", passed=len(settings) > 1, fact=f"{len(settings)}"),
        tuning_point(settings),
        _identity_point(gathered.runs),
    ]


def _clients_point(settings: list[Setting]) -> Point:
    """Tell whether every setting has enough clients."""
    client_counts = [setting.federation["sizes"].size for setting in settings if "sizes" in setting.federation]
    if len(client_counts) == len(settings):
        fewest = min(client_counts)
    else:
        fewest = 0
    return Point(
        asks=f"At least {FEWEST_CLIENTS} clients",
        passed=fewest >= FEWEST_CLIENTS,
        fact=f"{fewest:,} in the smallest setting",
    )


def _seeds_point(settings: list[Setting]) -> Point:
    """Tell whether the seeds decide every comparison, as the verdicts do."""
    fewest = min(sum(run.done for run in runs) for setting in settings for runs in setting.methods.values())
    comparisons = 0
    undecided = []
    for setting in settings:
        for label, comparison in setting.against_baseline().items():
            comparisons += 1
            if not comparison.decided:
                place = f" in {setting.name}" if len(settings) > 1 else ""
                undecided.append(f"{label}{place}{_seeds_that_decide_text(comparison)}")
    fact = f"{fewest} for the method that has fewest; "
    if undecided:
        fact += f"undecided: {', '.join(undecided[:MOST_NAMED])}"
    else:
        fact += "every comparison is decided"
    if len(undecided) > MOST_NAMED:
        fact += f" and {len(undecided) - MOST_NAMED} more"
    return Point(
        asks="Enough seeds to decide",
        passed=comparisons > 0 and fewest >= FEWEST_SEEDS and not undecided,
        fact=fact,
    )


def _seeds_that_decide_text(comparison: Comparison) -> str:
    """Say how many seeds would decide; nothing where that cannot be foreseen."""
    if comparison.reason is not Reason.MORE_SEEDS:
        return ""
    return f" ({seeds_that_decide(comparison)} would decide)"


def _pairs_point(settings: list[Setting]) -> Point:
    """Tell whether all methods of a setting were run on the same seeds."""
    unpaired = []
    for setting in settings:
        seeds = {tuple(sorted(run.seed for run in runs)) for runs in setting.methods.values()}
        if len(seeds) > 1:
            unpaired.append(setting.name)
    return Point(
        asks="Methods compared in pairs, on the same seeds",
        passed=not unpaired,
        fact=_yes_or_names("different seeds in", unpaired),
    )


def selection_alone_point(settings: list[Setting]) -> Point:
    """Tell whether methods differ in nothing but the selection."""
    warning = unfair_warning(comparison for setting in settings for comparison in setting.comparison.shown_first())
    return Point(
        asks="Methods differ in the selection alone",
        passed=not warning,
        fact=warning or "cohort, local work, rounds, devices and all else are the same",
    )


def _baseline_point(settings: list[Setting]) -> Point:
    """Tell whether every setting has the baseline."""
    without_baseline = [setting.name for setting in settings if not setting.baseline]
    baseline = settings[0].criteria.baseline or BASELINE
    return Point(
        asks=f"A baseline: {baseline} is among the methods",
        passed=not without_baseline,
        fact=_yes_or_names("none in", without_baseline),
    )


def _availability_point(settings: list[Setting]) -> Point:
    """Tell whether clients come and go in every setting."""
    always = [setting.name for setting in settings if setting.availability is None or bool(setting.availability.all())]
    return Point(
        asks="Availability is not ignored",
        passed=not always,
        fact=_yes_or_names("every client is always available in", always),
    )


def _question_cost_point(runs: list[Digest]) -> Point:
    """Tell whether traffic was counted, that of questions included."""
    asking = sorted({run.method for run in runs if run.questions})
    return Point(
        asks="The cost of questions is counted",
        passed=all(run.bytes for run in runs),
        fact=f"questions of {', '.join(asking)}" if asking else "no method asks anything",
    )


def _finished_point(runs: list[Digest]) -> Point:
    """Tell whether all runs are finished."""
    unfinished = sum(not run.done for run in runs)
    return Point(
        asks="All runs finished",
        passed=not unfinished,
        fact=f"{unfinished} unfinished" if unfinished else "yes",
    )


def tuning_point(settings: list[Setting]) -> Point:
    """Tell whether each method was given the same number of tried values, the baseline among them."""
    values_by_method: dict[str, set[str]] = {}
    for setting in settings:
        for runs in setting.methods.values():
            if runs[0].name not in REFERENCES:
                values_by_method.setdefault(runs[0].name, set()).add(_tuned_values(runs[0]))
    counts = {name: len(values) for name, values in values_by_method.items()}
    fewest_values = min(counts.values(), default=0)
    most_values = max(counts.values(), default=0)
    if fewest_values != most_values:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        fact = f"values tried: {listed}"
    elif most_values <= 1:
        fact = "one value for every method: nothing was tuned; sweep, or say why"
    else:
        fact = f"{most_values} values were tried for every method"
    return Point(
        asks="Each method was given the same number of tried values",
        passed=fewest_values == most_values > 1,
        fact=fact,
    )


def _identity_point(runs: list[Digest]) -> Point:
    """Tell whether every run has a manifest, which holds the hashes of data and partition."""
    has_manifests = all(run.manifest for run in runs)
    return Point(
        asks="Data and partition can be identified",
        passed=has_manifests,
        fact="hashes in every manifest" if has_manifests else "missing",
    )


def _tuned_values(run: Digest) -> str:
    """Return what may be tuned for a method: its parameters, the local rule and the server's."""
    parameters = {key: value for key, value in run.config.get("method", {}).items() if key not in ("name", "label")}
    return repr([parameters, run.config.get("local"), run.config.get("server")])


def _yes_or_names(words: str, names: list[str]) -> str:
    """Write "yes" where no setting falls short, else the words and the settings that do."""
    if not names:
        return "yes"
    return f"{words} {', '.join(names)}"
