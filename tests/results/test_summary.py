import pytest
from tests.studies.folders import make

from sortition.results.run_folder import find
from sortition.results.summary import baseline, grouped, tables


@pytest.fixture
def runs(tmp_path):
    for seed in range(6):
        make(tmp_path, [0.1, 0.5], seed=seed, target={"accuracy": 0.55})
        make(tmp_path, [0.1, 0.6 - (seed == 0) * 0.1], method="fedgs", seed=seed, target={"accuracy": 0.55})
    return find(tmp_path)


def row(table, label):
    return dict(zip(table.columns, next(r for r in table.rows if r[0] == label), strict=True))


def test_figures_by_hand(runs):
    learning, compared = tables(runs)
    # fedgs: final 0.5 once and 0.6 five times; mean 0.5833, sd √(5/6·1/6·0.01·6/5) = 0.0408
    assert row(learning, "fedgs")["final"] == "0.583 ± 0.041"
    assert row(learning, "fedgs")["rounds to 0.55"] == "2.0 ± 0.0 (5/6)"
    assert row(learning, "uniform")["rounds to 0.55"] == "– (0/6)"
    # last 10 is the mean of both rounds: 0.35 against 0.3, five times; 0 once: 4.17 points
    assert row(compared, "fedgs")["last 10 − uniform, points"].startswith("+4.17 [")
    assert row(compared, "uniform")["verdict"] == "–"


def test_six_equal_signs_are_significant_for_one_comparison(tmp_path):
    for seed in range(6):
        make(tmp_path, [0.1 + 0.01 * seed], seed=seed)
        make(tmp_path, [0.3 + 0.02 * seed], method="fedgs", seed=seed)
    compared = tables(find(tmp_path))[1]
    assert row(compared, "fedgs")["verdict"] == "better"


def test_few_seeds_and_unfinished_runs_are_told(tmp_path):
    make(tmp_path, [0.1])
    make(tmp_path, [0.2], method="fedgs")
    make(tmp_path, [0.2], method="fedgs", seed=1, done=False)
    learning, compared = tables(find(tmp_path))
    assert "1 unfinished runs" in " ".join(learning.notes)
    assert row(compared, "fedgs")["verdict"] == "too few seeds to tell"
    assert "cannot fall below" in " ".join(compared.notes)


def test_settings_are_never_mixed(tmp_path):
    make(tmp_path, [0.1], setting="a")
    make(tmp_path, [0.9], setting="b")
    made = tables(find(tmp_path))
    assert [table.title for table in made] == [
        "a: test accuracy",
        "a: compared",
        "b: test accuracy",
        "b: compared",
    ]


def test_without_uniform_nothing_is_compared(tmp_path):
    make(tmp_path, [0.1], method="fedgs")
    runs = find(tmp_path)
    assert baseline(grouped(runs)["main"]) is None
    assert "verdict" not in tables(runs)[1].columns


def test_forms(runs):
    table = tables(runs)[0]
    assert table.markdown().count("\n| ") == 3
    assert "<td>fedgs</td>" in table.html()
    assert table.rich().row_count == 2
