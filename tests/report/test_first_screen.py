"""What a reader sees first: title, answer, cards; and the answer for studies that cannot give one."""

import json
import shutil

import pytest
from tests.report.conftest import write_run

from sortition.core.errors import InputError
from sortition.report import default_page_path, write
from sortition.report.charts import across, by_cost
from sortition.report.checklist import review_points
from sortition.report.description import describe_setting
from sortition.report.gather import gather
from sortition.report.look import Look
from sortition.report.page import Page
from sortition.report.palette import Palette
from sortition.report.tables import bold_cells, method_rows
from sortition.report.verdicts import first_sentence, leader_cards, verdict_lines
from sortition.results.run_folder import find
from sortition.results.summary import tables

TUNED = "Each method was given the same number of tried values"


def study(folder, gains, seeds=6, spread=0.002, **options):
    for seed in range(seeds):
        wobble = spread * (-1) ** seed
        write_run(folder, "uniform", seed, [0.2, 0.4, 0.5 + seed / 100], **options)
        for label, gain in gains.items():
            write_run(folder, label, seed, [0.2, 0.4, 0.5 + seed / 100 + gain + wobble], **options)
    return folder


def test_a_bracket_in_a_label_does_not_break_the_answer(tmp_path):
    found = first_sentence(gather([study(tmp_path / "runs", {"fedgs [new] way": 0.2})]))
    assert found.startswith("fedgs [new] way beats uniform by 6.67 points of accuracy over all 3 rounds [6.")


def test_one_seed_does_not_say_how_many_would_decide(tmp_path):
    study(tmp_path / "runs", {"fedgs": 0.2}, seeds=1)
    fact = next(point.fact for point in review_points(gather([tmp_path / "runs"])) if "seeds" in point.asks)
    assert fact == "1 for the method that has fewest; undecided: fedgs"


def test_learning_rates_that_differ_between_settings_are_a_sweep(tmp_path):
    for setting in ("low", "high"):
        study(tmp_path / "runs", {"fedgs": 0.2}, setting=setting)
    for config in (tmp_path / "runs" / "high").rglob("config.toml"):
        config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.3"))
    found = {point.asks: point for point in review_points(gather([tmp_path / "runs"]))}
    assert found[TUNED].fact == "2 values were tried for every method"
    assert found[TUNED].passed


def test_every_method_must_be_given_the_same_number_of_tried_values(tmp_path):
    def fact():
        return {point.asks: point for point in review_points(gather([tmp_path]))}[TUNED]

    write_run(tmp_path, "uniform", 0, [0.2, 0.4])
    for alpha in (1.0, 2.0):
        write_run(tmp_path, f"fedgs,alpha={alpha}", 0, [0.2, 0.5], name="fedgs", options={"alpha": alpha})
    assert (fact().passed, fact().fact) == (False, "values tried: fedgs 2, uniform 1")
    home = write_run(tmp_path, "uniform,lr=0.3", 0, [0.2, 0.4], name="uniform")
    config = home / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.3"))
    assert fact().passed


def unfair(folder):
    """``mine`` has four times uniform's cohort; ``fedgs`` is compared fairly."""
    study(folder, {"mine": 0.4, "fedgs": 0.1})
    for config in (folder / "main" / "mine").rglob("config.toml"):
        config.write_text(config.read_text().replace("cohort = 2", "cohort = 8"))
    return gather([folder])


def test_an_unfair_comparison_is_not_praised(tmp_path):
    gathered = unfair(tmp_path / "runs")
    words = "Warning: mine is not compared fairly with uniform (cohort: 8, not 2)."
    assert first_sentence(gathered).endswith(words)
    assert gathered.settings[0].comparison.leader == "fedgs", "the best of those that are compared fairly"
    page = Page(gathered)
    first = page.overview()
    assert '<td class="verdict open">better (unfair: other cohort)</td>' in first
    assert f'<p class="warn">{words}</p>' in first
    points = {point.asks: point for point in review_points(gathered)}
    assert not points["Methods differ in the selection alone"].passed
    fair = study(tmp_path / "fair", {"fedgs": 0.1})
    assert {point.asks: point for point in review_points(gather([fair]))}[
        "Methods differ in the selection alone"
    ].passed


