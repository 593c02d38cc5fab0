from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Cohort, Guards, InputError, Needs, Population, Registrar, Selector, method
from sortition.selectors import load

SIZES = [10, 20, 30, 40]


@method
class Lopsided(Selector):
    """The first of the available weigh three times as much as the second; together half."""

    strata: bool = False

    def select(self, state, round):
        groups = [0, 1] if self.strata else None
        return Cohort(round.available[:2], [0.375, 0.125], groups=groups, notes={"mine": 1})


def cohort(guards, **options):
    return Registrar(Lopsided(**options), Population(SIZES), guards=guards).begin([1, 3], 2).cohort


def test_the_methods_own_weights_stand_unless_others_are_set():
    assert cohort(Guards()).weights.tolist() == [0.375, 0.125]


@pytest.mark.parametrize(("rule", "weights"), [("uniform", [0.25, 0.25]), ("size", [1 / 6, 1 / 3])])
def test_weights_by_a_common_rule_keep_the_mass(rule, weights):
    found = cohort(Guards(reweight=rule))
    assert found.weights == pytest.approx(weights)
    assert found.ids.tolist() == [1, 3]
    assert found.notes["mine"] == 1


def test_strata_do_not_hold_weights_that_they_did_not_make():
    assert cohort(Guards(), strata=True).groups is not None
    assert cohort(Guards(reweight="size"), strata=True).groups is None


def test_the_selector_learns_with_the_weights_that_were_used():
    seen = []

    @method
    class Listening(Selector):
        def select(self, state, round):
            return Cohort(round.available[:2], [0.9, 0.1])

        def observe(self, state, feedback):
            seen.append(feedback.cohort.weights.tolist())

    registrar = Registrar(Listening(), Population(SIZES), guards=Guards(reweight="uniform"))
    registrar.finish(registrar.begin(range(4), 2))
    assert seen == [[0.5, 0.5]]


def test_caps_on_sizes_hold_for_weights_too():
    registrar = Registrar(Lopsided(), Population([10, 10, 10, 1000]), guards=Guards(reweight="size", size_cap=2.0))
    assert registrar.begin([0, 3], 2).cohort.weights == pytest.approx([0.5 / 3, 1 / 3])


def test_weights_by_size_need_sizes_and_a_known_rule():
    with pytest.raises(InputError, match="must be another rule where sizes are unknown"):
        Registrar(Lopsided(), Population(n_clients=4), guards=Guards(reweight="size"))
    with pytest.raises(InputError, match=r"Guards\.reweight must be 'own' or 'size' or .* or 'fedau'; got 'sizes'"):
        Guards(reweight="sizes")


def test_a_selection_goes_on_with_its_own_rule(tmp_path):
    registrar = Registrar(Lopsided(), Population(SIZES), guards=Guards(reweight="size"))
    registrar.save(tmp_path / "saved.npz")
    assert Registrar.load(tmp_path / "saved.npz", Lopsided(), Population(SIZES)).guards.reweight == "size"


# -- fitted weights ----------------------------------------------------------------------------------------------------

COUNTS = [[9, 1], [1, 9], [8, 2], [30, 30]]


@method
class Labelled(Selector):
    """Chooses the first of the available, alike, and reads label counts."""

    @property
    def needs(self):
        return Needs(reads=("label_counts",))

    def select(self, state, round):
        return Cohort.uniform(round.available[: round.budget])


def fitted(counts, members, **options):
    population = Population(label_counts=counts)
    registrar = Registrar(Labelled(), population, guards=Guards(reweight="fitted", **options))
    return registrar.begin(members, len(members)).cohort


def test_fitted_weights_are_those_of_microcosms_first_round():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 30, (12, 4)) + 1
    population = Population(counts.sum(axis=1), counts)
    own = Registrar(load("microcosm", estimate=False), population).begin(range(12), 5).cohort
    assert fitted(counts, np.sort(own.ids)).weights == pytest.approx(own.weights[np.argsort(own.ids)], abs=1e-12)


def test_fitted_weights_bring_the_cohorts_labels_near_to_the_populations():
    counts = np.array([[90, 10], [90, 10], [10, 90], [50, 50], [10, 90]])
    weights = fitted(counts, [0, 1, 2]).weights
    assert weights.sum() == pytest.approx(1)
    assert weights[2] > 0.4  # alone with its label, against a third of the examples
    equal = fitted([[5, 5]] * 4, [0, 1, 2]).weights
    assert equal == pytest.approx([1 / 3] * 3)


def test_fitted_weights_of_clients_without_data_and_of_capped_ones_are_sound():
    assert np.isfinite(fitted([[0, 0], [3, 1], [1, 3]], [0, 1, 2]).weights).all()
    assert np.isfinite(fitted([[0, 0], [0, 0]], [0, 1]).weights).all()
    uncapped = fitted([[9, 1], [1, 9], [900, 900]], [0, 1, 2]).weights
    assert fitted([[9, 1], [1, 9], [900, 900]], [0, 1, 2], size_cap=1.0).weights[2] < uncapped[2]


def test_fitted_weights_are_refused_where_the_method_does_not_read_label_counts():
    with pytest.raises(InputError, match="another rule where the method does not read label counts, as Lopsided"):
        Registrar(Lopsided(), Population(label_counts=COUNTS), guards=Guards(reweight="fitted"))
    with pytest.raises(InputError, match="label counts"):
        Registrar(Labelled(), Population(SIZES), guards=Guards(reweight="fitted"))


def test_fitted_weights_know_clients_that_join():
    registrar = Registrar(Labelled(), Population(label_counts=COUNTS[:3]), guards=Guards(reweight="fitted"))
    before = registrar.begin([0, 1, 2], 3).cohort.weights
    registrar.join(Population(label_counts=COUNTS))
    after = registrar.begin([0, 1, 2], 3).cohort.weights
    assert after == pytest.approx(fitted(COUNTS, [0, 1, 2]).weights)
    assert not np.allclose(before, after)
