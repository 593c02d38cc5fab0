from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import settings

# one profile for everybody: repeatable, and no deadline on a busy machine
settings.register_profile("sortition", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("sortition")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="store what the methods choose now as golden records")


# checks with the real thing take minutes: they run when asked for, and say so when skipped
REAL = {"flower": "flwr", "ray": "ray", "nvflare": "nvflare", "server": "starlette"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for marker, module in REAL.items():
        if find_spec(module) is None:
            reason = f"{module} is not installed: make test-{marker}"
        elif marker in config.option.markexpr:
            continue
        else:
            reason = f"takes minutes: make test-{marker}"
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
