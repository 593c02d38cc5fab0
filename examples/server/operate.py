"""A federation to practise operation on: policies, metrics, a shadow and a checkpoint, with twenty devices in threads.

    python examples/server/operate.py demo --rounds 3000

Kill it and start it with the same command: it goes on where it was. ``docs/operate.md`` walks through the rest.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import threading
from pathlib import Path

import digits_task

from sortition import Policy, SortitionError
from sortition.federation import Federation, Mailbox, Wait

POLICY = Policy(participations=3, window="10 rounds", separation="2 rounds")
FAILING = 0.03  # of the trainings never come back


def live(mailbox: Mailbox, name: str, stop: threading.Event) -> None:
    """What one device does: check in, work, deliver; now and then it vanishes with its work."""
    device = digits_task.device(name)
    while not stop.is_set():
        work = mailbox.check_in(name)
        if isinstance(work, Wait):
            stop.wait(0.2)
        elif work.ask.kind != "train" or random.random() > FAILING:  # noqa: S311  a simulation, not a secret
            mailbox.deliver(work.handle, device.handle(work), name=name)


def main() -> None:
    try:
        operate()
    except SortitionError as error:
        raise SystemExit(f"operate: {error}") from None


def operate() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where checkpoint, history and ledger go")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--metrics", type=int, default=9464, help="port of the endpoint")
    parser.add_argument("--promote", help="a shadow that takes the live method's place")
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    mailbox = Mailbox(presence=5.0, pause=0.5)
    federation = Federation(
        mailbox,
        digits_task.first_model(),
        "power-of-choice",
        cohort=4,
        deadline=5.0,
        wait_for=10,
        policy=POLICY,
        metrics=args.metrics,
        shadow=["oort", "uniform"],
        promote=args.promote,
        checkpoint=args.folder / "run.npz",
        resume=True,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: federation.stop())
    stop = threading.Event()
    names = [f"device-{number}-of-20" for number in range(20)]
    devices = [threading.Thread(target=live, args=(mailbox, name, stop), daemon=True) for name in names]
    for device in devices:
        device.start()
    federation.run(args.rounds)
    stop.set()


if __name__ == "__main__":
    main()
