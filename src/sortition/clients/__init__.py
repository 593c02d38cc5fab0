"""What answers a selector's questions on a client, in any framework: a Flower app, an NVFlare script, your own loop.

The protocol is core's (:class:`sortition.core.LocalClient`). Here are clients that implement it for PyTorch and
scikit-learn models, and one around a training function that an app has already.
"""

from sortition.clients.answers import Answers
from sortition.clients.app_training import AppClient, AppReply
from sortition.clients.pytorch import pytorch
from sortition.clients.received_model import Received
from sortition.clients.scikit_learn import scikit_learn

__all__ = ["Answers", "AppClient", "AppReply", "Received", "pytorch", "scikit_learn"]
