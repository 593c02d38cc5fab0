"""What a strategy does with weights: which rules use them, ignore them, or count on equal ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from logging import WARNING

from flwr.common.logger import log
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    FedYogi,
    Krum,
    QFedAvg,
    Strategy,
)

from sortition.core.errors import bad

PRIVATE = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)
LINEAR = (FedAvg, FedAvgM, FedAdam, FedAdagrad, FedYogi)  # whose step is one of the weighted mean
UNWEIGHTED = (Bulyan, FedMedian, FedTrimmedAvg, Krum, QFedAvg, FedXgbBagging, FedXgbCyclic)
TREES = (FedXgbBagging, FedXgbCyclic)
USUAL_KEY = "num-examples"  # under which clients of Flower's own examples say how many they have


@dataclass(frozen=True)
class StrategyTraits:
    """How a strategy treats the replies.

    Attributes:
        linear: its next model is a function of w + Σ a_k Δ_k alone, so any mass can be kept.
        weighs: it uses the selector's weights.
        least_updates: the number of updates below which it makes no model.
        replies_for_noise: the number of replies of equal weights that its noise of differential privacy is computed
            for; 0: it adds no noise.
        trees: its models are trees, and no vectors.
        reads_metrics: its model depends on metrics, so a reply with unsound ones cannot be used.
        is_custom: its aggregation is the user's own, and not one of Flower's.
        own_evaluation: its average of evaluations is the user's own, and not one of Flower's.
        only_floats: it fails on a model with whole numbers.
    """

    linear: bool
    weighs: bool
    least_updates: int
    replies_for_noise: int
    trees: bool
    reads_metrics: bool
    is_custom: bool
    own_evaluation: bool
    only_floats: bool


def layers(strategy: Strategy) -> list[Strategy]:
    """Return a strategy and those that it wraps, from the outside in."""
    outside_in = [strategy]
    while True:
        wrapped = _wrapped_strategy(outside_in[-1])
        if wrapped is None or wrapped in outside_in:
            return outside_in
        outside_in.append(wrapped)


def _wrapped_strategy(strategy: Strategy) -> Strategy | None:
    """Return the first strategy that another one holds; a FedAvg wraps nothing."""
    if isinstance(strategy, FedAvg):
        return None
    for value in vars(strategy).values():
        if isinstance(value, Strategy):
            return value
    return None


def innermost(strategy: Strategy) -> Strategy:
    """Return the strategy inside all wrappers."""
    return layers(strategy)[-1]


def traits_of(strategy: Strategy) -> StrategyTraits:
    """Say what is known of a strategy; a rule of the user's own is taken to use the weights as FedAvg does."""
    if not isinstance(strategy, Strategy):
        raise bad("SelectorStrategy.strategy", "a flwr.serverapp.strategy.Strategy", strategy)
    inner = innermost(strategy)
    private = [layer for layer in layers(strategy) if isinstance(layer, PRIVATE)]
    replies_for_noise = 0
    if private:
        replies_for_noise = int(private[0].num_sampled_clients)
    least_updates = max(replies_for_noise, 1)
    if isinstance(inner, Bulyan):
        least_updates = max(least_updates, 4 * inner.num_malicious_nodes + 3)
    step = _function(strategy.aggregate_train)
    evaluation = _function(strategy.aggregate_evaluate)
    return StrategyTraits(
        linear=step in [rule.aggregate_train for rule in LINEAR],
        weighs=not isinstance(inner, UNWEIGHTED) and not private,
        least_updates=least_updates,
        replies_for_noise=replies_for_noise,
        trees=isinstance(inner, TREES),
        reads_metrics=isinstance(inner, QFedAvg) or bool(private),
        is_custom=not step.__module__.startswith("flwr."),
        own_evaluation=not evaluation.__module__.startswith("flwr."),
        only_floats=isinstance(inner, QFedAvg),
    )


def _function(method: Callable[..., object]) -> Callable[..., object]:
    """Return a method as its class has it."""
    function: Callable[..., object] = getattr(method, "__func__", method)
    return function


def log_ignored_options(strategy: Strategy) -> None:
    """Log which options of a strategy of the FedAvg family have no effect, as the selector decides in their place."""
    name = type(strategy).__name__
    key = getattr(strategy, "weighted_by_key", USUAL_KEY)
    if key != USUAL_KEY:
        log(
            WARNING, "%s.weighted_by_key = %r: what clients say there is not read, the selector weighs them.", name, key
        )
    if getattr(strategy, "fraction_train", 1.0) == 0:
        log(WARNING, "%s.fraction_train = 0 is not read: the selector says who trains.", name)