def test_seeds_that_only_one_method_has_are_warned_of(tmp_path):
    study(tmp_path, {"mine": 0.4})
    for seed in (1, 4):
        shutil.rmtree(tmp_path / "main" / "mine" / f"seed-{seed}")
    words = "Warning: mine is not compared fairly with uniform (seeds: 0, 2 to 3, 5, not 0 to 5)."
    assert first_sentence(gather([tmp_path])).endswith(words)
    assert any(words in note for table in tables(find(tmp_path)) for note in table.notes)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"data": {"digest": "b" * 64, "partition": "c" * 64}}, "data.digest: bbbbbbbbbbbb, not aaaaaaaaaaaa"),
        (
            {"data": {"digest": "a" * 64, "partition": "b" * 64}},
            "data.partition_digest: bbbbbbbbbbbb, not cccccccccccc",
        ),
        ({"test_examples": 50}, "data.test_examples: 50, not 10000"),
        ({"data": {}}, "data.digest: –, not aaaaaaaaaaaa; data.partition_digest: –, not cccccccccccc"),
    ],
)
def test_runs_on_other_data_of_the_same_name_are_warned_of(tmp_path, manifest, words):
    study(tmp_path, {"mine": 0.4})
    for path in tmp_path.rglob("manifest.json"):
        content = json.loads(path.read_text()) | {"data": {"digest": "a" * 64, "partition": "c" * 64}}
        path.write_text(json.dumps(content))
    assert "fairly" not in first_sentence(gather([tmp_path]))
    for path in (tmp_path / "main" / "mine").rglob("manifest.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | manifest))
    warning = f"Warning: mine is not compared fairly with uniform ({words})."
    assert first_sentence(gather([tmp_path])).endswith(warning)
    assert any(warning in note for table in tables(find(tmp_path)) for note in table.notes)


def test_a_lone_unfair_method_leads_with_a_warning(tmp_path):
    study(tmp_path, {"mine": 0.4})
    for config in (tmp_path / "main" / "mine").rglob("config.toml"):
        config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.5"))
    gathered = gather([tmp_path])
    assert first_sentence(gathered).startswith("mine beats uniform by")
    assert first_sentence(gathered).endswith(
        "Warning: mine is not compared fairly with uniform (local.lr: 0.5, not 0.1)."
    )
    assert leader_cards(gathered.settings[0])[0].detail == "shown better than uniform, not compared fairly"


def test_a_label_alone_makes_no_baseline(tmp_path):
    for seed in range(3):
        write_run(tmp_path, "uniform", seed, [0.2, 0.4], name="oort")
        write_run(tmp_path, "fedgs", seed, [0.2, 0.5])
    assert "Uniform is not among the methods" in first_sentence(gather([tmp_path]))
    assert gather([tmp_path], baseline="oort").settings[0].baseline == "uniform"


def test_another_baseline(tmp_path):
    gathered = gather([study(tmp_path, {"oort": 0.1, "mine": 0.3})], baseline="oort")
    # the last ten of three rounds are their mean: a third of each gain
    assert first_sentence(gathered).startswith("1 of 2 methods beat oort; mine gains 6.67 points of accuracy")
    assert "− oort" in Page(gathered).overview()
    with pytest.raises(InputError, match="Unknown baseline 'ort'"):
        gather([tmp_path], baseline="ort")


def test_all_pairs_have_a_table(tmp_path):
    gathered = gather([study(tmp_path, {"a": 0.1, "b": 0.3})], all_pairs=True)
    page = Page(gathered).overview()
    assert "All pairs, last 3" in page
    assert "a falls short of b by 6.67 points" in page
    assert {one.family for one in gathered.settings[0].against_baseline().values()} == {3}
    assert "All pairs" not in Page(gather([tmp_path])).overview()


def test_a_run_under_several_seed_numbers_counts_once(tmp_path):
    study(tmp_path, {"fedgs": 0.2}, seeds=6)
    first = (tmp_path / "main" / "fedgs" / "seed-0" / "rounds.jsonl").read_text()
    for seed in range(1, 6):
        (tmp_path / "main" / "fedgs" / f"seed-{seed}" / "rounds.jsonl").write_text(first)
    gathered = gather([tmp_path])
    assert len(gathered.settings[0].methods["fedgs"]) == 1
    assert sum("has the same records as seed 0" in text for text in gathered.warnings) == 5
    assert first_sentence(gathered).startswith("Fewer than 3 seeds")


@pytest.fixture
def cut_short(tmp_path):
    """Two settings with a reference; the first run of fedgs, which has reached the target, goes on."""
    for setting in ("x", "y"):
        for seed in range(3):
            write_run(tmp_path / "runs", "uniform", seed, [0.1, 0.2, 0.6] * 3, setting=setting)
            rounds, done = (9, True) if seed else (3, False)
            write_run(tmp_path / "runs", "fedgs", seed, [0.6] * rounds, setting=setting, done=done)
            write_run(tmp_path / "runs", "centralised", seed, [0.7] * 9, setting=setting, sent={"model_down": 1e3})
    return gather([tmp_path / "runs"])


def test_unfinished_runs_are_neither_failures_nor_cheap(cut_short):
    setting = cut_short.settings[0]
    cells = {row.label: row.cells for row in method_rows(setting)}
    assert cells["fedgs"]["first crossing"] == "1.0 ± 0.0"  # not (2/3)
    assert cells["fedgs"]["speed-up"] == "– (0/2)"  # of the two pairs that are finished
    charts = by_cost.draw_charts(setting, Look(Palette(cut_short.methods, cut_short.names)))
    drawn = {chart.name: chart.tables for chart in charts if not isinstance(chart, str)}
    assert {row["cost"] for row in drawn["pareto-megabytes"]["pareto_megabytes"]} == {22.5, 0.009}
    assert {row["MB"] for row in drawn["traffic"]["traffic"] if row["method"] != "centralised"} == {9.0, 4.5}
    shares = across.draw_charts(cut_short, Look(Palette(cut_short.methods, cut_short.names)))[1].tables["profiles"]
    assert {row["share"] for row in shares if row["method"] == "fedgs"} == {1.0}
    assert (
        across._seed_costs(setting, "uniform", ["uniform", "fedgs"], by_rounds=True).size == 2
    )  # seeds that both finished


def test_reference_lines_are_never_ranked(cut_short):
    setting = cut_short.settings[0]
    assert list(across.rank_over_settings(cut_short).ranks) == ["fedgs", "uniform"]
    made = method_rows(setting)
    assert next(row for row in made if row.label == "centralised").cells["speed-up"] == ""
    assert not any(label == "centralised" for label, _ in bold_cells(setting, made))
    look = Look(Palette(cut_short.methods, cut_short.names))
    profiles = across.draw_charts(cut_short, look)[1].tables["profiles"]
    assert {row["method"] for row in profiles} == {"uniform", "fedgs"}
    front = by_cost.draw_charts(setting, look)[0].tables["pareto_megabytes_front"]
    assert [row["method"] for row in front] == ["fedgs"]


def swept(out, **accuracies):
    """A study of one method with several values of alpha."""
    write_run(out, "uniform", 0, [0.2, 0.4, 0.6])
    for at, (label, values) in enumerate(accuracies.items()):
        write_run(out, label, 0, values, name="fedgs", options={"alpha": float(at)}, done=label != "unfinished")
    return gather([out])


def test_the_best_value_is_never_one_that_diverged(tmp_path):
    page = Page(swept(tmp_path, broken=[0.2, None, None], good=[0.3, 0.4, 0.5])).render()
    assert "<td>alpha=1</td><td>40.0</td>" in page
    assert 'data-value="nan"' not in page  # it would leave the rows in any order


def test_a_value_of_which_no_run_is_finished_has_no_point(tmp_path):
    assert "What fedgs: alpha does" in Page(swept(tmp_path, unfinished=[0.2, 0.3], good=[0.3, 0.4, 0.5])).render()


def test_a_win_is_the_answer(tmp_path):
    gathered = gather([study(tmp_path, {"good": 0.15, "same": 0.0, "bad": -0.2})])
    # the last ten of three rounds are their mean: a third of each gain
    begins = "1 of 3 methods beat uniform; good gains 5.00 points of accuracy over all 3 rounds [4.8"
    assert first_sentence(gathered).startswith(begins)
    shown = {card.title: card for card in leader_cards(gathered.settings[0])}
    assert (shown["Leader"].value, shown["Leader"].detail) == ("good", "shown better than uniform")
    assert shown["Gain"].value == "+5.00"
    assert shown["Traffic"].value == "1.00×"
    assert shown["Worst-served tenth"].value.endswith(" %"), "as in the table"


def test_no_win_is_an_answer_too(tmp_path):
    found = first_sentence(gather([study(tmp_path, {"same": 0.0, "bad": -0.2})]))
    assert found == "No method is shown better than uniform: 1 worse, 1 practically equal."


@pytest.mark.parametrize(
    ("gain", "title", "detail", "verdict"),
    [
        (0.02, "Leader", "undecided, not shown better than uniform", "undecided"),
        (-0.2, "Best after uniform", "shown worse than uniform", "worse"),
        (-0.0001, "Best after uniform", "practically equal to uniform", "practically equal"),
    ],
)
def test_the_cards_claim_no_more_than_the_answer(tmp_path, gain, title, detail, verdict):
    gathered = gather([study(tmp_path, {"other": gain}, spread=0.05 if verdict == "undecided" else 0.002)])
    assert first_sentence(gathered).startswith("No method is shown better than uniform: ")
    first, second, *_ = leader_cards(gathered.settings[0])
    assert (first.title, first.value, first.detail) == (title, "other", detail)
    assert second.title == f"Difference, {verdict}"


@pytest.mark.parametrize(
    ("gains", "seeds", "words"),
    [({}, 3, "Only one method was run"), ({"good": 0.1}, 2, "Fewer than 3 seeds show no spread")],
)
def test_what_is_missing_is_said(tmp_path, gains, seeds, words):
    assert words in first_sentence(gather([study(tmp_path, gains, seeds)]))


def test_without_uniform(tmp_path):
    write_run(tmp_path, "fedcor", 0, [0.1, 0.2, 0.3])
    gathered = gather([tmp_path])
    assert "Uniform is not among the methods" in first_sentence(gathered)
    assert verdict_lines(gathered.settings[0])[0][1].startswith("Uniform is not among")
    assert leader_cards(gathered.settings[0])[0].value == "fedcor"


def test_unfinished_runs_and_mixed_targets_are_mentioned(tmp_path):
    study(tmp_path, {"good": 0.1}, 3)
    write_run(tmp_path, "good", 3, [0.2, 0.4, 0.6], done=False, target=0.7)
    gathered = gather([tmp_path])
    assert first_sentence(gathered).startswith("So far, with 1 of 7 runs unfinished: ")
    assert gathered.warnings == [
        "The runs of main have different targets: rounds to target are not comparable.",
        "1 of 7 runs are unfinished: they are drawn, and left out of tables and verdicts; "
        "sortition run with --resume goes on.",
    ]


def test_a_run_that_stands_at_an_earlier_round_is_not_compared(tmp_path):
    for seed in range(4):
        write_run(tmp_path, "uniform", seed, [0.1, 0.2, 0.6 + seed / 100, 0.7])
        write_run(tmp_path, "same", seed, [0.1, 0.2], done=False)
    setting = gather([tmp_path]).settings[0]
    assert setting.against_baseline() == {}
    assert setting.comparison.leader == "uniform"
    assert "No two methods have finished runs of one seed" in first_sentence(gather([tmp_path]))
    assert setting.mean("same", "passes") is None
    assert setting.methods["same"][0].test["accuracy"].size == 2  # its curve is drawn
    assert "same" in Page(gather([tmp_path])).render()


def test_all_figures_fit_the_page_in_several_tables(tmp_path):
    page = Page(gather([study(tmp_path, {"good": 0.1})])).overview()
    folded = page.partition("<summary>All figures</summary>")[2].partition("</details>")[0]
    heads = [part.count("<th ") for part in folded.split("</thead>")[:-1]]
    assert len(heads) > 1
    assert max(heads) <= 10
    for title in ("all rounds, %", "Gini", "client passes"):
        assert folded.count(f">{title}</th>") == 1


def test_over_several_settings_the_largest_gain_comes_first(tmp_path):
    for setting in ("easy", "hard"):
        study(tmp_path, {"a": 0.1, "b": 0.15, "c": 0.2, "d": 0.25}, setting=setting)
    assert first_sentence(gather([tmp_path])) == (
        "Better than the baseline: d in 2 of 2 settings, c in 2 of 2 settings, b in 2 of 2 settings, and 1 more "
        "(all 8 comparisons of the page taken together, Holm's correction)."
    )


def test_several_settings_are_counted(tmp_path):
    study(tmp_path, {"good": 0.1}, setting="easy")
    study(tmp_path, {"good": -0.1}, setting="hard")
    gathered = gather([tmp_path])
    assert first_sentence(gathered).startswith("Better than the baseline: good in 1 of 2 settings (all 2 comparisons")
    page = Page(gathered)
    first = page.overview()
    assert "Verdicts over settings" in first
    assert "Each of the 2 settings is judged by itself" in first
    assert {"ranks", "profiles"} <= {chart.name for _, chart in page.charts}
    assert '<select id="setting">' in page.render()


def test_a_sweep_is_drawn_against_its_values(tmp_path):
    for at, alpha in enumerate((0.1, 1.0)):
        for name in ("uniform", "fedgs"):
            home = write_run(tmp_path, name, 0, [0.2, 0.4, 0.5 + at / 10], setting=f"alpha={alpha}")
            text = (home / "config.toml").read_text().replace("clients = 4", f"clients = 4\nalpha = {alpha}")
            (home / "config.toml").write_text(text)
    page = Page(gather([tmp_path]))
    first = page.overview()
    (sweep,) = (chart for _, chart in page.charts if chart.name == "sweep-data.alpha")
    rows = next(rows for name, rows in sweep.tables.items() if not name.endswith("_names"))
    assert {(row["method"], row["value"]) for row in rows} == {(m, v) for m in ("uniform", "fedgs") for v in (0.1, 1.0)}
    assert "data.alpha" in first


def test_an_accuracy_is_in_percent_in_every_table(tmp_path):
    for setting in ("a", "b"):
        write_run(tmp_path, "uniform", 0, [0.2, 0.4, 0.5], setting=setting)
    write_run(tmp_path, "poc,d=10", 0, [0.2, 0.4, 0.9], name="power-of-choice", setting="a")
    home = write_run(tmp_path, "poc,d=25", 0, [0.2, 0.4, 0.6], name="power-of-choice", setting="a")
    (home / "config.toml").write_text((home / "config.toml").read_text().replace("[method]\n", "[method]\nd = 25\n"))
    first = Page(gather([tmp_path])).overview()
    every_setting = first[first.index("Every setting and method") :]
    assert "last 3, %" in every_setting
    assert ">36.7<" in every_setting  # uniform's mean over the rounds
    assert "0.367" not in first


def test_variants_of_a_method_have_their_best(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.2, 0.4, 0.5])
    for d, end in ((10, 0.5), (25, 0.8)):
        home = write_run(tmp_path, f"poc,d={d}", 0, [0.2, 0.4, end], name="power-of-choice")
        text = (home / "config.toml").read_text().replace("[method]\n", f"[method]\nd = {d}\n")
        (home / "config.toml").write_text(text)
    page = Page(gather([tmp_path]))
    assert "Best of each method" in page.overview()
    assert "d=25" in page.overview()
    assert "sweep-power-of-choice-d" in {chart.name for _, chart in page.charts}


