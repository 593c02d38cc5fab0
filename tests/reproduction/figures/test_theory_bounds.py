from __future__ import annotations

import re

from sortition.reproduction.context import Context
from sortition.reproduction.figures import theory_bounds


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)]


def test_precision_has_a_row_for_each_sample_and_a_picture(tmp_path):
    context = Context("theory", tmp_path, None, 1, None)
    text = theory_bounds.precision_of_strata(
        context, members=[3, 2], seats=[[1, 1], [3, 2]], curvature=[0.5, 2.0], rounds=3, steps=3
    )
    few, everybody = rows(text)[2:]
    assert few[0] == "1, 1"
    assert float(everybody[1]) < float(few[1]) < float(few[2])
    assert (tmp_path / "theory-precision.png").stat().st_size > 1000
    assert "![precision](theory-precision.png)" in text


def test_the_gain_is_negative_before_the_threshold_and_positive_beyond(tmp_path):
    context = Context("theory", tmp_path, None, 1, None)
    text = theory_bounds.identical_labels(context, labels=[3], clients=9, most=5, separations=[0.0, 4.0])
    classes, *_ = rows(text)[2:3]
    assert classes[:3] == ["3", "3", "yes"]
    near, far = rows(text)[-2:]
    assert float(near[1]) < float(near[2])
    assert float(near[3]) < 0
    assert float(far[1]) > float(far[2])
    assert float(far[3]) > 0


def test_bounds_and_what_is_measured_stand_side_by_side(tmp_path):
    context = Context("theory", tmp_path, None, 1, None)
    posterior = rows(theory_bounds.posterior_of_cohorts(context, rates=[0.01], clients=6, size=2))[2]
    assert float(posterior[2]) <= float(posterior[3]) <= float(posterior[4])
    proxy = rows(theory_bounds.proxy_convergence(context, apart={"one": 0.0}, moments=[5, 20]))[2:]
    assert [row[1] for row in proxy] == ["5", "20"]
    assert float(proxy[1][2]) < float(proxy[0][2])
    (represented,) = rows(theory_bounds.representation_bound(context, kinds=[3], clients=6, size=3))[2:]
    assert float(represented[1]) <= 1
    (drift,) = rows(theory_bounds.drift_bound(context, trade_offs=[1.0], rounds=20))[2:]
    assert float(drift[1]) <= 1
