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


@pytest.fixture(autouse=True)
def task():
    """Messages know the run that they are made in; Flower sets this in its own processes."""
    if find_spec("flwr") is None:
        yield
        return
    from flwr.supercore.task_identity import TaskIdentity

    before = TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    yield
    TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = before
