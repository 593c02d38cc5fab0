"""The process of the own server: a federation behind the HTTP server of ``examples/server``."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from http_server import BackgroundServer, make_app

from campaign.operate.settings import Settings, first_model, options
from sortition.federation import Federation, Mailbox
from sortition.federation.wire import upload_limit

DEADLINE = 4.0  # seconds of a round


def main() -> None:
    """Play the rounds that are left."""
    settings = Settings.read(sys.argv[1])
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    tokens = json.loads((Path(settings.folder) / "tokens.json").read_text())
    mailbox = Mailbox(presence=3.0, pause=0.2)
    model = first_model()
    federation = Federation(
        mailbox,
        model,
        "power-of-choice",
        deadline=DEADLINE,
        wait_for=len(tokens) // 2,
        refresh={"battery": 2},
        **options(settings),
    )
    with BackgroundServer(make_app(mailbox, tokens, upload_limit(model)), settings.device_port):
        federation.run(settings.rounds)


if __name__ == "__main__":
    main()
