"""Each mode against its formula, round by round where it is periodic."""

from __future__ import annotations

import numpy as np
import pytest

from sortition.availability import _chain, _mode, make
from sortition.core.arrays import Floats
from sortition.core.streams import stream


def rates(name: str, t: int = 0, clients: int = 3, **parameters: object) -> Floats:
    mode_rates = make(name, clients=clients, seed=0, **parameters).rates(t)  # type: ignore[arg-type]
    assert mode_rates is not None
    return mode_rates


def labels(*held: set[int], classes: int = 10) -> np.ndarray:
    return np.array([[int(y in mine) for y in range(classes)] for mine in held])


def test_data_first() -> None:
    sizes = [100, 25, 1]
    assert np.allclose(rates("MDF", sizes=sizes, beta=0.5), [1, 0.5, 0.1])  # √(n / 100)
    assert np.allclose(rates("LDF", sizes=sizes, beta=0.5), [0.1, 0.2, 1])  # √(1 / n)
    assert np.allclose(rates("MDF", sizes=sizes, beta=0.0), 1)


def test_label_max_first() -> None:
    held = labels({0, 1}, {9}, {4, 7})
    assert np.allclose(rates("YMF", label_counts=held, beta=0.9), [0.1, 1.0, 0.9 * 4 / 9 + 0.1])


def test_label_cycle_gives_every_label_ten_of_a_hundred_rounds() -> None:
    held = labels({0}, {3, 7}, set(range(10)))
    table = np.stack([rates("YC", t, label_counts=held, beta=0.9) for t in range(200)])
    on = table == 1
    assert on[:100].sum(axis=0).tolist() == [10, 20, 100]
    assert np.allclose(table[~on], 0.1)
    # y/L < (1 + t)/100 ≤ (y + 1)/L: label 0 in rounds 0 … 9, label 3 in 30 … 39
    assert np.flatnonzero(on[:100, 0]).tolist() == list(range(10))
    assert np.flatnonzero(on[:100, 1]).tolist() == [*range(30, 40), *range(70, 80)]
    assert (table[:100] == table[100:]).all()


def test_label_cycle_with_another_period() -> None:
    held = labels({0}, {1}, {2}, classes=3)
    # r = 1/4, 2/4, 3/4, 1 against thirds: labels 0, 1, 2, 2
    on = [np.flatnonzero(rates("YC", t, label_counts=held, period=4) == 1).tolist() for t in range(4)]
    assert on == [[0], [1], [2], [2]]


def test_lognormal_law() -> None:
    mode_rates = rates("LN", clients=20_000, beta=0.5)
    assert mode_rates.max() == 1
    assert abs(np.log(mode_rates).std() - np.log(2)) < 0.02  # deviation of log c is ln 1/(1 − ½)


def test_lognormal_of_the_papers_tables() -> None:
    """The released code draws client after client from the legacy generator seeded with 21 + seed."""
    legacy = np.random.RandomState(21)
    c = np.array([legacy.lognormal(0, -np.log(1 - 0.5 - 1e-6)) for _ in range(30)])
    assert np.allclose(rates("LN", clients=30, legacy=True), c / c.max())
    assert np.allclose(rates("SLN", 0, clients=30, legacy=True), 0.5 * c / c.max())


@pytest.mark.parametrize(("t", "factor"), [(0, 0.5), (6, 0.899), (17, 0.101), (23, 0.5), (24, 0.5), (30, 0.899)])
def test_sine_lognormal_wave(t: int, factor: float) -> None:
    assert np.allclose(rates("SLN", t) / rates("LN"), factor, atol=5e-4)


@pytest.mark.parametrize(("leave", "join"), [(0.2, 0.1), (0.9, 0.8), (0.01, 0.03)])
def test_markov_moves_as_said_also_where_blocks_meet(leave: float, join: float) -> None:
    availability = make("markov", clients=4000, seed=3, leave=leave, join=join)
    masks = np.stack([availability.at(t) for t in range(240, 272)])  # across round 256
    on, to = masks[:-1], masks[1:]
    share = join / (leave + join)
    assert abs(masks.mean() - share) < 0.05
    left = (on & ~to).sum(axis=1) / on.sum(axis=1)
    joined = (~on & to).sum(axis=1) / (~on).sum(axis=1)
    # per round: binomial on about 4000 · share clients, five deviations
    assert np.abs(left - leave).max() < 5 * np.sqrt(leave * (1 - leave) / (4000 * share))
    assert np.abs(joined - join).max() < 5 * np.sqrt(join * (1 - join) / (4000 * (1 - share)))


