"""What is said of a client that failed, and which replies belong to which messages."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from sortition.flower.grid_transport import plain_reason

RAY = """<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'ray::ClientAppActor.run() (pid=1, ip=192.0.2.2)
  File "client.py", line 155, in __call__
    return self.rows(after)
           ^^^^^^^^^^^^^^^^
sortition.core.errors.InputError: The app's train function must return a metric 'train_loss': it is asked for.

The above exception was the direct cause of the following exception:

ray::ClientAppActor.run() (pid=1, ip=192.0.2.2)
    raise ClientAppException(str(ex)) from ex
flwr.clientapp.client_app.ClientAppException:
Exception ClientAppException occurred. Message: The app's train function must return …'>"""


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (RAY, "InputError: The app's train function must return a metric 'train_loss': it is asked for."),
        (RAY.replace("sortition.core.errors.InputError: The app's", "KeyError: 'x'\nThe app's"), None),
        ("<class 'KeyError'>:<''arrays''>", "KeyError: 'arrays'"),
        ("<class 'a.b.Odd'>:<'two\n lines'>", "Odd: two lines"),
        ("no such\nquery ", "no such query"),
        ("", ""),
    ],
)
def test_a_reason_is_one_line(reason, said):
    assert said is None or plain_reason(reason) == said
    assert "\n" not in plain_reason(reason)
