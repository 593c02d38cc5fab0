"""What checks with the real Flower share; those marked ``flower`` run when asked for (``make test-flower``)."""

from importlib.util import find_spec

import pytest


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
