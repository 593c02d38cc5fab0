"""The tables of docs/faults.md: what adversaries captured, from the run folders of the two studies.

sortition run examples/adversaries.toml -o runs/adversaries
sortition run examples/adaptive.toml -o runs/adaptive
python benchmarks/captured.py runs/adversaries runs/adaptive
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

from sortition.results.run_folder import Run, find
from sortition.results.table import Table

GUARDED = ", guarded"
FIGURES = {"Places of the cohorts, %": "captured", "Aggregation weight, %": "captured-weight"}
Shares = dict[tuple[str, str], list[float]]  # setting, method → the shares of the seeds, in %


def shares(runs: list[Run], figure: str) -> Shares:
    """A figure of every run."""
    found: Shares = {}
    for run in runs:
        found.setdefault((run.setting, run.method), []).append(100 * run.summary["figures"][figure])
    return found


def pairs(found: Shares, title: str) -> Table:
    """Each attack without and with guards, mean over the seeds."""
    kinds = [one for one in dict.fromkeys(setting for setting, _ in found) if one != "honest" and GUARDED not in one]
    table = Table(title, ["method", "honest", *kinds])
    for method in dict.fromkeys(method for _, method in found):
        cells = [f"{mean(found[one, method]):.0f} → {mean(found[one + GUARDED, method]):.0f}" for one in kinds]
        table.rows.append([method, f"{mean(found['honest', method]):.0f}", *cells])
    return table


def adaptive(places: Shares, weight: Shares) -> Table:
    """Without guards, with guards, with the ceiling, and the largest share of a seed there."""
    settings = list(dict.fromkeys(setting for setting, _ in places))
    table = Table("Adaptive adversaries", ["method", "no guards", "guards", "with the ceiling", "weight"])
    for method in dict.fromkeys(method for _, method in places):
        bare, guarded, ceiling = (places[one, method] for one in settings)
        weights = " → ".join(f"{mean(weight[one, method]):.0f}" for one in settings)
        last = f"**{mean(ceiling):.0f}** (at most {max(ceiling):.0f})"
        table.rows.append([method, f"{mean(bare):.0f}", f"{mean(guarded):.0f}", last, weights])
    return table


def main() -> None:
    """Print the tables, and the largest share of places of any seed with guards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adversaries", type=Path)
    parser.add_argument("adaptive", type=Path)
    options = parser.parse_args()
    runs, knowing = (find(path) for path in (options.adversaries, options.adaptive))
    for title, figure in FIGURES.items():
        print(f"{pairs(shares(runs, figure), title).markdown()}\n")
    print(adaptive(*(shares(knowing, figure) for figure in FIGURES.values())).markdown())
    guarded = [max(found) for (setting, _), found in shares(runs, "captured").items() if GUARDED in setting]
    print(f"\nwith guards at most {max(guarded):.0f} % of the places, in any seed")


if __name__ == "__main__":
    main()
