import numpy as np
import pytest
from campaign.first_evaluation import missing_area

from sortition.leaderboard.figures import Curve


def test_the_line_before_the_first_evaluation_by_hand():
    curve = Curve(np.array([20.0, 60.0]), np.array([0.5, 0.7]), budget=100.0, by_time=True)
    # from 0.1 to 0.5 over a fifth of the budget
    assert missing_area(curve) == pytest.approx(0.3 * 0.2)
    assert missing_area(Curve(np.array([120.0]), np.array([0.5]), budget=100.0, by_time=True)) == 0.0
