"""The same selector in a Flower federation, in simulation or deployed. Needs the extra ``[flower]``.

Two lines make a stock app use a method: ``SelectorStrategy(load("fedgs"), cohort=10)`` in the ServerApp, and
``answer(app, pytorch(load_data))`` in the ClientApp.
"""

try:
    import flwr as _flwr  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("sortition.flower needs Flower: pip install 'sortition[flower]'.") from error

from sortition.flower.client import Received, answer, stable_name
from sortition.flower.pytorch import pytorch
from sortition.flower.strategy import SelectorStrategy
from sortition.flower.wire import Task

__all__ = ["Received", "SelectorStrategy", "Task", "answer", "pytorch", "stable_name"]
