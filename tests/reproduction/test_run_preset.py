import csv
import shlex

import pytest
import tomli_w
from tests.studies.folders import make
from tests.studies.tables import small
from workshop.reproduction_pages import extents_of

from sortition.core.errors import InputError
from sortition.reproduction import preset
from sortition.reproduction.comparison import our_cell, paper_cell
from sortition.reproduction.preset_page import write_pages
from sortition.reproduction.run_preset import Cuts, reproduce_preset
from sortition.results.run_folder import find
from sortition.results.summary import group_runs


def note(context, *, word):
    """A figure hook of the tests."""
    (context.folder / "note.txt").write_text(word)
    return f"hook says {word} with runs {context.runs is not None} and rounds {context.rounds}"


def listing(context):
    """A figure hook of the tests: what it is given to draw."""
    return " ".join(f"{run.setting}-{run.method}-{run.seed}" for run in context.finished_runs())


def loaded(tmp_path, **changes):
    table = {
        "paper": {"title": "A table", "source": "Nobody 2020, Table 1", "notes": "As read by us."},
        "table": [
            {
                "title": "Rounds",
                "metric": "rounds-to-target",
                "accuracy": 0.2,
                "digits": 0,
                "paper": {"a": {"uniform": [12.4, 3.1], "absent": ">500"}, "elsewhere": {"uniform": 7}},
            },
            {"title": "Best", "metric": "best", "digits": 2},
        ],
        "figure": {"make": "tests.reproduction.test_run_preset:note", "word": "hello"},
        **small(rounds=3, seeds=2, setting=[{"name": "a"}, {"name": "b", "cohort": 2}]),
        **changes,
    }
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(table))
    return preset.load_preset(str(path))


def test_a_preset_from_runs_to_page(tmp_path):
    made = reproduce_preset(loaded(tmp_path), tmp_path / "out", Cuts(only=("a",), rounds=2), jobs=1)
    rounds, best = made.page.tables
    assert rounds.columns == ["method", "a, paper", "a, ours", "b", "elsewhere, paper"]
    assert [row[:2] for row in rounds.rows] == [["uniform", "12 ± 3"], ["power-of-choice", ""], ["absent", ">500"]]
    assert all(row[2] and not row[3] for row in rounds.rows[:2])  # b was not run: empty
    assert best.columns == ["method", "a", "b"]
    page = made.page.markdown()
    for text in (
        "# A table",
        "Nobody 2020",
        "As read by us",
        "cut to size",
        "SHA-256",
        "--only a --rounds 2",
        "4 finished of 8",
    ):
        assert text in page, text
    assert "hook says hello with runs True and rounds 2" in page
    assert (tmp_path / "out" / "note.txt").exists()
    # the whole of it goes on with what is there
    whole = reproduce_preset(loaded(tmp_path), tmp_path / "out", Cuts(), jobs=1)
    assert "cut to size" not in whole.page.markdown()
    assert len(find(tmp_path / "out" / "runs")) == 8


def test_a_picture_of_a_cut_leaves_out_other_runs_of_the_folder(tmp_path):
    one = loaded(tmp_path, figure={"make": "tests.reproduction.test_run_preset:listing"})
    reproduce_preset(one, tmp_path / "out", Cuts(rounds=1), jobs=1)
    cut = reproduce_preset(one, tmp_path / "out", Cuts(only=("b/uniform", "a/uniform"), seeds=1, rounds=1), jobs=1)
    assert cut.page.pictures == ["a-uniform-0 b-uniform-0"]


def test_only_must_name_something(tmp_path):
    with pytest.raises(InputError, match="--only must be a setting, a method"):
        reproduce_preset(loaded(tmp_path), tmp_path / "out", Cuts(only=("c",)), jobs=1)


def table(tmp_path, **options):
    text = {"paper": {"title": "T"}, "table": [{"title": "t", **options}]}
    (tmp_path / "t.toml").write_text(tomli_w.dumps(text))
    return preset.load_preset(str(tmp_path / "t.toml")).tables[0]


