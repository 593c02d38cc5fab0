from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference.greedyfed_literal import GreedyFed as Literal
from tests.reference.greedyfed_literal import shapley_by_permutations
from tests.simulation.small import parts, world

from sortition.core import InputError, Needs, Population, Registrar, Signal
from sortition.selectors import greedyfed, load
from sortition.simulation import Devices, Setup, run

N, M = 12, 3


def differs(seed, **parameters):
    """Whether a run is not the literal twin's; some members fall silent, some clients are away."""
    rng = np.random.default_rng(seed)
    twin = Literal(N, M, parameters.get("alpha"))
    registrar = Registrar(load("greedyfed", **parameters), Population(np.arange(1, N + 1)), seed=seed)
    for _ in range(30):
        ids = np.flatnonzero(rng.random(N) < 0.7)
        turn = registrar.begin(ids, M)
        if turn.cohort.ids.tolist() != twin.select(ids.tolist()):
            return True
        first = np.array([twin.c[k] == 0 for k in turn.cohort.ids])  # without a value they would tie
        done = turn.cohort.ids[first | (rng.random(turn.cohort.ids.size) < 0.8)]
        values = rng.normal(size=done.size)
        twin.update(turn.cohort.ids.tolist(), dict(zip(done.tolist(), values.tolist(), strict=True)))
        registrar.finish(turn, done, {"shapley": values})
    return False


VARIANTS = [{}, {"memory_of": "recent", "alpha": 0.5}, {"memory_of": "recent", "alpha": 0.0}]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_chooses_as_the_literal_twin(seed, parameters):
    assert not differs(seed, **parameters)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("observe", "1.0 - 1.0 / state.rounds[ids]", "1.0 / state.rounds[ids]"),
        ("observe", "state.chosen[feedback.cohort.ids] = True", "pass"),
        ("select", " values[tried_ids]", " -values[tried_ids]"),
    ],
)
def test_a_slip_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(greedyfed.GreedyFed, name, slipped(getattr(greedyfed.GreedyFed, name), right, wrong))
    assert any(differs(seed) for seed in range(3))


def test_everybody_is_tried_once_then_frozen_values_choose_the_same_for_ever():
    registrar, cohorts = Registrar(load("greedyfed"), Population(np.ones(N, int))), []
    for _ in range(8):
        turn = registrar.begin(np.arange(N), M)
        cohorts.append(turn.cohort.ids.tolist())
        registrar.finish(turn, None, {"shapley": turn.cohort.ids / 10})
    assert cohorts[:4] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert cohorts[4:] == [[11, 10, 9]] * 4


def test_values_that_are_rounding_only_tie():
    chosen = set()
    for seed in range(40):
        registrar = Registrar(load("greedyfed"), Population(np.ones(4, int)), seed=seed)
        registrar.state.chosen[:] = True
        registrar.state.value[:] = [0.01, 3e-17, -2e-17, 0.0]  # three that add nothing, up to the order of a sum
        chosen.add(tuple(registrar.begin(np.arange(4), 2).cohort.ids.tolist()))
    assert chosen == {(0, 1), (0, 2), (0, 3)}


def federation(**options):
    """A world whose server holds the last client's examples."""
    split = parts()
    return world(clients=split[:-1], validation=split[-1], **options)


def played(selector, rounds=4, own=None, cohort=M):
    records, seen = [], []

    class Watch:
        def begun(self, *_): ...
        def answered(self, *_): ...
        def joined(self, *_): ...
        def finished(self, turn, done, reports):
            seen.append((done, reports["shapley"]))

    from sortition.simulation import start

    setup = Setup(own or federation(), selector, cohort, rounds)
    carry = start(setup)
    carry.registrar.observer = Watch()
    run(setup, None, lambda c, r: records.append(r), carry)
    return records, seen


def test_the_simulator_values_updates_on_the_servers_own_examples():
    own, selector = federation(), load("greedyfed")
    records, seen = played(selector, 1, own)
    cohort, ids = records[0], seen[0][0]
    deltas = own.train(own.initial, ids, (), 0).deltas
    sizes = own.training_parts.sizes[ids].astype(float)

    def value(players):
        rows = sorted(players)
        share = sizes[rows] / sizes[rows].sum() if rows else np.empty(0)
        params = own.initial + (share[:, None] * deltas[rows]).sum(0).astype(np.float32) if rows else own.initial
        return -float(own.learner.passes.losses_and_hits(params, own.validation)[0].mean(dtype=np.float64))

    assert seen[0][1].values == pytest.approx(shapley_by_permutations(value, M), abs=1e-6)
    assert cohort["server_passes"] == 2**M * own.validation.size  # each subset once
    assert cohort["bytes"]["metadata"] == 4 * own.n_clients  # sizes; values do not travel
    assert cohort["passes"]["forward"] == 0


def test_permutations_come_near_to_the_exact_values_in_the_simulator():
    exact = played(load("greedyfed"), 1, cohort=5)[1][0][1].values
    drawn = played(load("greedyfed", exact=0, tolerance=0.0, turns=400), 1, cohort=5)[1][0][1].values
    assert drawn == pytest.approx(exact, abs=0.1 * np.abs(exact).max())


def test_late_updates_are_not_valued_and_a_round_without_updates_is_none():
    own = federation(devices=Devices(dropout=0.5))
    records, seen = played(load("greedyfed"), 8, own)
    assert all(done.tolist() == reading.ids.tolist() for done, reading in seen if done.size)
    assert any(record["answered"] is not None for record in records)


def test_a_server_without_examples_is_refused():
    with pytest.raises(InputError, match=r"World\.validation must be given where the server computes 'shapley' itself"):
        Setup(world(), load("greedyfed"), M, 2)
    with pytest.raises(InputError, match=r"World\.validation must be examples that no client holds"):
        world(validation=parts()[0])


def test_the_server_is_not_asked_while_choosing():
    with pytest.raises(InputError, match=r"Needs\.asks must be of signals of clients; got 'own'"):
        Needs(asks=(Signal("own", "server", lambda models, _: models.ids),))


def test_the_privacy_label_says_that_single_updates_are_seen():
    assert load("greedyfed").needs.individual
    assert load("greedyfed").needs.of_server[0].name == "shapley"


def test_losses_that_are_not_finite_count_as_bad_ones():
    class Broken:
        ids = np.array([3, 5])
        rng = None

        def loss(self, members):
            return np.nan if 5 in members else 1.0 - 0.5 * len(members)

    found = load("greedyfed").signal.of_cohort(Broken())
    assert np.isfinite(found).all()
    assert found[1] < 0 < found[0] + 1


def test_values_that_have_faded_away_still_choose_somebody():
    registrar = Registrar(load("greedyfed", memory_of="recent", alpha=0.1), Population([10] * 4))
    registrar.state.rounds[:], registrar.state.chosen[:] = 2, True
    registrar.state.value[:] = 1e-320
    assert registrar.begin(range(4), 2).cohort.ids.size == 2


def test_bad_parameters_are_named():
    with pytest.raises(InputError, match=r"GreedyFed\.alpha must be < 1; got 1\.0"):
        load("greedyfed", alpha=1.0)
