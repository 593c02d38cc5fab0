import re

import pytest
from tests.studies.folders import make

from sortition.results import run_folder
from sortition.results.comparisons import Criteria
from sortition.results.run_folder import find
from sortition.results.summary import comparison_of, conclusions, group_runs, heading, sort_finished, tables
from sortition.results.verdict_words import heading_of_settings
from sortition.studies.runs import write_folder


@pytest.fixture
def runs(tmp_path):
    for seed in range(6):
        make(tmp_path, [0.1, 0.5], seed=seed, target={"accuracy": 0.55})
        make(tmp_path, [0.1, 0.6 - (seed == 0) * 0.1], method="fedgs", seed=seed, target={"accuracy": 0.55})
    return find(tmp_path)


def row(table, label):
    return dict(zip(table.columns, next(r for r in table.rows if r[0] == label), strict=True))


def test_figures_by_hand(runs):
    learning, cost, compared, whole = tables(runs)
    # fedgs: final 0.5 once and 0.6 five times; mean 0.5833, sd √(5/6·1/6·0.01·6/5) = 0.0408
    assert row(learning, "fedgs")["final"] == "0.583 ± 0.041"
    assert row(learning, "fedgs")["rounds to 0.55"] == "2.0 ± 0.0 (5/6)"
    assert row(learning, "uniform")["rounds to 0.55"] == "– (0/6)"
    # last 10 is the mean of both rounds: 0.35 against 0.3, five times; 0 once: 4.17 points
    assert row(compared, "fedgs")["− uniform, points"].startswith("+4.17 [")
    assert row(whole, "fedgs")["− uniform, points"].startswith("+4.17 [")
    assert row(compared, "uniform")["verdict"] == "baseline"
    assert row(cost, "uniform")["ms/select"] == "2.00"


def test_the_verdict_and_the_conclusion_say_the_same(tmp_path):
    for seed in range(6):
        make(tmp_path, [0.1 + 0.01 * seed], seed=seed)
        make(tmp_path, [0.3 + 0.012 * seed], method="fedgs", seed=seed)
    runs = find(tmp_path)
    assert row(tables(runs)[2], "fedgs")["verdict"] == "better"
    # differences 20.0, 20.2, … 21.0: mean 20.5, sd 0.374, t(5) = 2.571: ± 0.39
    assert conclusions(runs) == ["fedgs beats uniform by 20.50 points [20.11, 20.89] at the same traffic."]
    assert heading(runs) == "Test accuracy over the only round against uniform, in points:"


def test_few_seeds_and_unfinished_runs_are_mentioned(tmp_path):
    make(tmp_path, [0.1])
    make(tmp_path, [0.2], method="fedgs")
    make(tmp_path, [0.2], method="fedgs", seed=1, done=False)
    runs = find(tmp_path)
    learning, _, compared, _ = tables(runs)
    assert "1 unfinished runs" in " ".join(learning.notes)
    assert row(compared, "fedgs")["verdict"] == "undecided"
    assert "one seed shows no spread" in conclusions(runs)[0]


def test_a_run_that_diverged_is_flagged(tmp_path):
    make(tmp_path, [0.1, 0.2, 0.3, 0.4])
    make(tmp_path, [0.4, 0.3, 0.2, 0.1], method="fedgs")  # its loss, 1 − accuracy, ends above its start
    assert tables(find(tmp_path))[0].notes == [
        "fedgs diverged on 1 of 1 seeds: its loss is infinite, or ends above that of guessing."
    ]


def test_settings_are_never_mixed(tmp_path):
    make(tmp_path, [0.1], setting="a")
    make(tmp_path, [0.9], setting="b")
    made = tables(find(tmp_path))
    parts = ("test accuracy", "fairness and cost", "last 1, compared", "all rounds, compared")
    assert [table.title for table in made] == [f"{setting}: {part}" for setting in "ab" for part in parts]


def test_without_uniform_nothing_is_compared(tmp_path):
    make(tmp_path, [0.1], method="fedgs")
    runs = find(tmp_path)
    assert comparison_of(group_runs(runs)["main"]).baseline is None
    assert not any("verdict" in table.columns for table in tables(runs))
    assert conclusions(runs) == []