def test_cells_count_what_was_not_reached(tmp_path):
    runs = [make(tmp_path / "runs", curve, seed=seed) for seed, curve in enumerate([[0.1, 0.9], [0.9], [0.1]])]
    methods = group_runs(runs)["main"]
    assert our_cell(table(tmp_path, metric="rounds-to-target", accuracy=0.5), methods, "uniform") == "1.5 ± 0.7 (2/3)"
    assert our_cell(table(tmp_path, metric="rounds-to-target", accuracy=0.95), methods, "uniform") == "– (0/3)"
    assert our_cell(table(tmp_path, metric="best"), methods, "other") == ""
    with pytest.raises(InputError, match="does not take these options"):
        our_cell(table(tmp_path, metric="best", sooth=3), methods, "uniform")


def test_speed_ups_are_geometric_means_over_paired_seeds(tmp_path):
    for seed, (slow, fast) in enumerate([(8, 2), (4, 4)]):  # 4 and 1: geometric mean 2
        make(tmp_path / "runs", [0.0] * (slow - 1) + [1.0], seed=seed)
        make(tmp_path / "runs", [0.0] * (fast - 1) + [1.0], seed=seed, method="fedgs")
    methods = group_runs(find(tmp_path / "runs"))["main"]
    one = table(tmp_path, metric="speed-up", reference="uniform", accuracy=0.5, digits=2)
    assert our_cell(one, methods, "fedgs") == "2.00"
    assert our_cell(one, methods, "uniform") == "1.00"


def test_the_values_of_single_seeds_stand_beside_the_page(tmp_path):
    made = reproduce_preset(loaded(tmp_path), tmp_path / "out", Cuts(only=("a/uniform",), rounds=2), jobs=1)
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "docs" / "mine.md", [made.page])
    assert "[mine.csv](mine.csv)" in (tmp_path / "docs" / "mine.md").read_text()
    rows = list(csv.DictReader((tmp_path / "docs" / "mine.csv").read_text().splitlines()))
    assert [(row["preset"], row["table"], row["setting"], row["method"], row["seed"]) for row in rows] == [
        ("mine", table, "a", "uniform", seed) for table in ("Rounds", "Best") for seed in ("0", "1")
    ]
    best = [float(row["value"]) for row in rows if row["table"] == "Best"]
    shown = made.page.tables[1].rows[0][1]
    assert shown.startswith(f"{sum(best) / 2:.2f}")


def test_published_cells():
    assert [paper_cell(cell, 1) for cell in (None, 3, 2.25, [1.0, 0.5], "≈ 4")] == [
        "",
        "3.0",
        "2.2",
        "1.0 ± 0.5",
        "≈ 4",
    ]


def test_the_availability_figure(tmp_path):
    made = reproduce_preset(preset.load_preset("availability"), tmp_path, Cuts(rounds=60))
    assert (tmp_path / "availability-modes.png").read_bytes().startswith(b"\x89PNG")
    assert made.page.markdown().count("| lognormal") == 1


def test_a_page_keeps_the_sections_and_seeds_of_other_presets(tmp_path):
    path = tmp_path / "all.md"
    others = (
        "# Other\n\nMade by `sortition reproduce other` on 2026-01-02.\n\n- runs: 1 finished of 1 in the whole table"
    )
    answer = "# Nobody: does the paper hold here?\n\n**1 of 1 claims right.**"
    path.write_text(f"{answer}\n\n{others}\n\nValues of single seeds: [all.csv](all.csv).\n")
    path.with_suffix(".csv").write_text("preset,table,setting,method,seed,value\nother,Best,a,uniform,0,1\n")
    made = reproduce_preset(loaded(tmp_path), tmp_path / "out", Cuts(only=("a/uniform",), rounds=2), jobs=1)
    for _ in range(2):  # the second replaces the first
        write_pages(path, [made.page])
    text, rows = path.read_text(), path.with_suffix(".csv").read_text().splitlines()
    assert text.startswith(f"{answer}\n\n{others}")
    assert text.count(answer) == 1
    assert text.count("Made by `sortition reproduce mine") == text.count("Values of single seeds") == 1
    assert [row.split(",")[0] for row in rows] == ["preset", "other", *["mine"] * 4]
    assert {name: extent.values for name, extent in extents_of(tmp_path).items()} == {
        "other": "all.csv",
        "mine": "all.csv",
    }


def test_cuts_can_be_typed_in_a_shell():
    words = shlex.split(Cuts(only=("λ = 0", "(1)/random"), seeds=2).options())
    assert words == ["--only", "λ = 0", "--only", "(1)/random", "--seeds", "2"]
