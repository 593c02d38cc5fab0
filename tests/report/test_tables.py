"""Figures of the main table against numbers worked out by hand."""

from __future__ import annotations

import pytest
from tests.report.conftest import write_run

from sortition.core.errors import InputError
from sortition.report import tables
from sortition.report.digest import condense
from sortition.report.export import latex_table
from sortition.report.gather import gather
from sortition.report.page import Page
from sortition.results.run_folder import Run, curves


@pytest.fixture
def rows(study):
    return {row.label: row for row in tables.method_rows(gather([study]).settings[0])}


def test_large_numbers_keep_three_digits():
    given = (999.4, 999.7, 12_345, 999_960, 1.5e9, 2.5e12)
    assert [tables.short_number_text(value) for value in given] == ["999", "1 k", "12.3 k", "1 M", "1.5 G", "2.5 T"]


def test_figures_by_hand(rows):
    uniform, fedgs = rows["uniform"].cells, rows["fedgs"].cells
    # the last ten of three rounds are all of them, and their mean is: 0.4 and 0.2667; mean 0.333, sd 0.094
    assert uniform["last 3, %"] == "33.3 ± 9.4"
    assert uniform["final, %"] == "50.0 ± 14.1"
    assert uniform["best, %"] == "50.0 ± 14.1"
    # 0.5 is reached in round 3 by seed 0 only; by fedgs in round 2 by both
    assert uniform["first crossing"] == "3.0 (1/2)"
    assert fedgs["first crossing"] == "2.0 ± 0.0"
    # paired: (0.5667 − 0.4, 0.4667 − 0.2667) = +16.67 and +20.00 points
    assert fedgs["− uniform"] == "+18.33"  # two seeds have no interval
    assert rows["fedgs"].verdict.startswith("undecided")
    assert rows["uniform"].verdict == "baseline"
    assert uniform["MB"] == "7.5"  # 3 rounds × 2.5 MB
    assert uniform["client passes"] == "300"
    assert uniform["ms/selection"] == "2.00"
    # the worst tenth of four clients is the worst one
    assert uniform["worst tenth, %"] == "25.0 ± 0.0"
    assert uniform["final loss"] == "0.500 ± 0.141"


def test_wasted_passes_are_counted_once(tmp_path):
    home = write_run(tmp_path, "uniform", 0, [0.2, 0.4])
    file = home / "rounds.jsonl"
    passes = '"passes": {"training": 100, "forward": 20, "wasted": 30}'  # the wasted ones are among those of training
    file.write_text(file.read_text().replace('"passes": {"training": 100}', passes))
    setting = gather([tmp_path]).settings[0]
    assert setting.mean("uniform", "passes") == 240
    assert curves(tmp_path)["passes"].to_list() == [120.0, 240.0]


def test_the_smoothed_target_needs_five_evaluations(rows):
    assert "rounds to target" not in rows["uniform"].cells or rows["uniform"].cells["rounds to target"] == "– (0/2)"


def test_jain_is_relative_to_availability(rows):
    # uniform: selected (3,3,0,0), available (3,3,2,2): shares 1,1,0,0 → (2)²/(4·2) = 0.5
    assert rows["uniform"].cells["Jain"] == "0.500"
    assert rows["uniform"].cells["never chosen, %"] == "50.0"


def test_spread_among_similar_clients(rows):
    # distances by labels: 0–3: 0; 0–2, 1–2, 2–3: ½; 0–1, 1–3: 1. The fifth of them ends at ½, so near are
    # 0: {0, 2, 3}, 1: {1, 2}, 2: all, 3: {0, 2, 3}; of the counts (3, 3, 0, 0) that is √2, 1.5, 1.5, √2 on average
    assert rows["uniform"].cells["spread among similar"] == "1.46"


def test_the_main_table_is_a_part_of_the_whole(study):
    setting = gather([study]).settings[0]
    whole, main = tables.method_rows(setting)[0].cells, tables.method_rows(setting, whole=False)[0].cells
    assert set(main) < set(whole)
    assert "best, %" not in main


