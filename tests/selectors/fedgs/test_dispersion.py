from __future__ import annotations

import json
from itertools import combinations, count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.reference.dispersion_instances import instance
from tests.reference.dispersion_optimum import optimum

from sortition.selectors.fedgs import dispersion
from sortition.selectors.fedgs.dispersion import disperse

PROVED = json.loads((Path(__file__).parents[2] / "reference" / "dispersion_optima.json").read_text())


def solve(gain, distance, weight, places, seed=0, **options):
    kind = np.arange(len(gain))
    return disperse(kind, gain, distance, weight, places, np.random.default_rng(seed), **options)


def value(members, gain, distance, weight):
    return gain[members].sum() + weight * sum(distance[i, j] for i, j in combinations(members, 2))


@pytest.mark.parametrize(("n", "places"), [(6, 1), (7, 3), (9, 8), (12, 4)])
@pytest.mark.parametrize("enumerated", [0, 3000])
def test_small_sets_are_the_best_of_all(n, places, enumerated, monkeypatch):
    """Enumeration and search agree with a plain loop over all sets."""
    monkeypatch.setattr(dispersion, "ENUMERATED", enumerated)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        distance = rng.random((n, n))
        distance = distance + distance.T
        gain = rng.normal(size=n)
        found = solve(gain, distance, 0.3, places, seed)
        best = max(value(list(S), gain, distance, 0.3) for S in combinations(range(n), places))
        assert found.solver == ("exact" if enumerated else "search")
        assert found.value == pytest.approx(best, abs=1e-9)
        assert value(found.members, gain, distance, 0.3) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("family", ["random", "two labels", "dirichlet", "synthetic"])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_proved_optimum_of_thirty(family, seed):
    gain, distance, weight = instance(family, 24 if family == "two labels" else 30, 6, seed)
    best, _ = optimum(gain, weight * distance, 6)
    assert solve(gain, distance, weight, 6, seed).value == pytest.approx(best, abs=1e-6)


def test_near_the_proved_optimum_of_a_hundred():
    """Mean gap ≤ 0.1 %, worst ≤ 1 %; optima proved by HiGHS (benchmarks/dispersion.py --prove)."""
    gaps = []
    for one in PROVED:
        gain, distance, weight = instance(one["family"], one["n"], one["places"], one["seed"])
        found = solve(gain, distance, weight, one["places"], one["seed"])
        assert value(np.array(one["members"]), gain, distance, weight) == pytest.approx(one["value"], abs=1e-6)
        gaps.append((one["value"] - found.value) / abs(one["value"]))
    assert len(gaps) >= 6
    assert np.mean(gaps) <= 0.001
    assert max(gaps) <= 0.01


def test_members_of_one_kind_are_one_node():
    """With kinds the solution is about as good as with every candidate a kind of its own, and its value is true."""
    rng = np.random.default_rng(0)
    for seed in range(8):
        kind = rng.integers(0, 5, 40)
        distance = rng.random((5, 5))
        distance = distance + distance.T
        gain = rng.normal(size=40) / 5
        full = distance[np.ix_(kind, kind)]
        by_kind = disperse(kind, gain, distance, 0.05, 7, np.random.default_rng(seed))
        assert by_kind.value == pytest.approx(solve(gain, full, 0.05, 7, seed).value, rel=1e-3)
        assert by_kind.value == pytest.approx(value(by_kind.members, gain, full, 0.05), abs=1e-9)


def improvable(seed):
    """Whether the search did not settle, or exchanging one member of what it found would gain.

    It has few starts, so that swaps have work to do, and time is counted in steps, so that no machine is too slow.
    """
    rng = np.random.default_rng(seed)
    kind, gain = rng.integers(0, 12, 40), rng.normal(size=40) / 20
    distance = rng.random((12, 12))
    distance = distance + distance.T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispersion, "time", SimpleNamespace(monotonic=count().__next__))
        found = disperse(kind, gain, distance, 0.05, 7, rng, starts=2, time_limit=1_000)
    if found.solver != "search":
        return True
    full = distance[np.ix_(kind, kind)]
    own = set(found.members.tolist())
    others = [own - {i} | {j} for i in own for j in range(40) if j not in own]
    return max(value(np.array(sorted(S)), gain, full, 0.05) for S in others) > found.value + 1e-9


def test_no_single_exchange_improves_what_is_found():
    assert not any(improvable(seed) for seed in range(12))


def test_ties_go_by_lot_and_the_seed_decides():
    drawn = {tuple(solve(np.zeros(20), np.ones((20, 20)), 0.1, 5, seed).members) for seed in range(10)}
    assert len(drawn) > 5
    again = solve(np.zeros(20), np.ones((20, 20)), 0.1, 5, 3)
    assert again.members.tolist() == solve(np.zeros(20), np.ones((20, 20)), 0.1, 5, 3).members.tolist()


def test_all_fit():
    found = solve(np.array([1.0, 2.0]), np.ones((2, 2)), 0.5, 5)
    assert (found.solver, found.value, found.members.tolist()) == ("all", 3.5, [0, 1])
