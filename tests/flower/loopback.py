"""A grid without processes, for fast tests of the server: every node is a function from a message to its reply."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict

from sortition.federation.model_screening import ModelCheck
from sortition.flower import codec
from sortition.flower.grid_transport import model_of

MODEL = {"w": np.zeros(2, np.float32)}


class Loopback:
    """Nodes that answer at once: a reply, an exception as an error, or None for silence."""

    def __init__(self, nodes):
        self.nodes, self.offline, self.waiting, self.sent = dict(nodes), set(), {}, []

    def get_node_ids(self):
        return [node for node in self.nodes if node not in self.offline]

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, public_key=b"") for node in self.get_node_ids()]

    def push_messages(self, messages):
        made = []
        for message in messages:
            key = message.metadata.__dict__["_message_id"] = f"message-{len(self.sent)}"
            self.sent.append(message)
            made.append(key)
            node = message.metadata.dst_node_id
            try:
                content = None if node in self.offline else self.nodes[node](message)
                reply = None if content is None else Message(content, reply_to=message)
            except RuntimeError as error:
                reply = Message(Error(error.args[1] if len(error.args) > 1 else 0, str(error)), reply_to=message)
            if reply is not None:
                self.waiting[key] = reply
        return made

    def pull_messages(self, message_ids):
        return [self.waiting.pop(key) for key in list(message_ids) if key in self.waiting]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(messages))

    def count(self, kind):
        return sum(message.metadata.message_type == kind for message in self.sent)


def node(name, facts=None, metrics=None, signals=("loss",), w=(1.0, 1.0), trains=True):
    """A client that tells who it is and answers every training with the same model."""

    def answer(message):
        kind = message.metadata.message_type
        if kind == codec.PROFILE:
            about = ConfigRecord({"name": name, "signals": list(signals)})
            return RecordDict({codec.SELF: about, codec.FACTS: codec.to_record(facts or {})})
        told = {"metrics": MetricRecord(metrics or {})}
        if kind == "evaluate":
            return RecordDict(told)
        return RecordDict({"arrays": codec.to_record({"w": np.asarray(w, np.float32)}), **told}) if trains else None

    return answer


def fails(message):
    """A node whose app knows nothing of us."""
    raise RuntimeError("no such query")


def usable(contents, model, guards=None):
    """The models in these replies that can be used, and what is wrong with the others, as the server finds them."""
    read = {client: model_of(content, "arrays") for client, content in contents.items()}
    check = ModelCheck() if guards is None else ModelCheck(guards)
    models, faults = check.screen({client: sent or {} for client, (sent, fault) in read.items() if not fault}, model)
    return models, faults | {client: fault for client, (_, fault) in read.items() if fault}


def told(history):
    """Records without the time of the day, which no two runs share."""
    return [{key: value for key, value in record.items() if key != "clock"} for record in history]
