"""For authors of methods and backends: the public contracts, worlds without a training engine, and golden records."""

from sortition.testing.conformance import check_selector, contract
from sortition.testing.golden import golden_record
from sortition.testing.play import play
from sortition.testing.transport_checks import check_transport
from sortition.testing.violation import ContractError
from sortition.testing.worlds import QuadraticWorld, ScriptedWorld

__all__ = [
    "ContractError",
    "QuadraticWorld",
    "ScriptedWorld",
    "check_selector",
    "check_transport",
    "contract",
    "golden_record",
    "play",
]
