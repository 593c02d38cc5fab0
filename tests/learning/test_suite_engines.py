"""Which engine trains each cell of leaderboard suite 2: its runs have begun, so no change of the rule may change one.

The engine follows from model, shape of an example and batch, so no data set is read.
"""

import numpy as np
import pytest

from sortition.leaderboard.tracks import load_tracks
from sortition.learning import Learner, build

SUITE = load_tracks()
EXAMPLES = {  # shape of an example and number of classes
    "digits": ((1, 8, 8), 10),
    "mnist": ((1, 28, 28), 10),
    "fashion-mnist": ((1, 28, 28), 10),
    "cifar10": ((3, 32, 32), 10),
    "flights": ((40,), 2),
    "shakespeare": ((20,), 77),
}
SEQUENTIAL = {  # CNNs whose steps are above the limit, and a recurrent kernel; chains of linear layers are stacked
    "r-fashion-cnn-3labels-sln",
    "r-fashion-cnn-2shards-ln",
    "r-cifar-cnn-dir0.3-always",
    "r-fashion-cnn-sizes1-diurnal",
    "r-fashion-cnn-rotated20-always",
    "r-shakespeare-diurnal",
    "s-fashion-cnn-dir0.3-slowhigh-over1.3",
    "s-fashion-cnn-styles-deadline",
    "s-cifar-cnn-dir0.3-over1.25",
    "s-fashion-cnn-2labels-slowhigh-deadline",
    "s-fashion-cnn-sizes1-quorum-late",
    "s-fashion-cnn-rotated25-quantile",
    "s-shakespeare-slowrare-quorum",
}


def run_of(cell):
    return SUITE.study(cell, [{"name": "uniform"}], range(1)).runs[0]


def learner_of(run):
    shape, classes = EXAMPLES[run.data.name]
    dtype = np.int64 if run.model.name == "char-lstm" else np.float32
    model = build(run.model.name, shape, classes, **run.model.options)
    labels = np.zeros(4, np.int64)
    return Learner(model, np.zeros((4, *shape), dtype), labels, run.local, engine=run.engine)


@pytest.mark.parametrize("cell", SUITE.cell, ids=lambda cell: cell.name)
def test_the_engine_of_a_cell(cell):
    run = run_of(cell)
    assert run.engine == "auto"
    expected = "sequential" if cell.name in SEQUENTIAL else "stacked"
    assert learner_of(run).engine_choice.engine_for(run.local, run.cohort) == expected


def test_every_cnn_and_every_recurrent_model_is_listed():
    others = {cell.name for cell in SUITE.cell if run_of(cell).model.name in ("cnn", "char-lstm")}
    assert others == SEQUENTIAL


@pytest.mark.parametrize("name", sorted(SEQUENTIAL))
def test_a_recurrent_cell_says_why_its_clients_train_one_after_the_other(name):
    run = run_of(SUITE.cell_named(name))
    note = learner_of(run).engine_choice.sequential_note(run.local, run.cohort)
    if run.model.name == "char-lstm":
        assert (
            note
            == "Clients train one after the other, since LSTM is a recurrent kernel that torch cannot map over clients."
        )
    else:
        assert not note  # the rule would not have them vmapped