def test_markov_remembers_over_several_rounds() -> None:
    """Correlation at lag 7 is (1 − leave − join)^7, wherever the two rounds lie."""
    availability = make("markov", clients=20_000, seed=0, leave=0.1, join=0.1)
    for t in (0, 61, 125, 252, 509):
        assert abs(np.corrcoef(availability.at(t), availability.at(t + 7))[0, 1] - 0.8**7) < 0.04


def test_markov_edges() -> None:
    flip = make("markov", clients=5, seed=1, leave=1.0, join=1.0)
    assert all((flip.at(t) == ~flip.at(t + 1)).all() for t in (0, 1, 255, 256, 700))
    assert make("markov", clients=5, seed=1, leave=0.0, join=0.5).at(300).all()
    assert not make("markov", clients=5, seed=1, leave=0.5, join=0.0).at(300).any()


def test_groups() -> None:
    held = labels({0}, {1}, {2})
    table = [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]
    assert rates("groups", 0, label_counts=held, table=table).tolist() == [0, 1, 0.5]
    assert rates("groups", 3, label_counts=held, table=table).tolist() == [1, 0, 0.5]
    assert rates("groups", 3, label_counts=held, table=table, rounds_per_slot=2).tolist() == [1, 0, 0.5]
    assert rates("groups", 4, label_counts=held, table=table, rounds_per_slot=2).tolist() == [0, 1, 0.5]
    # waves: group g of 2 is half a period ahead; sin(2π · 6/24) = 1
    assert np.allclose(rates("groups", 6, clients=2, groups=2, by="block", low=0.1, high=0.9), [0.9, 0.1])


def test_diurnal() -> None:
    day = {"zones": [0.0], "low": 0.1, "high": 0.5, "peak": 2.0}
    assert np.allclose(rates("diurnal", 2, **day), 0.5)
    assert np.allclose(rates("diurnal", 14, **day), 0.1)
    assert np.allclose(rates("diurnal", 2, **(day | {"zones": [-6.0]})), 0.3)  # six hours from the peak: halfway
    assert np.allclose(rates("diurnal", 1, **(day | {"rounds_per_day": 12})), 0.5)  # two hours a round
    # Monday 0:00 + 5 days is Saturday; a zone of +1 hour has it one round earlier
    assert np.allclose(rates("diurnal", 5 * 24 + 2, weekend=0.5, **day), 0.25)
    assert np.allclose(rates("diurnal", 5 * 24 - 1, weekend=0.0, **(day | {"zones": [1.0]})), 0)
    assert rates("diurnal", 5 * 24 - 1, weekend=0.0, **day).min() > 0
    assert np.allclose(rates("diurnal", 2, weekend=5.0, start_day=5, **day), 1)  # never above 1


def test_outages_take_whole_groups() -> None:
    availability = make("outages", clients=40, seed=0, groups=4, fail=0.2, repair=0.3)
    masks = np.stack([availability.at(t) for t in range(300)]).reshape(300, 4, 10)
    assert (masks == masks[:, :, :1]).all()
    assert 0.4 < masks.mean() < 0.8  # repair / (fail + repair) = 0.6
    assert len(np.unique(masks[:, :, 0].sum(axis=1))) > 2  # groups fail on their own


@pytest.mark.parametrize("name", ["LN", "SLN", "markov", "outages", "diurnal"])
def test_rounds_in_order_cost_one_draw_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []

    def counted(seed: int, purpose: str, t: int = 0) -> np.random.Generator:
        draws.append(t)
        return stream(seed, purpose, t)

    availability = make(name, clients=1000, seed=0)
    for module in (_chain, _mode):
        monkeypatch.setattr(module, "stream", counted)
    for t in range(100, 400):
        availability.at(t)
    assert len(draws) < 1.2 * 300  # a few rounds are drawn from others, of which some are drawn again
