"""For authors of methods: the public contract, worlds that need no training engine, and golden records."""

from sortition.testing.conformance import check_selector, contract
from sortition.testing.golden import golden_record
from sortition.testing.play import play
from sortition.testing.violation import ContractError
from sortition.testing.worlds import QuadraticWorld, ScriptedWorld

__all__ = ["ContractError", "QuadraticWorld", "ScriptedWorld", "check_selector", "contract", "golden_record", "play"]
