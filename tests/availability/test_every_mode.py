"""What holds for all modes, found by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.availability import ALIASES, Availability, discover, make, mode
from sortition.core.errors import InputError

CLIENTS = 40
SIZES = np.random.default_rng(0).integers(1, 500, CLIENTS)
COUNTS = np.random.default_rng(1).multinomial(20, np.full(10, 0.1), CLIENTS) * (
    np.arange(10) % 3 == np.arange(CLIENTS)[:, None] % 3
)
MATRIX = (np.random.default_rng(2).random((30, CLIENTS)) < 0.4).astype(int).tolist()


def bound(name: str, seed: int = 0, **parameters: Any) -> Availability:
    if name == "trace":
        parameters = {"matrix": MATRIX, **parameters}
    return make(name, clients=CLIENTS, seed=seed, sizes=SIZES, label_counts=COUNTS, **parameters)


@pytest.mark.parametrize("name", discover())
@given(rounds=st.lists(st.integers(0, 2000), min_size=2, max_size=8), seed=st.integers(0, 5))
def test_a_round_depends_on_seed_and_t_alone(name: str, rounds: list[int], seed: int) -> None:
    availability = bound(name, seed)
    asked = {t: availability.at(t) for t in rounds}
    for t in reversed(rounds):  # another order, another object
        again = bound(name, seed).at(t)
        assert again.shape == (CLIENTS,)
        assert again.dtype == bool
        assert (again == asked[t]).all()
        assert (availability.at(t) == asked[t]).all()


@pytest.mark.parametrize("name", discover())
def test_a_mask_is_the_callers_own(name: str) -> None:
    availability = bound(name)
    before = availability.at(3).copy()
    availability.at(3)[:] = False
    assert (availability.at(3) == before).all()


@pytest.mark.parametrize("name", [name for name in discover() if name not in ("always", "trace")])
def test_seeds_differ_and_frequencies_match_the_rates(name: str) -> None:
    rounds = 600
    availability = bound(name)
    can_repeat = "repeat" in type(availability.mode).model_fields
    parameters = {"repeat": False} if can_repeat else {}
    assert any((availability.at(t) != bound(name, 1).at(t)).any() for t in range(20))
    availability = bound(name, **parameters)
    seen = np.mean([availability.at(t) for t in range(rounds)], axis=0)
    rate = np.mean([availability.rates(t) for t in range(rounds)], axis=0)
    # independent draws: deviation ≤ 0.5/√600 ≈ 0.02; a chain of memory 0.8 varies (1 + 0.8)/(1 − 0.8) = 9 times as much
    slack = 5 * 0.5 * np.sqrt((9 if name in ("markov", "outages") else 1) / rounds)
    assert np.abs(seen - rate).max() < slack


@pytest.mark.parametrize("name", discover())
def test_a_state_that_is_held_lasts_for_so_many_rounds(name: str) -> None:
    plain, held = bound(name), bound(name, hold=10)
    for t in (0, 9, 10, 25, 299):
        drawn_in = t // 10 * 10
        assert (held.at(t) == plain.at(drawn_in)).all()
        if plain.rates(drawn_in) is not None:
            np.testing.assert_array_equal(held.rates(t), plain.rates(drawn_in))
    assert (bound(name, hold=1).at(7) == plain.at(7)).all()


@pytest.mark.parametrize("alias", ALIASES)
def test_the_papers_names(alias: str) -> None:
    assert (bound(alias).at(5) == bound(ALIASES[alias]).at(5)).all()
    assert bound(alias.lower()).mode == bound(alias).mode


def test_nobody_there_is_drawn_again_unless_told_otherwise() -> None:
    sizes = [10**6, 1]
    again, once = (make("less-data-first", clients=1, seed=0, sizes=[5], repeat=r) for r in (True, False))
    assert again.at(0).all()
    assert once.at(0).all()
    rare = make("lognormal", clients=3, seed=0, beta=0.999999)
    assert all(rare.at(t).any() for t in range(200))
    label = np.array([[1, 0]])  # its only client has rate 1 − β = 0.001
    assert all(make("YMF", clients=1, seed=0, label_counts=label, beta=0.999).at(t).any() for t in range(20))
    assert not any(
        make("YMF", clients=1, seed=0, label_counts=label, beta=0.999, repeat=False).at(t).any() for t in range(20)
    )
    assert not make("YMF", clients=1, seed=0, label_counts=label, beta=1.0).at(0).any()  # rate 0: nothing to wait for
    assert make("MDF", clients=2, seed=0, sizes=sizes).at(0)[0]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("lognrmal", {}, "Unknown availability 'lognrmal'.*Did you mean 'lognormal'"),
        ("lognormal", {"bta": 1}, "Unknown key 'bta'.*Did you mean 'beta'"),
        ("lognormal", {"beta": 1.0}, "availability lognormal.beta must be < 1"),
        ("label-cycle", {"beta": 1.5}, "≤ 1"),
        ("label-cycle", {"period": 0}, "≥ 1"),
        ("more-data-first", {"beta": -0.1}, "≥ 0"),
        ("markov", {"leave": 0.0, "join": 0.0}, "nobody ever comes or goes"),
        ("markov", {"leave": 1.1}, "≤ 1"),
        ("groups", {"table": [[0.1, 0.2], [0.3]]}, "one row per group"),
        ("groups", {"table": [[1.2]]}, r"made of rates in \[0, 1\]"),
        ("markov", {"hold": 0}, "availability markov.hold must be ≥ 1"),
        ("diurnal", {"zones": []}, "at least 1"),
        ("diurnal", {"peak": 24.0}, "< 24"),
        ("outages", {"by": "colour"}, "one of 'label', 'block' or 'random'"),
    ],
)
def test_mistakes_in_parameters(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound(name, **parameters)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "availability.clients must be a whole number ≥ 1; got 0."),
        ({"seed": -1}, "seed must be"),
        ({"sizes": [1, 2]}, "one row for each of 3 clients"),
        ({"sizes": [1, -2, 3]}, "finite and ≥ 0"),
        ({"label_counts": [1, 2, 3]}, "availability.label_counts"),
    ],
)
def test_mistakes_in_facts(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("always", **({"clients": 3, "seed": 0} | arguments))


def test_missing_facts_and_bad_rounds() -> None:
    with pytest.raises(InputError, match="availability more-data-first needs sizes"):
        make("MDF", clients=3, seed=0)
    with pytest.raises(InputError, match="availability groups by label needs label_counts"):
        make("groups", clients=3, seed=0)
    with pytest.raises(InputError, match=r"availability.t must be a whole number ≥ 0; got -1."):
        make("always", clients=3, seed=0).at(-1)


def test_parameters_without_a_federation() -> None:
    assert mode("SLN", beta=0.3).model_dump()["beta"] == 0.3
