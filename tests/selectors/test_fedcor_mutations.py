"""Slips that were put into FedCor's fast form on purpose: each must be seen by the comparison with the literal twin."""

from __future__ import annotations

import pytest
from tests.mutations import slipped
from tests.selectors.test_fedcor import agrees_with_the_literal_twin

from sortition.selectors import fedcor
from sortition.selectors.fedcor import gaussian_process
from sortition.selectors.fedcor.posterior import Posterior

SLIPS = {
    "a pick stays in the sum": (
        Posterior,
        "condition",
        "self._s -= float(self.share[pick]) * x",
        "pass",
    ),
    "the posterior is not updated": (Posterior, "condition", "self._B -= np.outer(b, b)", "pass"),
    "the score is divided by the variance": (Posterior, "scores", "np.sqrt(np.where(uncertain", "(np.where(uncertain"),
    "Adam goes downhill": (fedcor, "ascend", "X += step_size", "X -= step_size"),
    "the determinant is left out": (
        gaussian_process.Likelihood,
        "gradient",
        " - self._weighted_sum @ precise",
        "",
    ),
    "samples are not discounted": (gaussian_process.Likelihood, "gradient", "(v * self.w[:, None]).T", "v.T"),
    "annealing never starts again": (fedcor.FedCor, "_learn", "state.chosen[:] = 0", "pass"),
    "one sample too few is used again": (
        fedcor.FedCor,
        "_fit",
        "state.recent_samples(1 + M)",
        "state.recent_samples(M)",
    ),
}


def test_the_twin_agrees_without_a_slip() -> None:
    assert agrees_with_the_literal_twin()


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, right, wrong = SLIPS[name]
    monkeypatch.setattr(owner, function, slipped(getattr(owner, function), right, wrong))
    assert not all(agrees_with_the_literal_twin(share, rounds=24) for share in (1.0, 0.7, 0.5))
