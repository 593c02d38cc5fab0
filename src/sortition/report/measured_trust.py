"""What a tenth of adaptive adversaries cost each method under the trusted set-up of guards, as it was measured.

``python -m campaign trust --table`` writes the figures into ``measured_trust.json``; the report, the methods' pages and
the table of docs/faults.md say in words what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortition.report.gather import Gathered

FILE = "measured_trust.json"
MOST_LOST = 5.0  # points of accuracy that the guards should let adversaries cost, in every seed
MOST_PLACES = 20.0  # % of the places over a run
MOST_AFTER_RETURN = 40.0  # % of the places after they came back together
HIGHEST_COST = 0.3  # points that the guards may cost without adversaries


@dataclass(frozen=True)
class MethodTrust:
    """The figures of one method; shares and accuracies in %, losses and cost in points.

    Attributes:
        accuracy: the accuracy with guards and without adversaries, mean over the seeds.
        cost: what the guards cost without adversaries, mean over the seeds.
        losses: attack → what it costs in the worst seed, against the run of that seed without adversaries.
        places: the largest share of a run's places that adversaries held.
        after_return: the same in the rounds after they came back together.
        quarantined: the largest number of honest clients that were ever in quarantine.
    """

    accuracy: float
    cost: float
    losses: Mapping[str, float]
    places: float
    after_return: float
    quarantined: int

    def missed_goals(self) -> list[str]:
        """Return one clause for each goal of the guards that this method misses."""
        clauses = []
        too_much = {attack: loss for attack, loss in self.losses.items() if loss > MOST_LOST}
        if too_much:
            worst_first = sorted(too_much, key=lambda attack: -too_much[attack])
            by_attack = " and ".join(f"{too_much[attack]:.1f} points under `{attack}`" for attack in worst_first)
            clauses.append(f"in the worst seed adversaries cost {by_attack} (goal: at most {MOST_LOST:g})")
        if self.places > MOST_PLACES:
            clauses.append(f"they held {self.places:.0f} % of the places (goal: at most {MOST_PLACES:g} %)")
        if self.after_return > MOST_AFTER_RETURN:
            share = f"{self.after_return:.0f} % of the places"
            clauses.append(f"after a common return they held {share} (goal: at most {MOST_AFTER_RETURN:g} %)")
        if self.quarantined:
            clauses.append(f"{self.quarantined} honest clients were in quarantine (goal: nobody)")
        if self.cost > HIGHEST_COST:
            clauses.append(
                f"without adversaries the guards cost {self.cost:.1f} points (goal: at most {HIGHEST_COST:g})"
            )
        return clauses


@dataclass(frozen=True)
class MeasuredTrust:
    """What was measured.

    Attributes:
        guards: the set-up, by the names of ``Guards``.
        seeds: attack → the seeds that were played; the set-up was chosen on others.
        methods: the figures of each method.
    """

    guards: Mapping[str, float]
    seeds: Mapping[str, Sequence[int]]
    methods: Mapping[str, MethodTrust]

    def sentence(self, method: str) -> str:
        """Say in one sentence how far the guards hold for a method."""
        if method not in self.methods:
            return f"{method} was not measured under attack."
        clauses = self.methods[method].missed_goals()
        if not clauses:
            return f"{method} meets every goal of the guards."
        return f"{method} does not meet every goal of the guards: {'; '.join(clauses)}."


@cache
def load_measured_trust() -> MeasuredTrust:
    """Return the figures that come with the package."""
    return parse_measured_trust(json.loads(files("sortition.report").joinpath(FILE).read_text("utf-8")))


def parse_measured_trust(table: Mapping[str, Any]) -> MeasuredTrust:
    """Return what the campaign wrote as JSON."""
    return MeasuredTrust(
        guards=table["guards"],
        seeds=table["seeds"],
        methods={method: MethodTrust(**figures) for method, figures in table["methods"].items()},
    )


def trust_section_html(gathered: Gathered) -> str:
    """Return how far guards held elsewhere for a study's methods; nothing where it has neither attacks nor guards."""
    runs = gathered.runs
    if not any(run.config.get("attacks") or run.config.get("guards") for run in runs):
        return ""
    return trust_html(dict.fromkeys(str(run.config["method"]["name"]) for run in runs))


def trust_html(methods: Iterable[str]) -> str:
    """Return what was measured of these methods, as markup."""
    figures = load_measured_trust()
    seeds = ", ".join(f"{len(played)} of {attack}" for attack, played in figures.seeds.items())
    introduction = (
        "Guards bound what adversaries can do, not equally well for every method. This was measured once, apart from "
        "this study: digits, 50 clients, cohorts of 5, 200 rounds, a tenth of the clients adaptive adversaries, the "
        f"trusted set-up of docs/guards.md; seeds: {seeds}."
    )
    items = "".join(f"<li>{escape(figures.sentence(method))}</li>" for method in methods)
    return f"<h3>How far guards hold</h3><p>{escape(introduction)}</p><ul>{items}</ul>"
