"""The contract catches what it claims to catch: one broken method per point."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from sortition.core import (
    LOSS,
    Cohort,
    InputError,
    Measure,
    Needs,
    Round,
    Selector,
    State,
    method,
    per_client,
    per_pair,
)
from sortition.testing import ContractError, check_selector, contract
from sortition.testing.outside import outside_sources


@method
class Good(Selector[State]):
    """A method of a few lines, as in CONTRIBUTING."""

    share: Annotated[float, Field(ge=0, le=1)] = 0.5

    def select(self, state: State, round: Round) -> Cohort:
        ids = round.rng.permutation(round.available)[: max(1, int(self.share * round.places))]
        return Cohort.uniform(ids)


def test_a_good_method_passes():
    check_selector(Good)
    check_selector(DerivedSeed)
    check_selector(ById)
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


DRAWS = np.random.default_rng(0)
CALLS = []


@method
class OwnGenerator(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(DRAWS.permutation(round.available)[: round.budget])


@method
class ConstantSeed(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(np.random.default_rng(round.index).permutation(round.available)[: round.budget])


@method
class FreshSeed(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(np.random.default_rng().permutation(round.available)[: round.budget])


@method
class DerivedSeed(Good):
    def select(self, state, round):
        draws = np.random.default_rng(round.rng.integers(2**32))
        return Cohort.uniform(draws.permutation(round.available)[: max(1, int(self.share * round.places))])


@method
class Counting(Good):
    def select(self, state, round):
        count()
        return super().select(state, round)


def count():
    CALLS.append(1)


ROUNDS_SEEN: set[int] = set()


@method
class Saturating(Good):
    """Its memory is full after the first run, and the same from then on."""

    def select(self, state, round):
        ROUNDS_SEEN.add(round.index)
        ids = np.roll(round.available, len(ROUNDS_SEEN) + int(self.share))
        return Cohort.uniform(ids[: round.budget])


@method
class Aimless(Good):
    def select(self, state, round):
        _ = self.share
        return Cohort.uniform(np.roll(round.available, secrets.randbelow(len(round.available)))[: round.budget])


class Losses(Good):
    @property
    def needs(self):
        return Needs(asks=(LOSS,))


@method
class ByPosition(Losses):
    def select(self, state, round):
        _ = self.share
        loss = yield Measure(LOSS, round.available)
        return Cohort.uniform(round.available[np.argsort(-loss.values)][: round.budget])


@method
class CandidatesByPosition(Losses):
    def select(self, state, round):
        _ = self.share
        candidates = round.rng.permutation(round.available)[: 2 * round.budget]
        loss = yield Measure(LOSS, candidates)
        return Cohort.uniform(candidates[np.argsort(-loss.values)][: round.budget])


@dataclass
class LastLoss(State):
    loss: np.ndarray = per_client(0.0)


@method
class TableByPosition(Losses):
    memory = LastLoss

    def select(self, state, round):
        _ = self.share
        answer = yield Measure(LOSS, round.available)
        state.loss[round.available[: len(answer)]] = answer.values
        return Cohort.uniform(round.available[np.argsort(-state.loss[round.available])][: round.budget])


@method
class ById(Losses):
    def select(self, state, round):
        _ = self.share
        loss = yield Measure(LOSS, round.available)
        return Cohort.uniform(loss.largest(round.budget))


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
        (Tossed, r"drew from a global random generator \(numpy\.random\)\. Draw from round\.rng"),
        (Clockwork, r"keeps memory outside its state \(Clockwork\.counter\)"),
        (OwnGenerator, r"has a random generator of its own \(DRAWS\)\. Draw from round\.rng"),
        (ConstantSeed, r"has a random generator of its own \(default_rng\)"),
        (FreshSeed, r"has a random generator of its own \(default_rng\)"),
        (Counting, r"keeps memory outside its state \(CALLS\)"),
        (Saturating, r"keeps memory outside its state \(ROUNDS_SEEN\)"),
        (Aimless, "chose other clients under the same seed"),
        (
            ByPosition,
            r"another client where some do not answer\..* never positions in round\.available \(with share = 0\.5\)\.",
        ),
        (CandidatesByPosition, "gives a client's answer to another client where some do not answer"),
        (TableByPosition, "gives a client's answer to another client where some do not answer"),
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
        monkeypatch.setattr("sortition.testing.selection_cost.selection_cost", lambda s, n: (0.01, float(n) ** 2))
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
    assert not any("beyond population.known_ids" in one for one in said)


def test_a_method_may_say_that_it_does_not_scale(monkeypatch):
    monkeypatch.setattr(Quadratic, "scales", False)
    check_selector(Quadratic)


rng = np.random.default_rng(0)  # of the script around a method, which draws from round.rng


def test_the_generator_of_a_round_is_not_taken_for_one_of_the_script():
    assert outside_sources(Good()) == []


def test_looking_for_other_generators_leaves_them_as_they_were():
    before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    assert outside_sources(Global()) == ["drew from a global random generator (random). Draw from round.rng."]
    assert outside_sources(Tossed()) == ["drew from a global random generator (numpy.random). Draw from round.rng."]
    assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002
