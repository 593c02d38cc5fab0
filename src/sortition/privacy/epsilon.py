"""ε and δ of a federation: central noise on the sum of clipped updates, amplified by how clients are sampled.

The bound is computed by ``dp-accounting`` (Google's library of differential privacy), for methods whose sampling it
knows (:attr:`~sortition.core.selector.Selector.sampling`). All others are refused in words: where who is chosen depends
on clients' data, no bound of amplification holds.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from sortition.core.errors import InputError, bad
from sortition.core.selector import AnySelector, Sampling
from sortition.privacy.promise_checks import data_dependence
from sortition.privacy.promises import Deployment

Accountant = Literal["rdp", "pld"]
ACCOUNTANTS = ("rdp", "pld")
SHIFTING_GUARDS = ("explore", "quota", "ceiling", "quarantine", "returning")
BASES = {
    "poisson": "clients added or removed",
    "full": "clients added or removed",
    "without-replacement": "clients replaced",
}  # sampling → which federations are neighbours


@dataclass(frozen=True)
class PrivacyBudget:
    """What a federation promises.

    Attributes:
        epsilon: ε.
        delta: δ.
        sampling: how clients are drawn.
        probability: the chance of a client to take part in a round.
        rounds: how many there are.
        noise: the noise multiplier: the noise's standard deviation over the largest influence of one client on the sum.
        accountant: ``rdp`` (Rényi differential privacy) or ``pld`` (privacy loss distributions, tighter and slower).
        neighbours: which federations the promise does not tell apart.
        conditions: what must hold, and nobody checks here.
    """

    epsilon: float
    delta: float
    sampling: Sampling
    probability: float
    rounds: int
    noise: float
    accountant: Accountant
    neighbours: str
    conditions: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"ε = {self.epsilon:.4g} at δ = {self.delta:g}: {self.rounds} rounds of {self.sampling} sampling with "
            f"probability {self.probability:.4g}, noise multiplier {self.noise:g}, {self.neighbours}"
        )


def privacy_budget(
    selector: AnySelector,
    deployment: Deployment,
    *,
    noise: float,
    delta: float,
    accountant: Accountant = "rdp",
) -> PrivacyBudget:
    """Return ε of a federation at δ; a method without a bound is refused.

    Args:
        selector: the method.
        deployment: clients, cohort and rounds of the federation.
        noise: the noise multiplier, with respect to the largest weight that one client's clipped update can have.
        delta: δ, usually well below one over the number of clients.
        accountant: ``rdp``, or ``pld``, which has no bound for draws without replacement.
    """
    clients, cohort, rounds = _check_numbers(deployment, noise, delta, accountant)
    sampling = _find_sampling(selector)
    _check_guards(deployment)
    probability = _probability(selector, sampling, cohort, clients)
    dp = _import_package()
    event = _make_event(dp, sampling, probability=probability, cohort=cohort, clients=clients, noise=noise)
    ledger = _make_accountant(dp, accountant, sampling)
    repeated = dp.SelfComposedDpEvent(event, rounds)
    if not ledger.supports(repeated):
        hint = "Use accountant 'rdp'."
        raise bad("budget.accountant", f"one with a bound for {sampling} sampling", accountant, hint)
    ledger.compose(repeated)
    return PrivacyBudget(
        epsilon=float(ledger.get_epsilon(delta)),
        delta=float(delta),
        sampling=sampling,
        probability=probability,
        rounds=rounds,
        noise=float(noise),
        accountant=accountant,
        neighbours=BASES[sampling],
        conditions=_conditions(selector, sampling),
    )


def _check_numbers(deployment: Deployment, noise: float, delta: float, accountant: str) -> tuple[int, int, int]:
    """Return clients, cohort and rounds, all of which must be given."""
    for name in ("clients", "cohort", "rounds"):
        if getattr(deployment, name) is None:
            raise bad(f"budget.{name}", "given", None)
    clients, cohort, rounds = (int(getattr(deployment, name)) for name in ("clients", "cohort", "rounds"))
    if cohort > clients:
        raise bad("budget.cohort", f"at most the number of clients, {clients}", cohort)
    if not (math.isfinite(noise) and noise > 0):
        raise bad("budget.noise", "a finite number > 0", noise, "Without noise there is no bound.")
    if not 0 < delta < 1:
        raise bad("budget.delta", "between 0 and 1", delta)
    if accountant not in ACCOUNTANTS:
        raise bad("budget.accountant", f"one of {', '.join(ACCOUNTANTS)}", accountant)
    return clients, cohort, rounds


def _find_sampling(selector: AnySelector) -> Sampling:
    """Return how the method draws clients, or refuse it and say why there is no bound."""
    if selector.sampling is not None:
        return selector.sampling
    method = type(selector).__name__
    names = data_dependence(selector)
    if names:
        why = f"who is chosen depends on clients' data ({', '.join(names)})"
    else:
        why = "it does not draw each client with one known probability"
    raise InputError(
        f"{method} has no bound on privacy: {why}. Use poisson or uniform, or account for every round in full with "
        "the method full."
    )


def _check_guards(deployment: Deployment) -> None:
    """Refuse guards by which others are drawn than the method draws."""
    for name in SHIFTING_GUARDS:
        value = getattr(deployment.guards, name)
        if value:
            hint = "It changes who is drawn, so that the bound does not hold."
            raise bad(f"Guards.{name}", "0 where a budget is computed", value, hint)


def _probability(selector: AnySelector, sampling: Sampling, cohort: int, clients: int) -> float:
    if sampling == "full":
        return 1.0
    q = selector.parameters().get("q")
    if sampling == "poisson" and q is not None:
        return min(float(q), 1.0)
    return cohort / clients


def _make_event(
    dp: ModuleType, sampling: Sampling, *, probability: float, cohort: int, clients: int, noise: float
) -> Any:
    """Return one round as the accountant's event."""
    gaussian = dp.GaussianDpEvent(noise)
    if sampling == "poisson":
        return dp.PoissonSampledDpEvent(probability, gaussian)
    if sampling == "without-replacement" and cohort < clients:
        return dp.SampledWithoutReplacementDpEvent(clients, cohort, gaussian)
    return gaussian


def _make_accountant(dp: ModuleType, accountant: Accountant, sampling: Sampling) -> Any:
    """Return an accountant of dp-accounting, for the neighbours that the sampling has a bound for."""
    relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    if sampling == "without-replacement":
        relation = dp.NeighboringRelation.REPLACE_ONE
    if accountant == "pld":
        return dp.pld.PLDAccountant(neighboring_relation=relation)
    return dp.rdp.RdpAccountant(neighboring_relation=relation)


def _conditions(selector: AnySelector, sampling: Sampling) -> tuple[str, ...]:
    """Say what the bound rests on."""
    conditions = [
        "every update is clipped, and the noise is calibrated to the largest weight that one client can have",
        "the draw stays secret: a published audit log discloses its seed",
    ]
    if sampling == "without-replacement":
        conditions.append("everybody is available: among fewer clients each is drawn with a higher probability")
    if sampling == "full":
        conditions = conditions[:1]
    if "sizes" in selector.needs.reads:
        conditions.append("the sizes of clients' data are public: they are given without noise")
    return tuple(conditions)


def _import_package() -> ModuleType:
    """Return dp-accounting, or raise how to install it."""
    try:
        package = importlib.import_module("dp_accounting")
        importlib.import_module("dp_accounting.rdp")
        importlib.import_module("dp_accounting.pld")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("dp_accounting"):
            raise
        raise InputError("budget needs dp-accounting. Try: pip install 'sortition[budget]'.") from None
    return package
