"""What a study promises its clients, held against its methods."""

from __future__ import annotations

from sortition.privacy import Deployment, PrivacyFinding, Promises, lint
from sortition.results.reference_lines import REFERENCES
from sortition.studies import methods
from sortition.studies.plan import StudyPlan


def linted(plan: StudyPlan, promises: Promises | None = None) -> dict[str, list[PrivacyFinding]]:
    """The findings of each setting and method under ``promises`` or those of the study; reference lines aside."""
    found: dict[str, list[PrivacyFinding]] = {}
    several = len(plan.settings) > 1
    for run in plan.runs:
        label = f"{run.setting}, {run.method.label}" if several else run.method.label
        given = promises or run.privacy
        if label in found or given is None or run.method.name in REFERENCES:
            continue
        deployment = Deployment(run.data.clients, run.cohort, run.rounds, run.guards, run.server.combine_rule.name)
        found[label] = lint(methods.selector(run.method.name, run.method.options), given, deployment)
    return found
