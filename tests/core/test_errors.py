from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field

from sortition.core import Cohort, InputError, Selector, State, method
from sortition.core.errors import bad, unknown


@method
class Mine(Selector[State]):
    alpha: Annotated[float, Field(ge=0, lt=2)] = 1.0
    kind: Literal["a", "b"] = "a"
    steps: Annotated[int, Field(gt=0)] | None = None
    flag: bool = False

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"alpha": -1.0}, "Mine.alpha must be ≥ 0; got -1.0."),
        ({"alpha": 2.0}, "Mine.alpha must be < 2; got 2.0."),
        ({"alpha": float("nan")}, "Mine.alpha must be finite; got nan."),
        ({"alpha": "high"}, "Mine.alpha must be a number; got 'high'."),
        ({"steps": 0}, "Mine.steps must be > 0; got 0."),
        ({"steps": 1.5}, "Mine.steps must be a whole number; got 1.5."),
        ({"kind": "c"}, "Mine.kind must be one of 'a' or 'b'; got 'c'."),
        ({"flag": 1}, "Mine.flag must be true or false; got 1."),
        ({"alhpa": 1.0}, "Unknown parameter 'alhpa'; Mine has alpha, kind, steps, flag. Did you mean 'alpha'?"),
    ],
)
def test_every_slip_has_one_sentence(parameters, sentence):
    with pytest.raises(InputError) as caught:
        Mine.load(**parameters)
    assert str(caught.value) == sentence


def test_the_constructor_speaks_the_same_grammar():
    with pytest.raises(InputError, match="Unknown key 'alhpa'; Mine has alpha"):
        Mine(alhpa=2)


def test_values_are_shown_short():
    assert str(bad("x", "small", np.zeros((3, 4)))) == "x must be small; got an array of shape (3, 4)."
    assert len(str(bad("x", "small", "y" * 500))) < 200
    assert str(unknown("method", "zzz", [])) == "Unknown method 'zzz'; known are none."


def test_a_name_that_is_no_text_is_unknown_as_well():
    assert str(unknown("report", 3, ["loss"])) == "Unknown report 3; known are loss."


def test_names_with_commas_are_quoted():
    message = str(unknown("column", "last 11", ["last 10, %", "p", "MB"]))
    assert message == "Unknown column last 11; known are 'last 10, %', 'p', 'MB'. Did you mean 'last 10, %'?"


def test_a_message_lists_some_of_many_names():
    message = str(unknown("method", "m" * 5000, [f"m{i}" for i in range(100_000)], "the study"))
    assert len(message) < 700
    assert message.endswith("m59 and 99,940 more.")
