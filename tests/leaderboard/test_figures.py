"""Area, end and seconds to target, from curves that one can compute by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sortition.leaderboard.figures import Curve, target_of


def by_time(position: list[float], accuracy: list[float], budget: float = 100.0) -> Curve:
    return Curve(np.array(position), np.array(accuracy), budget, by_time=True)


def test_area_by_rounds_is_the_mean_of_the_evaluations() -> None:
    curve = Curve(np.array([2, 4, 6]), np.array([0.2, 0.4, 0.9]), 6, by_time=False)
    assert curve.area() == pytest.approx(0.5)


def test_area_by_time_is_that_of_a_step_function_which_begins_at_0() -> None:
    assert by_time([10, 50], [0.5, 0.8]).area() == pytest.approx((40 * 0.5 + 50 * 0.8) / 100)
    assert by_time([], []).area() == 0


def test_evaluations_after_the_budget_do_not_count() -> None:
    curve = by_time([10, 50, 120], [0.5, 0.8, 1.0])
    assert curve.area() == by_time([10, 50], [0.5, 0.8]).area()
    assert curve.end() == 0.8


def test_a_run_that_ended_early_keeps_its_last_accuracy() -> None:
    assert by_time([10], [0.5]).area() == pytest.approx(0.45)
    assert by_time([10], [0.5]).end() == 0.5


def test_the_end_is_the_mean_of_the_last_tenth() -> None:
    assert by_time([50, 92, 99], [0.1, 0.6, 0.8]).end() == pytest.approx(0.7)
    rounds = Curve(np.arange(1, 101), np.linspace(0.01, 1, 100), 100, by_time=False)
    assert rounds.end() == pytest.approx(np.linspace(0.01, 1, 100)[90:].mean())


def test_a_target_is_reached_by_the_mean_of_three_evaluations() -> None:
    curve = by_time([10, 20, 30, 40], [0.1, 0.9, 0.5, 0.6])
    assert curve.reached(0.6) == 40
    assert curve.reached(0.05) == 10
    assert curve.reached(0.95) == math.inf


def test_the_target_is_the_median_of_uniform_at_half_of_the_budget() -> None:
    curves = [by_time([10, 49, 51], [0.1, level, 0.99]) for level in (0.3, 0.5, 0.9)]
    assert target_of(curves) == 0.5


def test_a_curve_with_a_number_that_is_not_finite_is_not_sound() -> None:
    assert not by_time([10], [math.nan]).is_sound
    assert by_time([10], [0.3]).is_sound