def test_below_the_tables_it_says_why_runs_of_different_lengths_are_not_compared(tmp_path, runs):
    assert not any("different rounds" in note for table in tables(runs) for note in table.notes)
    for seed in range(2):
        make(tmp_path / "apart", [0.1, 0.5, 0.6], seed=seed)
        make(tmp_path / "apart", [0.1, 0.7], method="fedgs", seed=seed)
    found = tables(find(tmp_path / "apart"))
    assert row(found[-1], "fedgs")["− uniform, points"] == "–"
    assert any("ended at different rounds" in note for note in found[-1].notes)


def test_a_run_under_several_seed_numbers_counts_once(tmp_path):
    for seed in range(6):
        make(tmp_path, [0.1 + 0.01 * seed], seed=seed)
        make(tmp_path, [0.3 + 0.012 * seed], method="fedgs", seed=seed)
    for seed in range(1, 6):  # the first run of fedgs under six numbers
        first = tmp_path / "main" / "fedgs" / "seed-0" / run_folder.ROUNDS
        (tmp_path / "main" / "fedgs" / f"seed-{seed}" / run_folder.ROUNDS).write_text(first.read_text())
    runs = find(tmp_path)
    assert [len(seeds) for seeds in sort_finished(runs).groups["main"].values()] == [1, 6]
    learning, _, compared, _ = tables(runs)
    assert sum("has the same records as seed 0" in note for note in learning.notes) == 5
    assert row(compared, "fedgs")["verdict"] == "undecided (unfair: other seeds)"
    assert "one seed shows no spread" in conclusions(runs)[0]


def test_several_settings_say_what_is_not_controlled(tmp_path):
    for setting in ("a", "b"):
        make(tmp_path, [0.1], setting=setting)
        make(tmp_path, [0.2], setting=setting, method="fedgs")
    assert heading(find(tmp_path)).startswith("Each of the 2 settings is judged by itself")


def test_settings_of_unequal_length_are_named_in_one_heading(tmp_path):
    for setting, curve in (("a", [0.1]), ("b", [0.1, 0.2, 0.3])):
        make(tmp_path, curve, setting=setting)
        make(tmp_path, curve, setting=setting, method="fedgs")
    words = "Test accuracy against uniform, in points, each setting after its own number of rounds:"
    assert heading(find(tmp_path)).endswith(words)


def test_a_heading_of_settings_says_in_what_they_differ():
    assert heading_of_settings({"loss"}, {"oort", "uniform"}, {"seconds"}) == (
        "Test loss against its own baseline, each setting after its own number of seconds:"
    )
    assert heading_of_settings({"loss"}, {"uniform"}, {"seconds", "rounds"}) == (
        "Test loss against uniform, each setting at its own end of training:"
    )
    assert heading_of_settings({"loss", "accuracy"}, {"uniform"}, {"rounds"}) == (
        "At the end of training, each setting by its own metric and against its own baseline:"
    )


def test_a_table_of_all_pairs(tmp_path):
    for label in ("uniform", "a", "b"):
        for seed in range(4):
            make(tmp_path, [0.1 + 0.01 * seed * len(label)], method=label, seed=seed)
    made = tables(find(tmp_path), Criteria(all_pairs=True))[-1]
    assert made.title == "main: last 1, all pairs"
    assert [row[:2] for row in made.rows] == [["a", "uniform"], ["b", "uniform"], ["a", "b"]]


def test_forms(runs):
    table = tables(runs)[0]
    assert table.markdown().count("\n| ") == 3
    assert "<td>fedgs</td>" in table.html()
    assert table.text(200).count("fedgs") == 1


def test_a_diverged_run_is_flagged_and_its_method_undecided(tmp_path):
    for seed in range(3):
        make(tmp_path, [0.1, 0.5], seed=seed, target={"loss": 0.5})
        run = make(tmp_path, [0.1, 0.4 + seed / 100], method="fedgs", seed=seed, target={"loss": 0.5})
    file = run.path / run_folder.ROUNDS
    file.write_text(re.sub(r'"loss": 0.5[0-9]*', '"loss": null', file.read_text()))
    write_folder.write_document(run.path / run_folder.SUMMARY, {"status": "done", "figures": {"last-loss": None}})
    runs = run_folder.find(tmp_path)
    learning, _, compared = tables(runs)[:3]
    assert any("fedgs diverged on 1 of 3 seeds" in note for note in learning.notes)
    assert {row[0]: row[-1] for row in compared.rows} == {"uniform": "baseline", "fedgs": "undecided"}
    assert conclusions(runs) == ["fedgs against uniform is undecided: a run diverged."]