def test_a_run_that_diverged_is_flagged(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.2, 0.4, 0.5])
    home = write_run(tmp_path, "broken", 0, [0.2, 0.2, 0.1])
    lines = [json.loads(line) for line in (home / "rounds.jsonl").read_text().splitlines()]
    lines[-1]["test"]["loss"] = float("inf")
    (home / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gathered = gather([tmp_path])
    assert "broken diverged on 1 of 1 seeds" in " ".join(text for _, text in verdict_lines(gathered.settings[0]))
    assert "diverged 1/1" in Page(gathered).overview()


def test_the_seeds_of_the_checklist_follow_the_verdicts(tmp_path):
    seeds = {p.asks: p for p in review_points(gather([study(tmp_path / "a", {"good": 0.1})]))}["Enough seeds to decide"]
    assert (seeds.passed, seeds.fact) == (True, "6 for the method that has fewest; every comparison is decided")
    for seed, gain in enumerate((0.2, -0.1, 0.1)):
        write_run(tmp_path / "b", "uniform", seed, [0.2, 0.4, 0.5])
        write_run(tmp_path / "b", "wild", seed, [0.2, 0.4, 0.5 + gain])
    seeds = {p.asks: p for p in review_points(gather([tmp_path / "b"]))}["Enough seeds to decide"]
    assert not seeds.passed
    assert "undecided: wild (" in seeds.fact


def test_the_title_heads_the_page_and_names_the_file(tmp_path):
    study(tmp_path / "runs", {"good": 0.1}, 2)
    (tmp_path / "runs" / "study.json").write_text(json.dumps({"title": "Who <wins>?", "settings": [], "methods": []}))
    page = write([tmp_path / "runs"])
    assert page == tmp_path / "runs" / "who-wins.html" == default_page_path([tmp_path / "runs"])
    assert "<h1>Who &lt;wins&gt;?</h1>" in page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="The report's page must be a file"):
        write([tmp_path / "runs"], tmp_path / "runs")
    with pytest.raises(InputError, match="--margin must be > 0 and at most 100 points; got 0"):
        gather([tmp_path / "runs"], margin=0)


