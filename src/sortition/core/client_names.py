"""Stable names of clients, in the order that people expect."""

from __future__ import annotations

import re


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts "client-2" before "client-10"; any text has one."""
    parts = re.split(r"([0-9]{1,18})", name)  # other digits, such as ², are letters here
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]
