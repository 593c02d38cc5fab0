"""Models, and local training of a whole cohort at once. Needs the extra ``[lab]``.

The names are imported when they are first used: the local rule needs no PyTorch.
"""

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.learning.learner import CohortTrainingResult, Learner
    from sortition.learning.models import build
    from sortition.learning.rule import LocalRule

__all__ = ["CohortTrainingResult", "Learner", "LocalRule", "build"]
__getattr__ = exports(
    __name__,
    {
        "Learner": "sortition.learning.learner",
        "LocalRule": "sortition.learning.rule",
        "CohortTrainingResult": "sortition.learning.learner",
        "build": "sortition.learning.models",
    },
)
