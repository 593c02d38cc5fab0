"""Models, local training of a whole cohort at once, and the server's step. Needs the extra ``[lab]``."""

from sortition.learning.learner import Learner, Trained
from sortition.learning.models import build
from sortition.learning.rule import LocalRule
from sortition.learning.server import ServerRule

__all__ = ["Learner", "LocalRule", "ServerRule", "Trained", "build"]