def test_better_and_worse_in_words(tmp_path):
    for seed in range(8):
        write_run(tmp_path, "uniform", seed, [0.2, 0.4, 0.5 + seed / 100])
        write_run(tmp_path, "good", seed, [0.2, 0.4, 0.7 + seed / 90])
        write_run(tmp_path, "bad", seed, [0.2, 0.3, 0.3 + seed / 80])
        write_run(tmp_path, "same", seed, [0.2, 0.4, 0.5 + seed / 100 + (-1) ** seed * 0.01])
    found = {row.label: row.verdict for row in tables.method_rows(gather([tmp_path]).settings[0])}
    assert found == {"uniform": "baseline", "good": "better", "bad": "worse", "same": "practically equal"}


def test_a_digest_counts_labels_and_questions(study):
    digest = condense(Run(study / "main" / "fedgs" / "seed-0"))
    # labels of everybody: (10, 6)/16; cohort {0, 1}: (½, ½), {1, 3}: (½, ½), {2, 3}: (¾, ¼)
    assert digest.skew == pytest.approx([0.125, 0.125, 0.125])
    assert digest.questions == {"loss": 9}
    assert digest.costs["megabytes"].tolist() == [2.5, 5.0, 7.5]
    assert digest.counts["selected"].tolist() == [1, 2, 1, 2]


def test_counts_of_an_unfinished_run_are_recounted(tmp_path):
    home = write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3], done=False)
    digest = condense(Run(home))
    assert digest.counts["selected"].tolist() == [3, 3, 0, 0]
    assert digest.counts["available"].tolist() == [3, 3, 2, 2]


def test_latex_has_the_columns_that_decide_or_those_chosen(study):
    setting = gather([study]).settings[0]
    text = latex_table(setting)
    assert text.startswith(r"\begin{tabular}{l")
    assert r"33.3 $\pm$ 9.4" in text
    assert text.count(r"\\") == 3
    assert latex_table(setting, ["MB", "verdict"]).splitlines()[2] == r"method & MB & verdict \\"
    with pytest.raises(InputError, match="Unknown column 'Megabytes'"):
        latex_table(setting, ["Megabytes"])


def decided(folder, seeds=6):
    """``good`` and ``fine`` are better than uniform, ``wild`` is undecided though its mean is the highest."""
    for seed in range(seeds):
        write_run(folder, "uniform", seed, [0.2, 0.4, 0.5 + seed / 100])
        write_run(folder, "good", seed, [0.2, 0.4, 0.6 + seed / 90])
        write_run(folder, "fine", seed, [0.2, 0.4, 0.58 + seed / 90])
        write_run(folder, "wild", seed, [0.2, 0.4, 1.0 if seed % 2 else 0.4])
    return gather([folder]).settings[0]


def test_what_is_shown_better_is_bold(tmp_path):
    setting = decided(tmp_path)
    made = tables.method_rows(setting)
    best = max(made, key=lambda row: row.values["last 3, %"])
    assert (best.label, best.verdict.split()[0]) == ("wild", "undecided")
    shown = {(label, title) for label in ("good", "fine") for title in ("last 3, %", "all rounds, %")}
    assert tables.bold_cells(setting, made) == shown, "no other column is tested, and all costs are the same"


def test_nothing_undecided_is_bold(study):
    setting = gather([study]).settings[0]
    assert tables.method_rows(setting)[0].verdict.startswith("undecided")
    assert tables.bold_cells(setting, tables.method_rows(setting)) == set()
    assert r"\textbf" not in latex_table(setting)
    assert "Bold" not in latex_table(setting)


def test_costs_that_look_the_same_are_bold_together(tmp_path):
    for label, megabytes in (("uniform", 0.76), ("fedgs", 0.84), ("hics", 1.2)):
        write_run(tmp_path, label, 0, [0.2, 0.4], sent={"model_up": megabytes * 1e6 / 2})
    setting = gather([tmp_path]).settings[0]
    assert tables.bold_cells(setting, tables.method_rows(setting)) == {("uniform", "MB"), ("fedgs", "MB")}
    assert latex_table(setting, ["MB"]).count(r"\textbf{0.8}") == 2


def test_tables_say_what_is_bold(tmp_path):
    setting = decided(tmp_path)
    page = Page(gather([tmp_path])).overview()
    assert f"{tables.BOLD} Other columns are not tested." in page
    assert f"<b>{tables.method_rows(setting)[1].cells['last 3, %']}</b>" in page
    assert rf"\multicolumn{{2}}{{l}}{{\footnotesize {tables.BOLD}}} \\" in latex_table(setting, ["last 3, %"])
