"""A pytest plugin, ``-p tests.shuffled``: tests in random order, by ``PYTHONHASHSEED`` where it is a number."""

from __future__ import annotations

import os
import random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle files, and tests inside each file: module fixtures are still made once."""
    seed = os.environ.get("PYTHONHASHSEED", "0")
    files = sorted({item.path for item in items})
    rng = random.Random(seed)  # noqa: S311 - an order, not a secret
    rng.shuffle(files)
    rank = {path: place for place, path in enumerate(files)}
    rng.shuffle(items)
    items.sort(key=lambda item: rank[item.path])
