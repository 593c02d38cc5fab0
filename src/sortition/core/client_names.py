"""Stable names of clients, in the order that people expect."""

from __future__ import annotations

import re


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Return a sorting key that puts "client-2" before "client-10"; any text has one."""
    key = []
    for part in re.split(r"([0-9]{1,18})", name):  # other digits, such as ², are letters here
        if part.isascii() and part.isdigit():
            key.append((0, int(part), ""))
        elif part:
            key.append((1, 0, part))
    return key
