"""Checks with the real Flower take minutes: they run when asked for (``make test-flower``), and say so when skipped."""

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    if find_spec("flwr") is None:
        reason = "flwr is not installed: make test-flower"
    elif "flower" in config.option.markexpr:
        return
    else:
        reason = "real federations take minutes: make test-flower"
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("flower"):
            item.add_marker(pytest.mark.skip(reason=reason))
