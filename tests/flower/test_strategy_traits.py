"""What is known of a strategy, through wrappers of one's own."""

import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg, FedMedian, Strategy

from sortition.core.errors import InputError
from sortition.flower import SelectorStrategy
from sortition.flower.strategy_traits import innermost, traits_of


class Wrapper(Strategy):
    """A strategy around another, whatever the attribute is called."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def configure_train(self, *args):
        return self.wrapped.configure_train(*args)

    def aggregate_train(self, *args):
        return self.wrapped.aggregate_train(*args)

    def configure_evaluate(self, *args):
        return self.wrapped.configure_evaluate(*args)

    def aggregate_evaluate(self, *args):
        return self.wrapped.aggregate_evaluate(*args)

    def summary(self):
        self.wrapped.summary()


def test_noise_inside_a_wrapper_of_ones_own_has_its_equal_weights():
    inner = FedAvg()
    wrapper = Wrapper(DifferentialPrivacyServerSideFixedClipping(inner, 1.0, 1.0, 3))
    kind = traits_of(wrapper)
    assert (kind.replies_for_noise, kind.least_updates, kind.weighs, kind.linear) == (3, 3, False, False)
    assert innermost(wrapper) is inner
    with pytest.raises(InputError, match="num_sampled_clients must be the cohort, 4"):
        SelectorStrategy("uniform", cohort=4, strategy=wrapper)
    with pytest.raises(InputError, match="must not hold a SelectorStrategy"):
        SelectorStrategy("uniform", cohort=4, strategy=Wrapper(SelectorStrategy("uniform", cohort=4)))


def test_a_strategy_that_keeps_another_at_hand_is_still_the_one_that_samples():
    strategy, wrapper = FedAvg(), Wrapper(None)
    strategy.fallback, wrapper.wrapped = FedMedian(), wrapper
    assert innermost(strategy) is strategy
    assert innermost(wrapper) is wrapper
