from __future__ import annotations

import pytest
from hypothesis import settings

# one profile for everybody: repeatable, and no deadline on a busy machine
settings.register_profile("sortition", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("sortition")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store what the methods choose now as golden records")