def test_words_say_what_is_compared_and_whether_models_learned(tmp_path):
    gathered = gather([study(tmp_path, {"good": 0.15})])
    page = Page(gathered).overview()
    assert "<summary>In words</summary><p>Test accuracy over all 3 rounds against uniform, in points:</p>" in page
    lines = [text for _, text in verdict_lines(gathered.settings[0])]  # 0.4 where a guess is right in 63 %
    assert lines[-1].startswith("The models hardly learned")
    for seed in range(2):
        for label in ("uniform", "good"):
            write_run(tmp_path / "more", label, seed, [0.8, 0.9, 0.9])
    assert len(verdict_lines(gather([tmp_path / "more"]).settings[0])) == 1


def test_one_epoch_is_one(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.2, 0.4])
    setting = gather([tmp_path]).settings[0]
    assert "2 steps of 4 at rate 0.1" in describe_setting(setting)
    setting.first.config["local"] = {"epochs": 1, "batch": 4, "lr": 0.1}
    assert "1 epoch of 4 at rate 0.1" in describe_setting(setting)
    assert "1 seed." in describe_setting(setting)


def test_reference_lines_are_no_best_method(tmp_path):
    study(tmp_path, {"good": 0.0}, 2)
    for seed in range(2):
        write_run(tmp_path, "centralised", seed, [0.5, 0.8, 0.95])
    assert gather([tmp_path]).settings[0].comparison.leader == "good"


