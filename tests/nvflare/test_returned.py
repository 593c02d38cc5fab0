"""One site that sends nonsense is left out; the job goes on."""

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from sortition.core import Guards, InputError
from sortition.nvflare.returned import screen
from sortition.nvflare.selection import _answerable
from sortition.nvflare.sites import Sites

MODEL = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.float32)}


@pytest.mark.parametrize(
    ("kind", "w"),
    [
        (ParamsType.DIFF, np.ones((4, 4))),
        (ParamsType.DIFF, np.array(["a"] * 3)),
        (ParamsType.FULL, [[1], [1, 2]]),
        (ParamsType.FULL, np.ones((2, 3), int)),
        (ParamsType.FULL, object()),
    ],
    ids=["another shape", "texts", "ragged", "whole numbers", "an object"],
)
def test_a_model_that_is_none_is_left_out(kind, w):
    honest = FLModel(ParamsType.FULL, {name: value + 1 for name, value in MODEL.items()})
    found = screen({0: honest, 1: FLModel(kind, {"w": w, "b": np.ones(2)}), 2: honest}, MODEL, (), Guards())
    assert sorted(found.models) == [0, 2]
    assert list(found.faults) == [1]


def test_a_number_that_the_models_type_does_not_hold_is_left_out():
    half = {"w": np.zeros(3, np.float16)}
    sent = {k: FLModel(ParamsType.FULL, {"w": np.full(3, 10, np.float16)}) for k in range(3)}
    sent[1] = FLModel(ParamsType.FULL, {"w": np.full(3, 1e6, np.float32)})  # infinite in half precision
    found = screen(sent, half, (), Guards())
    assert sorted(found.models) == [0, 2]
    assert found.faults == {1: "w is not finite"}


def test_facts_and_signals_of_another_form_are_refused():
    with pytest.raises(InputError, match="all its rows of one shape"):
        Sites(("label_counts",)).enter("a", {"label_counts": [[1], [1, 2]]})
    assert _answerable(5, {"loss"}) == set()
