from __future__ import annotations

import pytest

from sortition.core import Cohort, Guards, InputError, Population, Registrar, Selector, method

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
