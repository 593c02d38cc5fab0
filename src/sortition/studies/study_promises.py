"""What a study promises its clients, held against its methods."""

from __future__ import annotations

from sortition.privacy import Deployment, PrivacyFinding, Promises, lint
from sortition.results.reference_lines import REFERENCES
from sortition.studies import method_entries
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan
from sortition.studies.types import AnySelector


def lint_plan(plan: StudyPlan, promises: Promises | None = None) -> dict[str, list[PrivacyFinding]]:
    """Return the findings of each setting and method, under ``promises`` or those of the study."""
    findings_by_label: dict[str, list[PrivacyFinding]] = {}
    for label, run in _run_of_each_method(plan).items():
        run_promises = promises or run.privacy
        if run_promises is not None:
            selector = method_entries.make_selector(run.method.name, run.method.options)
            findings_by_label[label] = lint(selector, run_promises, _deployment(run))
    return findings_by_label


def deployments(plan: StudyPlan) -> dict[str, tuple[AnySelector, Deployment]]:
    """Return each method of each setting, and the federation that it chooses in."""
    return {
        label: (method_entries.make_selector(run.method.name, run.method.options), _deployment(run))
        for label, run in _run_of_each_method(plan).items()
    }


def _run_of_each_method(plan: StudyPlan) -> dict[str, RunConfig]:
    """Return one run of each setting and method; reference lines select nobody, and are left out."""
    run_by_label: dict[str, RunConfig] = {}
    has_several_settings = len(plan.settings) > 1
    for run in plan.runs:
        if has_several_settings:
            label = f"{run.setting}, {run.method.label}"
        else:
            label = run.method.label
        if run.method.name not in REFERENCES:
            run_by_label.setdefault(label, run)
    return run_by_label


def _deployment(run: RunConfig) -> Deployment:
    return Deployment(
        clients=run.data.clients,
        cohort=run.cohort,
        rounds=run.rounds,
        guards=run.guards,
        combine=run.server.combine_rule.name,
    )
