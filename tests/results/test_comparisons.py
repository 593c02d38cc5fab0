"""The result of a comparison in words."""

import math

import pytest

from sortition.core.errors import InputError
from sortition.results.comparisons import against_baseline, baseline_of, conclusions, margin_of, verdict_text

NOISE = (0.004, -0.003, 0.001, -0.004, 0.002, 0.0)


def runs(gain, spread=1.0, megabytes=10.0, of="accuracy"):
    base = 0.7 if of == "accuracy" else 2.0
    return {
        seed: {f"last-{of}": base + gain + spread * noise, "megabytes": megabytes, "rounds": 10.0}
        for seed, noise in enumerate(NOISE)
    }


def sentence(of="accuracy", **options):
    (found,) = conclusions({"uniform": runs(0, 0, of=of), "fedgs": runs(of=of, **options)}, "uniform", of)
    return found[1]


def test_the_best_come_first_and_those_that_diverged_last():
    values = {"uniform": 0.5, "good": 0.6, "broken": math.nan, "best": 0.9, "bad": 0.1}
    methods = {label: {seed: {"last-accuracy": v + 0.01 * seed} for seed in range(3)} for label, v in values.items()}
    found = [sentence.split()[0] for _, sentence in conclusions(methods, "uniform", "accuracy")]
    assert found == ["best", "good", "bad", "broken"]


def test_the_margin_is_the_studys_from_above_and_from_inside(tmp_path):
    part = tmp_path / "runs" / "mine" / "main" / "uniform" / "seed-0"
    part.mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "study.json").write_text('{"margin": 2.0}')
    for folder in (tmp_path / "runs", tmp_path / "runs" / "mine", part.parent.parent, part):
        assert margin_of([folder]) == 2.0
    (tmp_path / "other").mkdir()
    assert margin_of([tmp_path / "other"]) == 0.5
    with pytest.raises(InputError, match=r"same margin; got 0\.5, 2\. Give one with --margin"):
        margin_of([tmp_path / "other", part])


@pytest.mark.parametrize(("of", "margin", "text"), [("accuracy", 0.25, "±0.25,"), ("loss", 0.4, "±0.008,")])
def test_the_region_of_practical_equality_is_not_rounded_away(of, margin, text):
    found = conclusions({"uniform": runs(0, 0, of=of), "fedgs": runs(0, 0.01, of=of)}, "uniform", of, margin)
    assert f"within {text}" in found[0][1]


def test_runs_that_ended_at_different_rounds_are_not_compared():
    # the fast one reached the target in round 6 and stopped: its mean holds only early rounds
    figures = {"uniform": (0.38, 40), "fast": (0.25, 6), "alike": (0.4, 40)}
    methods = {
        label: {seed: {"last-accuracy": value + 0.001 * seed * len(label), "rounds": rounds} for seed in range(5)}
        for label, (value, rounds) in figures.items()
    }
    found = against_baseline(methods, "uniform", "accuracy")
    assert found["fast"].verdict == "undecided"
    assert found["fast"].apart
    same = {label: {seed: {**run, "rounds": 40} for seed, run in runs.items()} for label, runs in methods.items()}
    assert found["alike"] == against_baseline(same, "uniform", "accuracy")["alike"]  # the family stays as large
    sentence = conclusions(methods, "uniform", "accuracy")[-1][1]
    assert sentence.startswith("fast against uniform is undecided: their runs ended at different rounds")


def test_a_win_a_loss_and_a_draw():
    assert sentence(gain=0.024) == "fedgs beats uniform by 2.40 points [2.08, 2.72] at the same traffic."
    assert sentence(gain=-0.024, megabytes=23.0).startswith("fedgs falls short of uniform by 2.40 points [2.08, 2.72]")
    assert sentence(gain=-0.024, megabytes=23.0).endswith("at 2.3× the traffic.")
    equal = sentence(gain=0.0)
    assert equal.startswith("fedgs and uniform are practically equal: +0.00 points, within ±0.5, 90 % interval [−0.25,")


def test_what_is_undecided_says_how_many_seeds_would_decide():
    text = sentence(gain=0.003, spread=2.0)
    assert text.startswith("fedgs against uniform is undecided: +0.30 points [−0.34, +0.94]; about ")
    assert text.endswith(" seeds would decide (6 were run).")
    one = against_baseline({"uniform": runs(0, 0), "fedgs": runs(0.003, 2.0)}, "uniform", "accuracy")["fedgs"]
    assert verdict_text(one) == f"undecided ({one.seeds_needed} seeds)"


def test_one_seed_and_a_diverged_run():
    base = {"uniform": runs(0, 0)}
    (one,) = conclusions({**base, "fedgs": {0: {"last-accuracy": 0.9}}}, "uniform", "accuracy")
    assert "one seed shows no spread; run at least 5" in one[1]
    broken = {**runs(0.1), 3: {"last-accuracy": float("nan")}}
    (one,) = conclusions({**base, "fedgs": broken}, "uniform", "accuracy")
    assert one[1] == "fedgs against uniform is undecided: a run diverged."


def test_less_loss_is_better_and_its_margin_is_a_share_of_the_baselines():
    assert sentence(of="loss", gain=-0.2).startswith("fedgs beats uniform by 0.200 in loss")
    found = against_baseline({"uniform": runs(0, 0, of="loss"), "a": runs(0.1, of="loss")}, "uniform", "loss")["a"]
    assert found.verdict == "worse"
    assert found.margin == pytest.approx(0.005 * 2.0)


def test_the_baseline_is_uniform_by_label_or_by_name():
    assert baseline_of({"fedgs": "fedgs", "uniform": "uniform"}) == "uniform"
    assert baseline_of({"plain": "uniform", "fedgs": "fedgs"}) == "plain"
    assert baseline_of({"fedgs": "fedgs"}) is None
    assert against_baseline({"fedgs": runs(0)}, None, "accuracy") == {}
