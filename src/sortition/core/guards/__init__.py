"""How far clients are trusted: settings, who is eligible, what is screened, who is explored."""

from sortition.core.guards.settings import Guards

__all__ = ["Guards"]
