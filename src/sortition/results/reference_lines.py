"""Training without selection, shown beside the methods in tables and charts and never compared with them."""

from __future__ import annotations

REFERENCES = ("centralised", "local-only")
