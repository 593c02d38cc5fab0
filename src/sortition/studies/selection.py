"""Which runs of a plan ``--only`` selects: by setting, by method or by both, with wildcards."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch

from sortition.core.errors import bad
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan


def selected(plan: StudyPlan, only: Sequence[str], whole: StudyPlan | None = None) -> StudyPlan:
    """The runs that one of the patterns names, all if there are none; a choice that matches nothing is an error.

    ``whole`` is the plan that the error lists, where ``plan`` was cut before.
    """
    chosen = plan.only(run for run in plan.runs if matches(run, only))
    if only and not chosen.runs:
        known = whole or plan
        names = ", ".join([*known.settings, *known.labels])
        raise bad("--only", f"a setting, a method or setting/method of the study ({names})", " ".join(only))
    return chosen


def matches(run: RunConfig, only: Sequence[str]) -> bool:
    """Whether a run's setting, label or setting/label is among the patterns."""
    names = (run.setting, run.method.label, f"{run.setting}/{run.method.label}")
    return not only or any(fnmatch(name, pattern) for name in names for pattern in only)
