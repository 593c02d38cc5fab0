"""What is compared with what, by which criteria, and the result in words."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sortition.core.errors import InputError, StorageError
from sortition.results import metrics
from sortition.results.comparisons import Criteria, SettingComparison, baseline_of, check_baseline, criteria_of
from sortition.results.statistics import Budget, Reason
from sortition.results.verdict_words import (
    averaged_rounds,
    figure_title,
    several_settings_note,
    signed,
    sort_by_gain,
    speed_up_text,
    unfair_warning,
    verdict_sentence,
    verdict_text,
)


def test_the_words_say_how_many_rounds_were_averaged():
    every_round = metrics.window_of(np.arange(1, 31))
    assert (figure_title("last", every_round), averaged_rounds(every_round)) == ("last 10", "the last 10 rounds")
    every_fifth = metrics.window_of(np.arange(5, 31, 5))
    assert averaged_rounds(every_fifth) == "the last 10 rounds (2 of them evaluated)"
    short = metrics.window_of(np.arange(1, 7))
    assert (figure_title("last", short), averaged_rounds(short)) == ("last 6", "all 6 rounds")
    assert averaged_rounds(metrics.window_of(np.array([1]))) == "the only round"
    assert figure_title("mean", short) == "all rounds"
    assert metrics.longest_window([np.arange(1, 7), np.empty(0, int), np.arange(1, 9)]).rounds == 8
    assert metrics.longest_window([]) is None


def test_what_rounds_to_zero_has_no_minus():
    assert [signed(value, 1) for value in (-0.04, 0.0, -0.0, 0.04)] == ["+0.0"] * 4
    assert [signed(value, 1) for value in (-0.06, 0.06)] == ["−0.1", "+0.1"]


NOISE = (0.004, -0.003, 0.001, -0.004, 0.002, 0.0)


def runs(gain, spread=1.0, megabytes=10.0, of="accuracy"):
    base = 0.7 if of == "accuracy" else 2.0
    return {
        seed: {f"last-{of}": base + gain + spread * noise, "megabytes": megabytes, "rounds": 10.0}
        for seed, noise in enumerate(NOISE)
    }


def setting(methods, *, of="accuracy", names=None, configs=None, **criteria):
    """The comparison of methods whose labels are their names; accuracies are of 10,000 test examples."""
    return SettingComparison(
        figures=methods,
        names=names or {label: label for label in methods},
        configs=configs or {},
        metric=of,
        criteria=Criteria(**criteria),
        resolution=1e-4 if of == "accuracy" else None,
    )


def sentences(methods, of="accuracy", **criteria):
    return [
        verdict_sentence(one) for one in sort_by_gain(setting(methods, of=of, **criteria).against_baseline().values())
    ]


def only_sentence(of="accuracy", margin=0.5, **options):
    (text,) = sentences({"uniform": runs(0, 0, of=of), "fedgs": runs(of=of, **options)}, of, margin=margin)
    return text


def test_the_best_come_first_and_those_that_diverged_last():
    values = {"uniform": 0.5, "good": 0.6, "broken": math.nan, "best": 0.9, "bad": 0.1}
    methods = {label: {seed: {"last-accuracy": v + 0.01 * seed} for seed in range(3)} for label, v in values.items()}
    assert [text.split()[0] for text in sentences(methods)] == ["best", "good", "bad", "broken"]


class TestWorstTenth:
    """Methods by how the clients fare that the model serves worst: a family of its own."""

    def made(self, gains, **options):
        figures = {
            label: {
                seed: run | {"worst-tenth": 0.3 + gain + 2 * noise}
                for (seed, run), noise in zip(runs(0).items(), NOISE, strict=True)
            }
            for label, gain in gains.items()
        }
        return setting(
            {"uniform": {seed: run | {"worst-tenth": 0.3} for seed, run in runs(0).items()}} | figures, **options
        )

    def test_a_method_may_serve_them_better_without_being_better(self):
        compared = self.made({"fedgs": 0.1})
        (pair,) = compared.worst_tenth
        assert (pair.figure, pair.verdict, pair.window) == ("worst-tenth", "better", None)
        assert pair.difference == pytest.approx(0.1 + 2 * np.mean(NOISE))
        assert compared.against_baseline()["fedgs"].verdict != "better"

    def test_each_setting_corrects_for_its_methods_and_shows_the_chosen(self):
        compared = self.made({"fedgs": 0.1, "oort": -0.1})
        assert [(pair.method, pair.verdict) for pair in compared.worst_tenth] == [
            ("fedgs", "better"),
            ("oort", "worse"),
        ]
        (pair,) = replace(compared, shown=frozenset({"uniform", "oort"})).worst_tenth
        assert (pair.method, pair.family) == ("oort", 2)

    def test_there_is_none_where_it_is_unknown_or_runs_end_at_a_cost(self):
        assert setting({"uniform": runs(0), "fedgs": runs(0.1)}).worst_tenth == []
        budget = Budget(amount=40.0, currency="seconds", start=1.0)
        assert replace(self.made({"fedgs": 0.1}), budget=budget).worst_tenth == []


class TestCriteria:
    def test_the_margin_is_the_studys_from_above_and_from_inside(self, tmp_path):
        part = tmp_path / "runs" / "mine" / "main" / "uniform" / "seed-0"
        part.mkdir(parents=True)
        (tmp_path / "runs" / "mine" / "study.json").write_text('{"margin": 2.0}')
        for folder in (tmp_path / "runs", tmp_path / "runs" / "mine", part.parent.parent, part):
            assert criteria_of([folder]) == Criteria(margin=2.0)
        (tmp_path / "other").mkdir()
        assert criteria_of([tmp_path / "other"]) == Criteria()
        with pytest.raises(InputError, match=r"same margin; got 0\.5, 2\. Give one with --margin"):
            criteria_of([tmp_path / "other", part])
        assert criteria_of([tmp_path / "other", part], margin=1.0).margin == 1.0

    def test_baseline_and_pairs_are_the_studys_unless_others_are_given(self, tmp_path):
        (tmp_path / "study.json").write_text('{"baseline": "oort", "all_pairs": true}')
        assert criteria_of([tmp_path]) == Criteria(baseline="oort", all_pairs=True)
        assert criteria_of([tmp_path], baseline="hics", all_pairs=False) == Criteria(baseline="hics")

    @pytest.mark.parametrize("value", ["wide", -1, 0, 1e9, [1], None, float("nan")])
    def test_a_stored_margin_that_is_none_is_refused(self, tmp_path, value):
        (tmp_path / "study.json").write_text(json.dumps({"margin": value}))
        with pytest.raises(StorageError, match=r"study\.json is damaged: margin"):
            criteria_of([tmp_path])

    @pytest.mark.parametrize("margin", [0, -1, 1e9, math.nan])
    def test_a_given_margin_that_is_none_is_refused(self, tmp_path, margin):
        with pytest.raises(InputError, match="--margin must be > 0 and at most 100 points"):
            criteria_of([tmp_path], margin=margin)


@pytest.mark.parametrize(("of", "margin", "text"), [("accuracy", 0.25, "±0.25,"), ("loss", 0.4, "±0.008,")])
def test_the_region_of_practical_equality_is_not_rounded_away(of, margin, text):
    assert f"within {text}" in only_sentence(of=of, gain=0, spread=0.01, margin=margin)


def test_runs_that_ended_at_different_rounds_are_not_compared():
    # the fast one reached the target in round 6 and stopped: its mean holds only early rounds
    figures = {"uniform": (0.38, 40), "fast": (0.25, 6), "alike": (0.4, 40)}
    methods = {
        label: {seed: {"last-accuracy": value + 0.001 * seed * len(label), "rounds": rounds} for seed in range(5)}
        for label, (value, rounds) in figures.items()
    }
    found = setting(methods).against_baseline()
    assert found["fast"].verdict == "undecided"
    assert found["fast"].reason is Reason.ENDED_APART
    same = {label: {seed: {**run, "rounds": 40} for seed, run in runs.items()} for label, runs in methods.items()}
    assert found["alike"] == setting(same).against_baseline()["alike"]  # the family stays as large
    assert sentences(methods)[-1].startswith("fast against uniform is undecided: their runs ended at different rounds")


def test_a_win_a_loss_and_a_draw():
    assert only_sentence(gain=0.024) == "fedgs beats uniform by 2.40 points [2.08, 2.72] at the same traffic."
    assert only_sentence(gain=-0.024).startswith("fedgs falls short of uniform by 2.40 points [2.08, 2.72]")
    assert only_sentence(gain=-0.024, megabytes=23.0).endswith("at 2.3× the traffic.")
    equal = only_sentence(gain=0.0)
    assert equal.startswith("fedgs and uniform are practically equal: +0.00 points, within ±0.5, 90 % interval [−0.25,")


def test_what_is_undecided_says_how_many_seeds_would_decide():
    text = only_sentence(gain=0.003, spread=2.0)
    assert text.startswith("fedgs against uniform is undecided: +0.30 points [−0.34, +0.94]; about ")
    assert text.endswith(" seeds would decide (6 were run).")
    one = setting({"uniform": runs(0, 0), "fedgs": runs(0.003, 2.0)}).against_baseline()["fedgs"]
    assert verdict_text(one) == f"undecided ({one.seeds_needed} seeds)"


def test_one_seed_two_seeds_and_a_diverged_run():
    base = {"uniform": runs(0, 0)}
    (text,) = sentences({**base, "fedgs": {0: {"last-accuracy": 0.9}}})
    assert "one seed shows no spread that could be trusted; run at least 5" in text
    (text,) = sentences({**base, "fedgs": {0: {"last-accuracy": 0.9}, 1: {"last-accuracy": 0.9}}})
    assert "+20.00 points; 2 seeds show no spread that could be trusted" in text
    broken = {**runs(0.1), 3: {"last-accuracy": float("nan")}}
    assert sentences({**base, "fedgs": broken}) == ["fedgs against uniform is undecided: a run diverged."]


def test_less_loss_is_better_and_its_margin_is_a_share_of_the_baselines():
    assert only_sentence(of="loss", gain=-0.2).startswith("fedgs beats uniform by 0.200 in loss")
    assert "] (less is better);" in only_sentence(of="loss", gain=-0.02, spread=100)
    assert "less is better" not in only_sentence(gain=0.001)
    methods = {"uniform": runs(0, 0, of="loss"), "a": runs(0.1, of="loss")}
    found = setting(methods, of="loss").against_baseline()["a"]
    assert found.verdict == "worse"
    assert found.region == pytest.approx(0.005 * 2.0)


class TestBaseline:
    def test_it_is_the_method_uniform_whatever_its_label(self):
        assert baseline_of({"fedgs": "fedgs", "uniform": "uniform"}) == "uniform"
        assert baseline_of({"plain": "uniform", "fedgs": "fedgs"}) == "plain"
        assert baseline_of({"plain": "uniform", "uniform": "uniform"}) == "uniform"
        assert baseline_of({"fedgs": "fedgs"}) is None

    def test_a_label_alone_makes_no_baseline(self):
        assert baseline_of({"uniform": "oort", "fedgs": "fedgs"}) is None
        assert baseline_of({"uniform": "oort", "plain": "uniform"}) == "plain"

    def test_another_can_be_named_by_label_or_by_method(self):
        names = {"uniform": "uniform", "my oort": "oort", "fedgs": "fedgs"}
        assert baseline_of(names, "my oort") == "my oort"
        assert baseline_of(names, "oort") == "my oort"
        assert baseline_of(names, "hics") is None

    def test_one_that_no_setting_has_is_refused(self):
        check_baseline("oort", [{"fedgs": "fedgs"}, {"oort": "oort"}])
        with pytest.raises(InputError, match="Unknown baseline 'ort'; the study has fedgs, oort"):
            check_baseline("ort", [{"fedgs": "fedgs"}, {"oort": "oort"}])
        with pytest.raises(InputError, match="baseline must be a method that selects clients; got 'centralised'"):
            check_baseline("centralised", [{"centralised": "centralised"}])

    def test_without_one_nothing_is_compared(self):
        assert setting({"fedgs": runs(0)}).against_baseline() == {}

    def test_differences_are_from_the_one_that_is_named(self):
        methods = {"uniform": runs(0, 0), "oort": runs(0.01, 0), "mine": runs(0.05)}
        found = setting(methods, baseline="oort").against_baseline()
        assert found["mine"].difference == pytest.approx(0.04)
        assert found["uniform"].difference == pytest.approx(-0.01)
        assert found["mine"].family == 2


def test_all_pairs_are_one_family():
    methods = {"uniform": runs(0, 0), "a": runs(0.02), "b": runs(0.03, 1.2), "centralised": runs(0.2)}
    every = setting(methods, all_pairs=True)
    pairs = {(one.method, one.baseline): one for one in every.every_pair()}
    assert list(pairs) == [("a", "uniform"), ("b", "uniform"), ("a", "b")]  # references are never compared
    assert {one.family for one in pairs.values()} == {3}
    assert pairs["a", "b"].difference == pytest.approx(-0.01)
    many = every.against_baseline()["b"]
    few = setting(methods).against_baseline()["b"]
    assert many.p == pytest.approx(1.5 * few.p)  # three comparisons in place of two


class TestUnfair:
    CONFIG = {"cohort": 5, "rounds": 10, "local": {"lr": 0.1, "steps": 3}, "method": {"name": "a"}, "seed": 1}

    def found(self, **changes):
        configs = {label: dict.fromkeys(range(6), self.CONFIG) for label in ("uniform", "mine")}
        configs["mine"] = {seed: {**self.CONFIG, **changes} for seed in range(6)}
        return setting({"uniform": runs(0, 0), "mine": runs(0.1)}, configs=configs).against_baseline()["mine"]

    def test_methods_that_are_alike_have_no_warning(self):
        found = self.found(method={"name": "b", "alpha": 1}, seed=2, guards={"reweight": "size"})
        assert (found.unlike, verdict_text(found), unfair_warning([found])) == ((), "better", "")

    @pytest.mark.parametrize(
        ("changes", "key", "words"),
        [
            ({"cohort": 20}, "cohort", "cohort: 20, not 5"),
            ({"local": {"lr": 0.5, "steps": 3}}, "local.lr", "local.lr: 0.5, not 0.1"),
            ({"rounds": 20}, "rounds", "rounds: 20, not 10"),
            ({"pace": {"deadline": 3.0}}, "pace.deadline", "pace.deadline: 3, not –"),
            ({"precision": "bf16"}, "precision", "precision: bf16, not –"),
        ],
    )
    def test_others_are_named_in_the_cell_and_in_the_sentence(self, changes, key, words):
        found = self.found(**changes)
        assert verdict_text(found) == f"better (unfair: other {key})"
        assert verdict_sentence(found).endswith(f"; not compared fairly ({words}).")
        assert unfair_warning([found]) == f"Warning: mine is not compared fairly with uniform ({words})."

    def test_many_keys_are_counted(self):
        found = self.found(local={"lr": 0.5, "steps": 9, "batch": 3}, cohort=6)
        assert verdict_text(found) == "better (unfair: other cohort, local.lr, local.steps and 1 more)"


def test_over_several_settings_it_says_what_is_not_controlled():
    assert several_settings_note(1) == ""
    assert several_settings_note(2).endswith("any of them may have one.")
    assert several_settings_note(40).endswith("about 2 of them may have one.")


def test_a_comparison_has_the_ratios_of_cost_and_speed():
    def figures(rounds_to_target, passes):
        return {"last-accuracy": 0.5, "rounds": 10.0, "passes": passes, "rounds-to-target-smoothed": rounds_to_target}

    methods = {
        "uniform": {0: figures(8, 100.0), 1: figures(9, 100.0), 2: figures(None, 100.0)},
        "fedgs": {0: figures(4, 150.0), 1: figures(2, 150.0), 2: figures(5, 150.0)},
    }
    comparison = setting(methods).against_baseline()["fedgs"]
    assert comparison.passes_ratio == 1.5
    assert comparison.traffic_ratio is None, "no traffic is known"
    assert comparison.speed_up == pytest.approx(3.0), "the geometric mean of 2 and 4.5"
    assert speed_up_text(comparison) == "3.00× (2/3)"
