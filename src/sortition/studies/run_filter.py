"""Which runs of a plan ``--only`` names: by setting, by method or by both, with wildcards."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch

from sortition.core.errors import bad
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan


def matching_runs(plan: StudyPlan, patterns: Sequence[str], whole_plan: StudyPlan | None = None) -> StudyPlan:
    """Return the plan with the runs that one of the patterns names, or with all of them where there is no pattern.

    Patterns that match nothing are refused; the message lists the names of ``whole_plan``, by default of ``plan``.
    """
    chosen = plan.only(run for run in plan.runs if is_matched(run, patterns))
    if patterns and not chosen.runs:
        listed_plan = whole_plan or plan
        names = ", ".join([*listed_plan.settings, *listed_plan.labels])
        raise bad("--only", f"a setting, a method or setting/method of the study ({names})", " ".join(patterns))
    return chosen


def is_matched(run: RunConfig, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern names a run's setting, label or setting/label; without patterns every run matches."""
    if not patterns:
        return True
    names = (run.setting, run.method.label, f"{run.setting}/{run.method.label}")
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)
