"""Models, local training of a whole cohort at once, and the server's step. Needs the extra ``[lab]``.

The names are imported when they are first used: the rules need no PyTorch.
"""

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.learning.learner import Learner, Trained
    from sortition.learning.models import build
    from sortition.learning.rule import LocalRule
    from sortition.learning.server import ServerRule

__all__ = ["Learner", "LocalRule", "ServerRule", "Trained", "build"]
__getattr__ = exports(
    __name__,
    {
        "Learner": "sortition.learning.learner",
        "LocalRule": "sortition.learning.rule",
        "ServerRule": "sortition.learning.server",
        "Trained": "sortition.learning.learner",
        "build": "sortition.learning.models",
    },
)
