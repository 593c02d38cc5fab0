"""The devices of the own server, in a process of their own that outlives the server's kills."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from http_device import HttpDevice, Life

from campaign.operate.own_server import DEADLINE
from campaign.operate.settings import Diary, Settings, facts_of, loss_of, trained
from sortition.clients import Answers, AppReply, Received
from sortition.federation import Device


class Client:
    """Answers the questions of selectors."""

    def __init__(self, received: Received) -> None:
        self._model = received.model["w"]
        self._device = str(received.context)

    def loss(self) -> float:
        """The loss of the model on the device."""
        return loss_of(self._model, self._device)


def device(name: str, diary: Diary) -> Device:
    """The program of one device."""

    def train(received: Received) -> AppReply:
        model = received.model["w"]
        moved = trained(model, name, received.t, diary)
        return AppReply({"w": moved}, {"train_loss": loss_of(model, name), "steps": 1, "lr": 0.5})

    return Device(Answers(Client, lambda context: facts_of(name, diary)), train, name=name)


def main() -> None:
    """Live until this process is ended."""
    settings = Settings.read(sys.argv[1])
    diary = Diary(settings.diary)
    tokens = json.loads((Path(settings.folder) / "tokens.json").read_text())
    stop = threading.Event()
    lives = [
        Life(
            HttpDevice(settings.device_port, name, token),
            device(name, diary),
            seed=number,
            slow_seconds=0.3 * DEADLINE,
        )
        for number, (name, token) in enumerate(tokens.items())
    ]
    threads = [threading.Thread(target=life.live, args=(stop,), daemon=True) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
