"""Studies: one TOML file or one call from Python, many runs, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.studies import track
    from sortition.studies.arguments import partition
    from sortition.studies.from_python import compare, run, simulate, study
    from sortition.studies.runs.callback import Callback
    from sortition.studies.study_result import StudyResult

__all__ = ["Callback", "StudyResult", "compare", "partition", "run", "simulate", "study", "track"]
__getattr__ = exports(
    __name__,
    {
        "Callback": "sortition.studies.runs.callback",
        "StudyResult": "sortition.studies.study_result",
        "compare": "sortition.studies.from_python",
        "partition": "sortition.studies.arguments",
        "run": "sortition.studies.from_python",
        "simulate": "sortition.studies.from_python",
        "study": "sortition.studies.from_python",
        "track": "sortition.studies.track",
    },
)
