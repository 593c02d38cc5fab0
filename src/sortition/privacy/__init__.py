"""Which promises of privacy a selection keeps: rules, each with a sentence and a reference."""

from sortition.privacy.lint import Finding, lint
from sortition.privacy.promises import Deployment, Promises

__all__ = ["Deployment", "Finding", "Promises", "lint"]
