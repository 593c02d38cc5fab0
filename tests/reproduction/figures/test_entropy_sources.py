import re

import numpy as np
import pytest

from sortition.core import InputError
from sortition.reproduction.context import Context
from sortition.reproduction.figures import entropy_sources
from sortition.reproduction.theory.heterogeneity import label_entropy
from sortition.selectors.hics import Memory
from sortition.simulation import start
from sortition.studies.build_federation import setup
from sortition.studies.plan import plan

STUDY = {
    "cohort": 4,
    "data": {"name": "digits", "clients": 20, "partition": {"name": "dirichlet-blocks"}},
    "model": {"name": "softmax"},
    "local": {"epochs": 2, "batch": 16, "lr": 0.05},
}
ALPHAS = [0.01, 0.3, 10.0]
HICS = {"name": "hics", "temperature": 0.05}


def begun(method):
    data = {**STUDY["data"], "partition": {"name": "dirichlet-blocks", "alphas": ALPHAS}}
    table = {**STUDY, "data": data, "rounds": 8, "seeds": [0], "method": [method]}
    _, ready = setup(plan(table, (), subject="t").runs[0])
    return ready, start(ready)


def test_estimates_of_everybody_are_put_in_and_the_truth_only_where_one_is_known():
    ready, carry = begun(HICS)
    state = carry.registrar.state
    assert isinstance(state, Memory)
    entropy_sources.ESTIMATES["truth"](state, ready, carry, 0.05)
    assert np.isnan(state.entropy).all()  # nobody has an estimate that it could replace
    entropy_sources.ESTIMATES["before"](state, ready, carry, 0.05)
    assert state.update.shape == (20, 10)
    guess = state.entropy.copy()
    assert np.corrcoef(guess, label_entropy(ready.world.label_counts))[0, 1] > 0.5
    entropy_sources.ESTIMATES["truth"](state, ready, carry, 0.05)
    np.testing.assert_allclose(state.entropy, label_entropy(ready.world.label_counts))


def test_a_table_has_a_row_for_each_variant(tmp_path):
    variants = [
        {"label": "random", "name": "uniform"},
        {"label": "paper", **HICS},
        {"label": "truth", "estimate": "truth", **HICS},
        {"label": "fresh", "estimate": "every round", **HICS},
    ]
    context = Context("hics", tmp_path, None, 1, 8)
    text = entropy_sources.make(context, study=STUDY, settings={"(1)": ALPHAS}, variants=variants, rounds=200, seeds=3)
    cells = {row[0]: row[1:] for row in re.findall(r"^\| (\w+) +\| (.*?) +\| (.*?) +\| (.*?) +\|", text, re.MULTILINE)}
    assert cells["random"] == ("", "", "")  # it has no estimates
    assert cells["truth"][0] == cells["truth"][1]
    assert cells["truth"][2] == "1.00"
    assert cells["paper"][0] != cells["paper"][1]
    assert "8 rounds, 1 seed(s)" in text


def test_an_estimate_that_does_not_exist_is_named():
    with pytest.raises(InputError, match="estimate"):
        entropy_sources.trace_run(STUDY, {"estimate": "never", **HICS}, 1, 0)


def test_few_examples_and_many_stand_apart(tmp_path):
    context = Context("hics", tmp_path, None, None, None)
    text = entropy_sources.by_size(context, study=STUDY, settings={"one block": [0.001]}, temperature=0.05, few=5)
    small, large = re.findall(
        r"^\| one block \| (?:at most|more than) 5 +\| (\d+) +\| \S+ +\| (\S+)", text, re.MULTILINE
    )
    assert int(small[0]) + int(large[0]) == 20
    assert float(small[1]) > float(large[1])  # who takes few steps moves the bias little, and looks balanced
