"""Which promises of privacy a selection keeps: rules, each with a sentence and a reference."""

from sortition.privacy.epsilon import PrivacyBudget, privacy_budget
from sortition.privacy.promise_checks import PrivacyFinding, lint
from sortition.privacy.promises import Deployment, Promises

__all__ = ["Deployment", "PrivacyBudget", "PrivacyFinding", "Promises", "lint", "privacy_budget"]
