"""A hash-chained log of every choice, from which an outsider can recompute it."""

from sortition.audit.log import AuditLog
from sortition.audit.log_file import LogFile

__all__ = ["AuditLog", "LogFile"]
