"""What runs cost, in rounds, seconds, megabytes and passes, and figures at equal cost."""

from __future__ import annotations

from collections.abc import Iterable

from sortition.core.cost import Until, last_costs
from sortition.results import run_folder
from sortition.results.reference_lines import REFERENCES


def limits_not_reached(runs: Iterable[run_folder.Run]) -> list[str]:
    """Write a sentence for each method of which finished runs ended before their cost reached ``until``."""
    rounds_by_method: dict[tuple[str, str, str], list[int]] = {}
    for run in runs:
        limits = run.config.get("until")
        if not run.done or not limits or run.config["method"]["name"] in REFERENCES:
            continue
        until = Until(**limits)
        if not until.is_reached(last_costs(run.records)):
            key = (run.setting, run.method, str(until))
            rounds_by_method.setdefault(key, []).append(len(run.records))
    sentences = []
    for (setting, method, limit), rounds in rounds_by_method.items():
        longest = max(rounds)
        n_runs = "1 run" if len(rounds) == 1 else f"{len(rounds)} runs"
        sentences.append(f"{setting}, {method}: {n_runs} ended before {limit}, after at most {longest:,} rounds.")
    return sentences
