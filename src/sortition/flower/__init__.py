"""The same selector in a Flower federation, in simulation or deployed. Needs the extra ``[flower]``.

Two lines make a stock app use a method: ``SelectorStrategy(load("fedgs"), cohort=10)`` in the ServerApp, and
``answer(app, pytorch(load_data))`` in the ClientApp.
"""

try:
    import flwr as _flwr  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("sortition.flower needs Flower: pip install 'sortition[flower]'.") from error

from sortition.clients import Received, pytorch, scikit_learn
from sortition.flower.client_app import answer, stable_name
from sortition.flower.strategy import SelectorStrategy

__all__ = ["Received", "SelectorStrategy", "answer", "pytorch", "scikit_learn", "stable_name"]
