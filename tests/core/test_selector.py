"""A method that is declared wrongly is told so where it is declared, in one sentence."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest

from sortition.core import LOSS, Cohort, InputError, Needs, Selector, State, method, per_client


@dataclass
class Memory(State):
    trained: np.ndarray = per_client(0, dtype=int)


class Plain(Selector[State]):
    def select(self, state: State, round: Any) -> Cohort:
        return Cohort.uniform(round.available[: round.budget])


class Forgotten(State):
    trained: np.ndarray = per_client(0)


def declared(base: Any = Plain, **attributes: Any) -> Any:
    return method(type("Mine", (base,), attributes))


@pytest.mark.parametrize("make", [Plain, Plain.load])
def test_a_class_without_the_decorator_is_refused(make):
    with pytest.raises(InputError, match=r"Plain must be decorated with @method; got a plain class\. Write @method"):
        make()


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        (lambda: method(State), "@method must be above a class that derives from Selector"),
        (lambda: declared(memory=dict), r"Mine\.memory must be a class that derives from State; got .*dict"),
        (lambda: declared(memory=Memory(3)), r"Mine\.memory must be a class that derives from State; got Memory\("),
        (lambda: declared(memory=Forgotten), r"Mine\.memory must be a dataclass; .* Write @dataclass above Forgotten"),
        (lambda: declared(needs=lambda self: Needs()), r"Mine\.needs must be a property; got a function"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(declare, sentence):
    with pytest.raises(InputError, match=sentence):
        declare()


def test_a_memory_that_is_named_in_brackets_only_is_refused():
    with pytest.raises(InputError, match=r"Mine\.memory must be Memory, as Selector\[Memory\] says.* memory = Memory"):

        @method
        class Mine(Selector[Memory]):
            def select(self, state, round):
                raise NotImplementedError


def test_what_a_method_remembers_on_itself_is_refused_with_the_place_for_it():
    with pytest.raises(FrozenInstanceError, match=r"Mine\.last cannot be set: .* belongs in its memory, a State"):
        declared()().last = 3


@pytest.mark.parametrize(
    ("needs", "sentence"),
    [
        ({"asks": LOSS}, r"Needs\.asks must be a tuple of signals, such as \(LOSS,\)"),
        ({"asks": ("loss",)}, r"Needs\.asks must be a tuple of signals.*got \('loss',\)"),
        ({"reports": [None]}, r"Needs\.reports must be a tuple of signals"),
        ({"reads": "sizes"}, r"Needs\.reads must be a tuple of names, such as \('sizes',\); got 'sizes'"),
    ],
)
def test_needs_are_tuples(needs, sentence):
    with pytest.raises(InputError, match=sentence):
        Needs(**needs)
