"""A ClientApp without a framework: everything it does is to answer."""

from flwr.clientapp import ClientApp

from quickstart.task import Softmax, facts
from sortition.flower import answer

app = ClientApp()
answer(app, Softmax, facts=facts)
