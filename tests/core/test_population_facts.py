"""What clients say of themselves is bounded, so that no method meets a number that it cannot add."""

import numpy as np
import pytest

from sortition.core import Guards, InputError, Population, Registrar, UndeclaredError
from sortition.core.population import LARGEST_COORDINATE, LARGEST_COUNT, check_row, total_examples
from sortition.selectors import discover, find
from sortition.testing.play import everybody, turns
from sortition.testing.worlds import ScriptedWorld

READERS = [name for name in discover() if any(find(name).load(**one).needs.reads for one in find(name).examples())]
SIZES = r"Population\.sizes must be at most 2\*\*53 examples a client; "
LABELS = r"Population\.label_counts must be at most "


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"sizes": [1.0, 1e307]}, SIZES + r"got 1e\+307 of client 1\. Leave its facts out"),
        ({"sizes": [2**53 + 2, 1]}, SIZES + r"got 9\.0072e\+15 of client 0"),
        ({"sizes": np.array([1, 2**64 - 1], np.uint64)}, SIZES + ".* of client 1"),
        ({"label_counts": [[1, 1], [2**52, 2**52 + 2]]}, LABELS + ".* of client 1"),
        ({"label_counts": [[1e308, 1e308], [1, 1]]}, LABELS + ".*; got inf of client 0"),
        ({"label_counts": np.full((2, 4), 2**62)}, LABELS),  # in 64 bits the total, 2**64, is 0
        (
            {"features": [[0.0, -1e101], [1.0, 1.0]]},
            r"Population\.features must be within ±1e\+100; got 1e\+101 of client 0",
        ),
        ({"sizes": [1, 2], "label_counts": [[1], [1, 2]]}, r"Population\.label_counts must be an array, all its rows"),
    ],
)
def test_absurd_facts_are_refused_with_the_client(facts, sentence):
    with pytest.raises(InputError, match=sentence):
        Population(**facts)


def test_facts_of_clients_that_are_not_known_may_be_anything():
    told = Population([5.0, 1e308, 7.0], [[5.0, 0.0], [1e308, 1e308], [3.0, 4.0]], known_ids=[0, 2])
    assert told.known_ids.tolist() == [0, 2]
    with pytest.raises(InputError, match="of client 2"):
        Population([5.0, 1e308, 1e308], known_ids=[0, 2])
    Registrar(find("uniform").load(), told, guards=Guards(size_cap=2))  # caps do not look at them either


def test_the_largest_is_let_in():
    assert Population([LARGEST_COUNT, 1]).sizes[0] == 2**53
    assert total_examples(np.array([[2**52, 2**52]]))[0] == LARGEST_COUNT


@pytest.mark.parametrize(
    ("name", "row", "sentence"),
    [
        ("sizes", 1e308, r"profile\.sizes must be at most 2\*\*53 examples a client; got 1e\+308\."),
        ("sizes", [1, 2], r"profile\.sizes must be of shape \(1,\)"),
        ("sizes", -1, r"profile\.sizes must be ≥ 0; got -1"),
        ("label_counts", [1e308, 1e308], r"profile\.label_counts must be at most"),
        ("label_counts", [[1], [1, 2]], r"profile\.label_counts must be an array"),
        ("features", [np.nan], r"profile\.features must be finite"),
        ("groups", 0.5, r"profile\.groups must be whole numbers"),
    ],
)
def test_one_client_can_be_refused_alone(name, row, sentence):
    with pytest.raises(InputError, match=sentence):
        check_row(name, row, "profile")


def test_one_sound_client_passes():
    for name, row in (("sizes", 10), ("label_counts", [1, 2]), ("features", [0.5, 1e99]), ("groups", 3)):
        check_row(name, row, "profile")


@pytest.mark.parametrize("cap", [0.0, 3.0])
@pytest.mark.parametrize("name", READERS)
def test_every_method_bears_the_largest_claim_among_ordinary_ones(name, cap):
    """Cohorts come out, and weights are finite and add up to 1 where they do among ordinary clients."""
    world, guards = ScriptedWorld(16), Guards(size_cap=cap)
    kind = np.float64 if cap else np.int64
    facts = {fact: np.array(getattr(world.population, fact)) for fact in world.population.facts}
    facts |= {fact: facts[fact].astype(kind) for fact in ("sizes", "label_counts")}
    facts["sizes"][3], facts["features"][3] = LARGEST_COUNT, LARGEST_COORDINATE
    facts["label_counts"][3] = LARGEST_COUNT // facts["label_counts"].shape[1]
    loud = Population(**facts)
    for parameters in find(name).examples():
        usual, played = (
            [turn.cohort for turn in turns(registrar, world, 2, 4, everybody(world))]
            for registrar in (
                Registrar(find(name).load(**parameters), population, horizon=2, guards=guards)
                for population in (world.population, loud)
            )
        )
        for before, cohort in zip(usual, played, strict=True):
            assert cohort.ids.size > 0
            assert np.isfinite(cohort.weights).all()
            assert cohort.weights.sum() > 0
            if before.mass == "one" and np.isclose(before.weights.sum(), 1.0):
                assert np.isclose(cohort.weights.sum(), 1.0)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("by-size", {}), ("clustered", {"by": "size"}), ("full", {}), ("power-of-choice", {}), ("uniform", {})],
)
def test_totals_beyond_64_bits_are_borne(name, parameters):
    """2,048 such clients: together 2**64, which is 0 as a whole number of 64 bits."""
    world = ScriptedWorld(2048)
    population = Population(np.full(2048, LARGEST_COUNT))
    registrar = Registrar(find(name).load(**parameters), population, horizon=2)
    for turn in turns(registrar, world, 2, 10, everybody(world)):
        assert turn.cohort.weights.sum() == pytest.approx(1.0)
        assert turn.cohort.weights.max() < 1


def test_facts_of_ones_own_are_read_by_their_names():
    people = Population([3, 4], battery=[0.5, 0.9], place=[[1, 2], [3, 4]])
    assert people.facts == ("sizes", "battery", "place")
    assert people.battery.tolist() == [0.5, 0.9]
    assert people.place.shape == (2, 2)
    view = people.disclose(("battery",), "Mine")
    assert view.battery[1] == 0.9
    with pytest.raises(UndeclaredError, match=r"Mine read population\.place"):
        _ = view.place
    with pytest.raises(InputError, match=r"population\.speed must be given"):
        _ = people.speed


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"battery": [0.5]}, r"Population\.battery must be of shape \(2,\)"),
        ({"battery": [0.5, np.nan]}, r"Population\.battery must be finite"),
        ({"battery": ["full", "empty"]}, r"Population\.battery must be numbers"),
        ({"size": [1, 2]}, "Unknown population fact 'size'; Population has sizes, .*Did you mean 'sizes'"),
        ({"facts": [1, 2]}, "Unknown population fact 'facts'"),
    ],
)
def test_unsound_facts_of_ones_own_are_refused(facts, sentence):
    with pytest.raises(InputError, match=sentence):
        Population(n_clients=2, **facts)
