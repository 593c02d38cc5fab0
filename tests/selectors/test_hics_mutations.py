"""The comparisons with the literal twins can fail: each of these slips in the fast code is caught by them."""

from __future__ import annotations

import pytest
from tests.mutations import slipped
from tests.selectors import test_clustered, test_hics

from sortition.selectors import clustered, hics
from sortition.selectors._parts import bins, linkage

HICS = [
    (hics, "entropy_estimate", "/ temperature", "* temperature"),
    (hics, "entropy_estimate", "np.log(total) -", "np.log(total) +"),
    (
        hics,
        "selection_odds",
        "np.bincount(groups, entropy) / group_sizes",
        "np.bincount(groups, entropy)",
    ),  # sum, not mean
    (hics, "selection_odds", "inside / np.maximum(total, 1e-300)[groups]", "inside / inside.sum()"),  # π is lost
    (linkage, "build_tree", '"ward"))', '"complete"))'),
    (linkage, "gaps_between", "np.arccos(cosine, out=cosine)", "1 - cosine"),
    (linkage, "tree_groups", "np.abs(offset[leaves, None] - offset[leaves])", "0"),  # without λ|ΔĤ|
]
CLUSTERED = [
    (bins, "fill_bins_by_size", "np.argsort(-sizes", "np.argsort(sizes"),  # the smallest first
    (
        bins,
        "_fill_shared_bins",
        "np.lexsort((lowest_member, group_mass))",
        "np.lexsort((lowest_member, -group_mass))",
    ),  # the lightest open bins
    (bins, "remaining_mass", "(m * sizes) % int(sizes.sum())", "m * sizes"),  # large clients go on with all their mass
    (
        linkage,
        "cut_to_mass",
        "subtree_mass[first] + subtree_mass[second]",
        "np.maximum(subtree_mass[first], subtree_mass[second])",
    ),
    (linkage, "directions", "units[:, -1] = zero", "units[:, -1] = 0"),  # a zero update at π/2 from its like
]


def put(monkeypatch, module, name, wrong):
    """Replace a function wherever the two methods and their parts have it."""
    for place in (module, hics, clustered, linkage, bins):
        if hasattr(place, name):
            monkeypatch.setattr(place, name, wrong)


def fails(check):
    """A slip that leads into an error is caught as well."""
    try:
        return check()
    except (IndexError, ValueError) as error:
        return str(error) or repr(error)


@pytest.mark.parametrize(("module", "name", "right", "wrong"), HICS, ids=[f"{p[1]}-{i}" for i, p in enumerate(HICS)])
def test_a_slip_in_hics_is_caught(module, name, right, wrong, monkeypatch):
    put(monkeypatch, module, name, slipped(getattr(module, name), right, wrong))
    assert any(fails(lambda seed=seed: test_hics.agree(seed, rounds=8)) for seed in range(2))


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("select", "round.index < -(-", "round.index < -1 + -(-"),  # a warm-up of ⌈N/K⌉ − 1 rounds
        ("_draw", "(round.index + 1) / round.horizon", "round.index / round.horizon"),
        ("observe", "if len(rows):", "if len(rows) and feedback.round.index < 5:"),  # frozen after warm-up, as released
    ],
)
def test_a_slip_in_a_method_of_hics_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(hics.HiCS, name, slipped(getattr(hics.HiCS, name), right, wrong))
    assert any(fails(lambda seed=seed: test_hics.agree(seed, rounds=8)) for seed in range(2))


@pytest.mark.parametrize(
    ("module", "name", "right", "wrong"), CLUSTERED, ids=[f"{p[1]}-{i}" for i, p in enumerate(CLUSTERED)]
)
def test_a_slip_in_clustered_sampling_is_caught(module, name, right, wrong, monkeypatch):
    put(monkeypatch, module, name, slipped(getattr(module, name), right, wrong))
    assert any(fails(lambda s=seed, x=large: test_clustered.agree(s, large=x)) for seed in range(8) for large in (0, 1))
