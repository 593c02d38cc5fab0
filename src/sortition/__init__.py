"""Sortition: client selection for federated learning.

The public names are imported when they are first used (PEP 562), so ``import sortition`` costs almost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sortition.core import (
        Cohort,
        DataError,
        Feedback,
        Guards,
        InputError,
        Measure,
        Needs,
        Policy,
        Population,
        Reading,
        Registrar,
        Round,
        Selector,
        Signal,
        SortitionError,
        State,
        StorageError,
        Turn,
        UndeclaredError,
        method,
        per_client,
        per_pair,
        shared,
    )
    from sortition.selectors import discover, load
    from sortition.studies import Callback, StudyResult, compare, partition, run, simulate, study, track
    from sortition.testing import check_selector

__all__ = [
    "Callback",
    "Cohort",
    "DataError",
    "Feedback",
    "Guards",
    "InputError",
    "Measure",
    "Needs",
    "Policy",
    "Population",
    "Reading",
    "Registrar",
    "Round",
    "Selector",
    "Signal",
    "SortitionError",
    "State",
    "StorageError",
    "StudyResult",
    "Turn",
    "UndeclaredError",
    "__version__",
    "check_selector",
    "compare",
    "discover",
    "load",
    "method",
    "partition",
    "per_client",
    "per_pair",
    "run",
    "shared",
    "simulate",
    "study",
    "track",
]

_ROOMS = (
    "advice",
    "aggregation",
    "audit",
    "availability",
    "clients",
    "core",
    "data",
    "federation",
    "learning",
    "privacy",
    "report",
    "results",
    "selectors",
    "simulation",
    "studies",
    "testing",
)  # packages that can be reached as attributes: sortition.data.load
_ELSEWHERE = {
    "check_selector": "sortition.testing",
    "discover": "sortition.selectors",
    "load": "sortition.selectors",
    "Callback": "sortition.studies",
    "StudyResult": "sortition.studies",
    "compare": "sortition.studies",
    "partition": "sortition.studies",
    "run": "sortition.studies",
    "simulate": "sortition.studies",
    "study": "sortition.studies",
    "track": "sortition.studies",
}  # every other public name is core's


def __getattr__(name: str) -> Any:
    """Import a public name or a package when it is first used."""
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_ELSEWHERE.get(name, "sortition.core")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names and the packages."""
    return sorted({*globals(), *__all__, *_ROOMS})
