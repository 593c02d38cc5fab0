"""The contract catches what it claims to catch: one broken method per point."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from sortition.core import LOSS, Cohort, InputError, Measure, Needs, Round, Selector, State, method, per_pair
from sortition.testing import ContractError, check_selector, contract


@method
class Good(Selector[State]):
    """A method of a few lines, as in CONTRIBUTING."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.5

    def select(self, state: State, round: Round) -> Cohort:
        ids = round.rng.permutation(round.available)[: max(1, int(self.share * round.places))]
        return Cohort.uniform(ids)


def test_a_good_method_passes():
    check_selector(Good)
    check_selector(lambda: Good(share=0.3))
    for other in (int, "uniform", Good(share=0.3)):
        with pytest.raises(InputError, match="must be given a Selector class"):
            check_selector(other)
    with pytest.raises(InputError, match="Plain must be decorated with @method"):
        check_selector(Plain)


class Plain(Selector[State]):
    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


@method
class Everybody(Good):
    def select(self, state, round):
        return Cohort.uniform(round.available)


@method
class Positions(Good):
    def select(self, state, round):
        return Cohort.uniform(np.arange(round.places))


@method
class Global(Good):
    def select(self, state, round):
        random.random()  # noqa: S311
        return Cohort.uniform(round.available[: round.budget])


@method
class Clockwork(Good):
    counter = [0]

    def select(self, state, round):
        self.counter[0] += 1
        return Cohort.uniform(np.roll(round.available, self.counter[0])[: round.budget])


@method
class Tossed(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(np.random.permutation(round.available)[: round.budget])  # noqa: NPY002


@method
class Unread(Good):
    speed: float = 1.0


@method
class Unbounded(Good):
    limit: Any = None

    def select(self, state, round):
        _ = self.limit, self.share
        return Cohort.uniform(round.available[: round.budget])


@method
class Undeclared(Good):
    def select(self, state, round):
        yield Measure(LOSS, round.available)
        return Cohort.uniform(round.available[: round.budget])


@method
class Fragile(Good):
    @property
    def needs(self):
        return Needs(asks=(LOSS,))

    def select(self, state, round):
        loss = yield Measure(LOSS, round.available)
        _ = self.share
        return Cohort.uniform([loss.ids[np.argmax(loss.values)]])  # nobody may answer


@dataclass
class Pairs(State):
    distance: np.ndarray = per_pair(0.0, dtype=np.int8)


@method
class Quadratic(Good):
    memory = Pairs


@method
class Forgetful(Good):
    def observe(self, state, feedback):
        state.seen = feedback.ids


@method
class Noisy(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(round.available[: round.budget], notes={"who": round.available})


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Everybody, "within the budget"),
        (Positions, "not available"),
        (Global, "drew from a global random generator"),
        (Tossed, r"drew from a global random generator\. Draw from round\.rng"),
        (Clockwork, "chose other clients under the same seed"),
        (Unread, r"never reads \['speed'\]"),
        (Unbounded, "accepts"),
        (Undeclared, "needs.asks do not declare"),
        (Fragile, "Lost, spoiled and missing answers"),
        (Quadratic, "the memory for 10 × the clients"),
        (Forgetful, "State.seen cannot be set"),
        (Noisy, "notes are plain data"),
    ],
)
def test_a_broken_method_is_told_what_it_breaks(broken, sentence, monkeypatch):
    if broken is Quadratic:  # 100,000² bytes need not be tried for real
        monkeypatch.setattr("sortition.testing.cost.selection_cost", lambda s, n: (0.01, float(n) ** 2))
    with pytest.raises(ContractError, match=sentence):
        check_selector(broken)


@pytest.mark.parametrize("broken", [Tossed, Clockwork])
def test_a_method_that_is_not_repeatable_is_not_said_to_read_what_it_does_not(broken):
    said = []
    for _, point in contract(broken):
        try:
            point()
        except ContractError as error:
            said.append(str(error))
    assert sum("round.rng" in one for one in said) == 4
    assert not any("beyond population.known" in one for one in said)


def test_a_method_may_say_that_it_does_not_scale(monkeypatch):
    monkeypatch.setattr(Quadratic, "scales", False)
    check_selector(Quadratic)
