"""Adversaries attack through the paths of honest clients, and nowhere else."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from tests.simulation.small import Scripted, world

from sortition.core import signals
from sortition.core.errors import InputError
from sortition.core.guards.settings import Guards
from sortition.core.questions import Measure
from sortition.selectors import load
from sortition.simulation import Attacks, Devices, Setup, run
from sortition.simulation.attacks import KINDS, Adversaries

EVERYBODY = np.arange(10)
SCALARS = (signals.LOSS, signals.BATCH_LOSS, signals.TRAINING_LOSS, signals.DISPERSION)
VECTORS = (signals.UPDATE, signals.BIAS_UPDATE, signals.HEAD_UPDATE, signals.STEP_GRADIENT, signals.UPDATE.sketch(3))


def mask(kind, strength=4.0, share=0.3):
    return world(attacks=Attacks(kind=kind, strength=strength, share=share))


def told(small_world, signal):
    return small_world.measure(small_world.initial, Measure(signal, EVERYBODY), 0).values


def test_adversaries_depend_on_the_seed_alone():
    one, other = (Adversaries(Attacks(kind=kind, share=0.3), 100, 7).ids for kind in ("loss", "sybil"))
    np.testing.assert_array_equal(one, other)
    assert one.size == 30
    assert not np.array_equal(one, Adversaries(Attacks(share=0.3), 100, 8).ids)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "los"}, "Unknown kind 'los'.*Did you mean 'loss'"),
        ({"share": 0.0}, r"Attacks.share must be a share in \(0, 1\); got 0.0"),
        ({"strength": float("inf")}, r"Attacks.strength must be > 0 and at most 1e\+15; got inf"),
        ({"strength": 1e300}, r"Attacks.strength must be > 0 and at most 1e\+15; got 1e\+300"),
        ({"strength": 0.0}, "Attacks.strength must be > 0"),
        ({"strength": True}, "Attacks.strength must be a number; got True"),
    ],
)
def test_bad_attacks_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Attacks(**wrong)


def test_a_table_of_a_study_does_not_take_true_for_a_factor():
    with pytest.raises(ValidationError, match=r"strength\n.*valid number"):
        TypeAdapter(Attacks).validate_python({"kind": "loss", "strength": True})


def test_sizes_that_no_population_holds_are_the_strengths_fault():
    """A client here has at most 17 examples: 17 · 1e15 > 2**53 ≈ 9.007e15, as whole numbers and as fractions."""
    with pytest.raises(InputError, match=r"Attacks\.strength must be smaller where sizes are claimed; got 1"):
        mask("size", 1e15).population()
    population = mask("size", 1e14).population()
    assert population.sizes.min() > 0
    assert population.sizes.max() <= 2**53


@pytest.mark.parametrize("kind", ["update", "loss", "latency"])
def test_the_strongest_lie_warns_of_nothing_and_leaves_the_model_finite(kind):
    small_world = mask(kind, 1e15)
    large = np.full((10, 3), 1e30, np.float32)  # times −1e15, beyond float32
    sent = small_world.adversaries.updates(EVERYBODY, large)
    assert np.isinf(sent[small_world.adversaries.ids]).all() == (kind == "update")
    simulation = run(Setup(small_world, load("power-of-choice"), 3, 3, evaluate_every=0))
    assert np.isfinite(simulation.params).all()


@pytest.mark.parametrize("signal", [*SCALARS, signals.DURATION, *VECTORS], ids=lambda s: s.name)
@pytest.mark.parametrize("kind", ["none", "loss", "latency", "update"])
def test_each_kind_lies_about_its_own_signals_by_its_strength(kind, signal):
    small_world = mask(kind)
    factor = np.ones(10)
    if kind == "loss" and signal in SCALARS:
        factor[small_world.adversaries.ids] = 4.0
    elif kind == "latency" and signal is signals.DURATION:
        factor[small_world.adversaries.ids] = 0.25
    elif kind == "update" and signal in VECTORS:
        factor[small_world.adversaries.ids] = -4.0
    truth = told(world(), signal)
    np.testing.assert_allclose(told(small_world, signal).T, (truth.T * factor), rtol=1e-5, atol=1e-7)
    reported = small_world.train(small_world.initial, EVERYBODY, [signal], 0).reports[signal.name]
    expected = world().train(small_world.initial, EVERYBODY, [signal], 0).reports[signal.name].values
    np.testing.assert_allclose(reported.values.T, expected.T * factor, rtol=1e-5, atol=1e-7)


def test_resources_are_claimed_like_durations():
    small_world = mask("latency")
    factor = np.where(small_world.adversaries.mask, 0.25, 1.0)
    truth = told(world(devices=Devices(bandwidth=100.0)), signals.RESOURCES)
    assert (truth > 0).all()
    small_world = small_world.variant(devices=Devices(bandwidth=100.0))
    np.testing.assert_allclose(told(small_world, signals.RESOURCES), truth * factor[:, None])


def test_crafted_updates_are_what_the_server_adds():
    small_world, honest = mask("update"), world()
    factor = np.where(small_world.adversaries.mask, -4.0, 1.0)[:, None]
    truth = honest.train(small_world.initial, EVERYBODY, [], 0).deltas
    np.testing.assert_allclose(
        small_world.train(small_world.initial, EVERYBODY, [], 0).deltas, truth * factor, rtol=1e-5, atol=1e-7
    )
    simulation = run(Setup(small_world, Scripted(cohort=tuple(range(10))), 10, 1))
    expected = small_world.initial + np.full(10, 0.1, np.float32) @ (truth * factor)
    np.testing.assert_allclose(simulation.params, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "adaptive"])  # test_adaptive.py
def test_facts_are_told_and_the_truth_stays(kind):
    small_world, honest = mask(kind), world().population()
    facts, adversaries = small_world.population(), small_world.adversaries.ids
    others = np.setdiff1d(EVERYBODY, adversaries)
    np.testing.assert_array_equal(facts.sizes[others], honest.sizes[others])
    np.testing.assert_array_equal(facts.label_counts[others], honest.label_counts[others])
    if kind == "size":
        np.testing.assert_array_equal(facts.sizes[adversaries], 4 * honest.sizes[adversaries])
        np.testing.assert_array_equal(facts.label_counts[adversaries], 4 * honest.label_counts[adversaries])
        np.testing.assert_array_equal(small_world.training_parts.sizes, honest.sizes)  # work and time are the true ones
    elif kind == "histogram":
        rarest = honest.label_counts.sum(axis=0).argmin()
        np.testing.assert_array_equal(facts.label_counts[adversaries, rarest], honest.sizes[adversaries])
        np.testing.assert_array_equal(facts.label_counts.sum(axis=1), honest.sizes)
        products = told(small_world, signals.PRODUCTS)
        np.testing.assert_array_equal(products, facts.label_counts @ facts.label_counts.T)
    elif kind == "sybil":
        np.testing.assert_array_equal(facts.sizes[adversaries], honest.sizes[adversaries[0]])
        assert np.unique(facts.groups[adversaries]).size == 1
        assert np.unique(facts.groups).size == 10 - adversaries.size + 1
    else:
        np.testing.assert_array_equal(facts.sizes, honest.sizes)


def captured(name, kind, guards=None, seeds=range(4), rounds=10, **parameters):
    """Share of places that three of ten adversaries hold."""
    places = []
    for seed in seeds:
        small_world = world(seed=seed, attacks=Attacks(kind=kind, share=0.3, strength=50.0))
        cohorts = []
        setup = Setup(
            small_world, load(name, **parameters), 3, rounds, seed=seed, guards=guards or Guards(), evaluate_every=0
        )
        run(setup, on_record=lambda _, record, kept=cohorts: kept.extend(record["cohort"]))
        places += [client in small_world.adversaries.ids for client in cohorts]
    return np.mean(places)


@pytest.mark.parametrize(
    ("name", "kind", "guards", "parameters"),
    [
        ("power-of-choice", "loss", Guards(winsorise=3.0, explore=0.4), {"d": 10}),
        ("by-size", "size", Guards(size_cap=2.0), {}),
        ("uniform", "sybil", Guards(quota=1), {}),
    ],
)
def test_lies_pay_and_guards_take_the_gain_away(name, kind, guards, parameters):
    honest, bare, guarded = (captured(name, *rest, **parameters) for rest in (("none",), (kind,), (kind, guards)))
    if kind == "sybil":
        assert guarded < bare - 0.05
    else:
        assert bare > honest + 0.2
        assert guarded < bare - 0.15
