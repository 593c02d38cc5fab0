"""What a study promises its clients, held against its methods."""

from __future__ import annotations

from sortition.privacy import Deployment, PrivacyFinding, Promises, lint
from sortition.results.reference_lines import REFERENCES
from sortition.studies import methods
from sortition.studies.plan import StudyPlan


def linted(plan: StudyPlan, promises: Promises | None = None) -> dict[str, list[PrivacyFinding]]:
    """Return the findings of each setting and method, under ``promises`` or those of the study.

    Reference lines select nobody, and are left out.
    """
    findings_by_label: dict[str, list[PrivacyFinding]] = {}
    has_several_settings = len(plan.settings) > 1
    for run in plan.runs:
        label = f"{run.setting}, {run.method.label}" if has_several_settings else run.method.label
        run_promises = promises or run.privacy
        if label in findings_by_label or run_promises is None or run.method.name in REFERENCES:
            continue
        deployment = Deployment(
            clients=run.data.clients,
            cohort=run.cohort,
            rounds=run.rounds,
            guards=run.guards,
            combine=run.server.combine_rule.name,
        )
        selector = methods.selector(run.method.name, run.method.options)
        findings_by_label[label] = lint(selector, run_promises, deployment)
    return findings_by_label
