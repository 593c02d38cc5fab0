"""One federation, one program: what the simulator, Flower, NVFlare and a server of one's own share.

A server author makes a :class:`Federation` on a :class:`Mailbox`, and its devices answer with a :class:`Device`.
Another way to move messages is a :class:`Transport`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortition._lazy import exports

if TYPE_CHECKING:
    from sortition.federation.device import Device
    from sortition.federation.device_mailbox import Mailbox, Wait, Work
    from sortition.federation.messages import Ask, Peer, Profile, Reply, Transport
    from sortition.federation.monitoring import Metrics
    from sortition.federation.pace import Pace
    from sortition.federation.transport_federation import Federation

__all__ = [
    "Ask",
    "Device",
    "Federation",
    "Mailbox",
    "Metrics",
    "Pace",
    "Peer",
    "Profile",
    "Reply",
    "Transport",
    "Wait",
    "Work",
]
__getattr__ = exports(
    __name__,
    {
        "Ask": "sortition.federation.messages",
        "Device": "sortition.federation.device",
        "Federation": "sortition.federation.transport_federation",
        "Mailbox": "sortition.federation.device_mailbox",
        "Metrics": "sortition.federation.monitoring",
        "Pace": "sortition.federation.pace",
        "Peer": "sortition.federation.messages",
        "Profile": "sortition.federation.messages",
        "Reply": "sortition.federation.messages",
        "Transport": "sortition.federation.messages",
        "Wait": "sortition.federation.device_mailbox",
        "Work": "sortition.federation.device_mailbox",
    },
)