def test_methods_that_a_setting_lacks_are_named_beside_ranks_and_profiles(tmp_path):
    for setting in ("x", "y"):
        study(tmp_path / "runs", {"fedgs": 0.1, **({"oort": 0.2} if setting == "x" else {})}, setting=setting)
    gathered = gather([tmp_path / "runs"])
    captions = [
        chart.caption for chart in across.draw_charts(gathered, Look(Palette(gathered.methods, gathered.names)))
    ]
    assert len(captions) == 2
    assert all(one.endswith("Left out, since a setting lacks them: oort (not in y).") for one in captions)


def test_a_single_win_among_many_settings_is_not_the_headline(tmp_path):
    """p = 0.02 in one of ten settings is no surprise: ten settings have such a p in one page of five."""
    for setting in range(10):
        for seed, noise in enumerate((0.01, -0.02, 0.03, 0.0, -0.01)):
            gain = 0.015 if setting == 0 else 0.0
            write_run(tmp_path, "uniform", seed, [0.8], setting=f"s{setting}")
            write_run(tmp_path, "lucky", seed, [0.8 + gain + 0.5 * noise], setting=f"s{setting}")
    gathered = gather([tmp_path])
    assert gathered.settings[0].against_baseline()["lucky"].verdict == "better"
    found = first_sentence(gathered)
    assert found.startswith("No method is shown better than the baseline in any of the 10 settings with all 10")
    assert "1 of them are better in their own setting alone, which chance may explain" in found
