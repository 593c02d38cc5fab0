"""Training without selection, shown beside the methods in tables and charts and never compared with them."""

from __future__ import annotations

CENTRALISED = "centralised"
LOCAL_ONLY = "local-only"
REFERENCES = (CENTRALISED, LOCAL_ONLY)
