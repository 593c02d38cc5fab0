"""What guards promise: nothing for honest clients, bounds for liars, a floor for everybody else."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sortition.core import LOSS, UPDATE, Cohort, Guards, Measure, Needs, Population, Registrar, Selector, State, method
from sortition.core.cohort import Round
from sortition.core.errors import InputError, StorageError
from sortition.core.guards.answer_screening import row_norms, screen, winsorise
from sortition.core.guards.eligibility_and_quarantine import cap_facts, draw_within_quota
from sortition.core.guards.exploration import add_explorers
from sortition.core.questions import Reading
from sortition.core.streams import stream
from sortition.selectors import discover, find, load
from sortition.testing.play import AnswerFaults, play, share_of, turns
from sortition.testing.worlds import ScriptedWorld

NORMS = st.lists(st.floats(0.1, 10.0), min_size=3, max_size=30)


@method
class Believer(Selector[State]):
    """Asks everybody for the loss and believes it: the selector that a liar wants."""

    @property
    def needs(self):
        """Loss, sizes and updates."""
        return Needs(reads=("sizes",), asks=(LOSS,), reports=(UPDATE,))

    def select(self, state, round):
        """The largest losses."""
        loss = yield Measure(LOSS, round.available)
        return Cohort.by_size(loss.largest(round.budget), round.population.sizes)


def population(n=20, **facts):
    return Population(np.full(n, 10), **facts)


def turn_of(registrar, losses, budget=4):
    turn = registrar.begin(np.arange(len(losses)), budget)
    if turn.question is not None:
        turn.answer(Reading(turn.question.ids, np.asarray(losses, float)[turn.question.ids]))
    return turn


class TestConfiguration:
    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"bound": -1.0}, "Guards.bound must be a number ≥ 0"),
            ({"bound": float("nan")}, "Guards.bound must be a number ≥ 0"),
            ({"norm": 1.5}, r"Guards.norm must be 0 \(off\) or ≥ 2"),
            ({"strikes": 0}, "Guards.strikes must be ≥ 1"),
            ({"quarantine": 1.5}, "Guards.quarantine must be a whole number ≥ 0"),
            ({"size_cap": 0.5}, r"Guards.size_cap must be 0 \(off\) or ≥ 1"),
            ({"explore": 1.01}, r"Guards.explore must be a share in \[0, 1\]"),
            ({"quota": 2.5}, "Guards.quota must be a whole number of places, or a share below 1"),
            ({"minimum": True}, "Guards.minimum must be a whole number"),
            ({"explore": True}, "Guards.explore must be a number ≥ 0; got True"),
            ({"quarantine": 2**63 - 1}, r"Guards.quarantine must be at most 2\*\*53; got 9223372036854775807"),
            ({"size_limit": 10**400}, r"Guards.size_limit must be at most 2\*\*53"),
            ({"norm": 10**400}, "Guards.norm must be finite"),
            ({"winsorise": float("inf")}, "Guards.winsorise must be finite"),
        ],
    )
    def test_bad_guards_are_refused(self, wrong, told):
        with pytest.raises(InputError, match=told):
            Guards(**wrong)

    @pytest.mark.parametrize(
        ("wrong", "told"), [({"explore": True}, "valid number"), ({"strikes": True}, "valid integer")]
    )
    def test_a_table_of_a_study_does_not_take_true_for_a_number(self, wrong, told):
        with pytest.raises(ValidationError, match=told):
            TypeAdapter(Guards).validate_python(wrong)
        assert TypeAdapter(Guards).validate_python({"explore": 1, "quota": 2}) == Guards(explore=1.0, quota=2)

    def test_the_longest_quarantine_is_served(self):
        registrar = Registrar(Believer(), population(6), guards=Guards(strikes=1, quarantine=2**53))
        registrar.finish(turn_of(registrar, [np.nan, 1, 1, 1, 1, 1]))
        assert registrar.begin(np.arange(6), 4).guarded == {"quarantined": 1}

    def test_what_differs_from_the_defaults_is_told_and_enough(self):
        guards = Guards(norm=0, quota=2, explore=0.1)
        assert guards.changed() == {"norm": 0.0, "explore": 0.1, "quota": 2.0}
        assert Guards(**guards.changed()) == guards
        assert Guards().changed() == {}

    def test_a_quota_needs_owners_and_a_minimum_a_budget(self):
        with pytest.raises(InputError, match=r"Guards.quota must be 0 where owners are unknown.*groups"):
            Registrar(load("uniform"), population(), guards=Guards(quota=1))
        registrar = Registrar(load("uniform"), population(), guards=Guards(minimum=5))
        with pytest.raises(InputError, match=r"Guards.minimum must be at most the budget, 4; got 5"):
            registrar.begin(np.arange(20), 4)
        with pytest.raises(InputError, match=r"Registrar.guards must be a Guards"):
            Registrar(load("uniform"), population(), guards={"explore": 0.1})

    @pytest.mark.parametrize("share", [0.25, 0.3, 0.1])
    def test_places_of_an_owner(self, share):
        assert Guards(quota=share).places_per_owner(10) == max(1, int(share * 10))
        assert Guards(quota=3).places_per_owner(10) == 3

    @pytest.mark.parametrize("name", discover())
    def test_no_honest_client_notices_the_defaults(self, name):
        off = Guards(**{item.name: 0 for item in fields(Guards) if item.name not in ("strikes", "reweight")})
        world = ScriptedWorld()
        for parameters in find(name).examples()[:1]:
            selector = find(name).load(**parameters)
            runs = [Registrar(selector, world.population, horizon=4, guards=g) for g in (None, off)]
            for default, without in zip(*(turns(r, world, 4, 4, share_of(world, 0.6)) for r in runs), strict=True):
                assert default.cohort.ids.tolist() == without.cohort.ids.tolist()
                assert default.cohort.weights.tolist() == without.cohort.weights.tolist()
                assert default.guarded == {}
                assert "guards" not in default.cohort.notes


class TestBounds:
    @given(NORMS, st.floats(2, 1000))
    def test_only_what_exceeds_c_medians_is_refused(self, values, c):
        found = Guards(norm=c, bound=0).find_refused(np.array(values))
        assert set(found) == {k for k, v in enumerate(values) if v > c * float(np.median(values))}

    @given(NORMS, st.floats(1e4, 1e300, exclude_min=True))
    def test_a_huge_norm_is_refused_however_the_others_look(self, values, huge):
        found = Guards(norm=1000).find_refused(np.array([*values, huge]))
        assert found == {len(values): "norm above 1e+15" if huge > 1e15 else "norm above 1000 times the median"}

    @given(NORMS)
    def test_a_minority_of_liars_cannot_make_itself_the_measure(self, values):
        liars = [1e9] * ((len(values) - 1) // 2)
        assert set(Guards(norm=1000).find_refused(np.array(values + liars))) == {
            k + len(values) for k in range(len(liars))
        }

    def test_zeros_are_no_measure_and_few_rows_have_no_outlier(self):
        assert Guards(norm=10).find_refused(np.array([0.0, 0.0, 0.0, 5.0])) == {}
        assert Guards(norm=2).find_refused(np.array([0.0, 5.0])) == {}
        assert Guards().find_refused(np.empty(0)) == {}
        assert Guards(bound=0, norm=0).find_refused(np.array([1e300, np.nan, np.inf])) == {
            1: "not finite",
            2: "not finite",
        }

    def test_norms_do_not_overflow_where_rows_are_finite(self):
        rows = np.array([[3e30, 4e30], [np.nan, 1], [np.inf, 1], [3, 4], [0, 0]], np.float32)
        found = row_norms(rows)
        np.testing.assert_allclose(found[[0, 3, 4]], [5e30, 5, 0], rtol=1e-6)
        assert not np.isfinite(found[[1, 2]]).any()
        assert row_norms(np.array([[-2.0]])).tolist() == [2.0]

    def test_an_absurd_row_stays_out_and_the_others_come_in(self):
        rows = {0: [1.0, 1.0], 1: [1e7, 0.0], 2: [2.0, 0.0], 3: [np.nan, 0.0], 4: [0.0, 1.0]}
        reading, rejected, *_ = screen(UPDATE, rows, np.arange(5), None, Guards(norm=100))
        assert reading.ids.tolist() == [0, 2, 4]
        assert rejected == {1: "norm above 100 times the median", 3: "not finite"}

    def test_negative_losses_have_no_say_in_the_median(self):
        # the median of 1, 1, 50 is 1, that of 1, 1, 50, 40, 40 would be 40
        values = np.array([1.0, 1.0, 50.0, -40.0, -40.0])
        reading, rejected, *_ = screen(LOSS, Reading(np.arange(5), values), np.arange(5), None, Guards(norm=10))
        assert reading.ids.tolist() == [0, 1]
        assert rejected == {2: "norm above 10 times the median", 3: "negative", 4: "negative"}


class TestWinsorised:
    @given(NORMS, st.floats(0.5, 5), st.integers(0, 10))
    def test_honest_order_is_kept_and_liars_are_cut_to_the_bar(self, values, limit, liars):
        n = len(values)
        told = np.array([*values, *[1e12] * min(liars, (n - 1) // 2)])
        reading, clipped = winsorise(Reading(np.arange(told.size), told), limit)
        middle = np.median(told)
        bar = middle + limit * (1.4826 * np.median(np.abs(told - middle)) or middle)
        np.testing.assert_array_equal(reading.values, np.minimum(told, bar))
        assert clipped == (told > bar).sum()
        # breakdown ½: median and MAD stay inside the honest range, so the bar does
        assert reading.values.max() <= max(values) + limit * 1.4826 * max(values) * 2

    def test_by_hand(self):
        # median 3, deviations 2 1 0 1 97: MAD 1; bar 3 + 2 · 1.4826
        reading, clipped = winsorise(Reading(np.arange(5), np.array([1.0, 2, 3, 4, 100])), 2.0)
        assert reading.values.tolist() == [1, 2, 3, 4, 3 + 2 * 1.4826]
        assert clipped == 1
        alike, clipped = winsorise(Reading(np.arange(4), np.array([2.0, 2, 2, 100])), 2.0)
        assert alike.values.tolist() == [2, 2, 2, 6]  # the median is the scale
        assert winsorise(Reading(np.arange(3), np.array([0.0, 0, 1])), 2.0)[1] == 0

    def test_losses_are_clipped_before_the_selector_sees_them_and_noted(self):
        registrar = Registrar(Believer(), population(6), guards=Guards(winsorise=2.0))
        turn = turn_of(registrar, [1, 2, 3, 4, 100, 100], budget=3)
        assert turn.guarded["winsorised"] == 2
        assert turn.cohort.notes["guards"] == turn.guarded
        registrar.finish(turn, reports={"update": np.ones((3, 2)) * 5})  # vectors are left alone
        assert turn.guarded["winsorised"] == 2


class TestQuarantine:
    guards = Guards(strikes=2, quarantine=3)

    def strike(self, registrar, n=6):
        losses = np.ones(n)
        losses[5] = np.nan
        turn = turn_of(registrar, losses, budget=2)
        registrar.finish(turn)
        return turn

    def test_after_k_unsound_reports_a_client_sits_out_c_rounds(self):
        registrar = Registrar(Believer(), population(6), guards=self.guards)
        asked = [5 in self.strike(registrar).round.available for _ in range(10)]
        #      strike strike | out out out | strike strike | out out out
        assert asked == [True, True, False, False, False, True, True, False, False, False]
        assert registrar.strikes.tolist() == [0, 0, 0, 0, 0, 4]

    def test_it_is_noted_while_it_lasts(self):
        registrar = Registrar(Believer(), population(6), guards=self.guards)
        told = [self.strike(registrar).guarded for _ in range(6)]
        assert told == [{}, {}, {"quarantined": 1}, {"quarantined": 1}, {"quarantined": 1}, {}]

    def test_an_unsound_update_is_a_strike_too(self):
        registrar = Registrar(Believer(), population(6), guards=Guards(strikes=1, quarantine=2))
        turn = turn_of(registrar, [1, 2, 3, 4, 5, 6], budget=2)
        turn.blame({5: "not finite"})
        registrar.finish(turn, [4])
        assert registrar.begin(np.arange(6), 2).round.available.tolist() == [0, 1, 2, 3, 4]

    def test_it_survives_a_restart_and_newcomers(self, tmp_path):
        registrar = Registrar(Believer(), population(6), guards=self.guards)
        for _ in range(3):
            self.strike(registrar)
        registrar.save(tmp_path / "a.npz")
        again = Registrar.load(tmp_path / "a.npz", Believer(), population(8))
        assert again.guards == self.guards  # those of the snapshot
        again.join(population(10))
        assert 5 not in turn_of(again, np.ones(10)).round.available
        assert again.eligibility.quarantined_until.tolist() == [0, 0, 0, 0, 0, 5, 0, 0, 0, 0]
        with pytest.raises(StorageError, match=r"guards.quarantine was 3, is absent; guards.strikes was 2, is absent"):
            Registrar.load(tmp_path / "a.npz", Believer(), population(8), guards=Guards())

    def test_without_it_strikes_are_only_counted(self):
        registrar = Registrar(Believer(), population(6))
        assert all(5 in self.strike(registrar).round.available for _ in range(7))


class TestCaps:
    def test_sizes_and_counts_by_hand(self):
        # median size of those who have data: 10; cap 2 · 10
        held = Population(np.array([0, 10, 5, 10, 4000]), [[0, 0], [10, 0], [5, 0], [0, 10], [3000, 1000]])
        shown, cut = cap_facts(held, Guards(size_cap=2))
        assert shown["sizes"].tolist() == [0, 10, 5, 10, 20]
        assert shown["label_counts"].tolist() == [[0, 0], [10, 0], [5, 0], [0, 10], [15, 5]]  # the same mixture
        assert cut.tolist() == [False] * 4 + [True]
        assert shown["sizes"].dtype == held.sizes.dtype
        assert cap_facts(held, Guards(size_limit=7))[0]["sizes"].tolist() == [0, 7, 5, 7, 7]
        assert cap_facts(held, Guards(size_cap=3, size_limit=12))[0]["sizes"].tolist() == [0, 10, 5, 10, 12]
        assert cap_facts(held, Guards())[0] == {}
        idle = Population(np.array([0, 0, 0, 0, 10, 10, 4000]))  # those without data have no say
        assert cap_facts(idle, Guards(size_cap=2))[0]["sizes"].tolist() == [0, 0, 0, 0, 10, 10, 20]

    def test_unknown_rows_are_neither_read_nor_changed(self):
        held = Population(np.array([np.nan, 1.0, 2.0, 30.0]), known_ids=[1, 2, 3])
        shown, cut = cap_facts(held, Guards(size_cap=2))
        assert shown["sizes"][1:].tolist() == [1, 2, 4]
        assert cut.tolist() == [False, False, False, True]

    @given(st.lists(st.integers(1, 10**6), min_size=3, max_size=20))
    def test_nobody_weighs_more_than_the_cap_allows(self, sizes):
        registrar = Registrar(load("uniform"), Population(sizes), guards=Guards(size_cap=1))
        cohort = registrar.begin(np.arange(len(sizes)), len(sizes)).cohort
        held = np.minimum(sizes, np.floor(np.median(sizes)))
        np.testing.assert_allclose(cohort.weights, held / held.sum())

    def test_who_was_cut_down_is_noted_when_chosen(self):
        registrar = Registrar(load("full"), Population([10, 10, 1000]), guards=Guards(size_cap=2))
        assert registrar.begin([0, 1, 2], 3).guarded == {"capped": 1}
        assert registrar.begin([0, 1], 3).guarded == {}


class TestQuota:
    @given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 4), st.integers(0, 99))
    def test_each_owner_keeps_min_of_its_clients_and_the_quota(self, owners, places, seed):
        owner = np.unique(owners, return_inverse=True)[1]
        ids = np.arange(len(owners)) * 3
        kept = ids[draw_within_quota(owner, places, stream(seed, "test"))]
        assert (np.diff(kept) > 0).all()
        counts = np.bincount(owner[kept // 3], minlength=owner.max() + 1)
        np.testing.assert_array_equal(counts, np.minimum(np.bincount(owner), places))

    def test_every_client_of_an_owner_has_the_same_chance(self):
        seen = np.zeros(10)
        for t in range(1000):
            seen[draw_within_quota(np.repeat([0, 1], [8, 2]), 2, stream(t, "test"))] += 1
        assert (seen[8:] == 1000).all()
        np.testing.assert_allclose(seen[:8] / 1000, 2 / 8, atol=4 * np.sqrt(0.25 * 0.75 / 1000))

    def test_sybils_get_no_more_than_one_of_them_would(self):
        n = 200  # owner 7 runs 150 clients, and all of them lie
        owners = np.where(np.arange(n) < 50, np.arange(n) + 100, 7)
        registrar = Registrar(Believer(), population(n, groups=owners), guards=Guards(quota=0.2))
        losses = np.where(owners == 7, 100.0, 1.0)
        turn = turn_of(registrar, losses, budget=10)
        assert (owners[turn.cohort.ids] == 7).sum() == 2
        assert turn.cohort.ids.size == 10
        assert turn.guarded["thinned"] == 148

    def test_explorers_keep_to_it(self):
        owners = np.where(np.arange(60) < 10, np.arange(60) + 100, 7)
        for seed in range(50):
            registrar = Registrar(load("uniform"), population(60, groups=owners), seed=seed, guards=GUARDED)
            assert (owners[registrar.begin(np.arange(60), 6).cohort.ids] == 7).sum() <= 1


GUARDED = Guards(quota=1, explore=0.5)


def round_of(n, budget, t=0):
    return Round(t, None, np.arange(n), budget, population(n), stream(0, "unused"))


class TestExploration:
    def test_the_expected_share_is_exact(self):
        # ε K = 0.7 and 2.5: ⌊ε K⌋ in most rounds would be wrong, E[⌊ε K + U⌋] = ε K
        for share, expected in ((0.07, 0.7), (0.25, 2.5)):
            cohort = Cohort.uniform(np.arange(10))
            sizes = [add_explorers(cohort, round_of(1000, 10), share, stream(t, "test"))[1].size for t in range(1500)]
            assert set(sizes) == {int(expected), int(expected) + 1}
            assert abs(np.mean(sizes) - expected) < 4 * 0.5 / np.sqrt(1500)

    @settings(max_examples=200)
    @given(
        n=st.integers(1, 40),
        budget=st.integers(1, 12),
        share=st.floats(0.01, 1),
        size=st.integers(0, 12),
        strata=st.booleans(),
        seed=st.integers(0, 1000),
        data=st.data(),
    )
    def test_rules_of_a_cohort(self, n, budget, share, size, strata, seed, data):
        size = min(size, budget, n)
        ids = np.random.default_rng(seed).permutation(n)[:size]
        weights = data.draw(st.lists(st.floats(0, 3), min_size=size, max_size=size))
        groups = ids % 3 if strata else None
        before = Cohort(ids, weights, groups=groups)
        after, lot = add_explorers(before, round_of(n, budget), share, stream(seed, "test"))
        assert after.ids.size <= budget
        assert np.unique(after.ids).size == after.ids.size
        assert np.isin(after.ids, np.arange(n)).all()
        if lot.size == 0:
            assert after is before
            return
        assert np.isin(after.ids, np.union1d(ids, lot)).all()
        total = sum(weights) if size else 1.0
        assert np.isclose(after.weights.sum(), total)  # the total mass is kept
        kept = after.ids.size - lot.size
        mass = after.weights[-lot.size :]
        if kept and after.weights[:kept].any():
            np.testing.assert_allclose(mass, total / after.ids.size)  # one K-th each, whatever a size claims
        if strata:
            np.testing.assert_array_equal(after.groups[:kept], after.ids[:kept] % 3)
            assert (after.groups[kept:] == (after.groups[-1])).all()
            assert not np.isin(after.groups[-1], ids % 3)

    def test_strata_keep_their_proportions(self):
        before = Cohort([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4], groups=[0, 0, 1, 1])
        after, lot = add_explorers(before, round_of(400, 4), 0.25, stream(1, "test"))
        assert lot.size == 1
        assert lot[0] > 3
        assert after.weights[-1] == pytest.approx(0.25)
        inside = [after.weights[after.groups == k].sum() for k in (0, 1)]
        np.testing.assert_allclose(inside, [0.3 * 0.75, 0.7 * 0.75])

    def test_everybody_and_full_cohorts_stay_as_they_are(self):
        full = Cohort.uniform(np.arange(9), full=True)
        assert add_explorers(full, round_of(20, 4), 1.0, stream(0, "test"))[0] is full
        everybody = Cohort.uniform(np.arange(4))
        assert add_explorers(everybody, round_of(4, 4), 1.0, stream(0, "test"))[0] is everybody

    @pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
    def test_no_honest_client_starves_and_no_liar_owns_the_cohort(self, share):
        """P(k trains) ≥ ε K / n for every client, whatever the selector prefers; liars hold ≤ 1 − ε of the places."""
        n, budget, rounds = 40, 8, 1000
        seen, captured, mass = np.zeros(n), 0, 0.0
        liars = np.arange(n) < 10  # they claim a loss of 100, and more data than the others
        sizes = np.where(liars, 1000, 10)
        registrar = Registrar(Believer(), Population(sizes), guards=Guards(explore=share))
        for _ in range(rounds):
            turn = turn_of(registrar, np.where(liars, 100.0, 1.0) + np.arange(n) / 1000, budget)
            seen[turn.cohort.ids] += 1
            captured += liars[turn.cohort.ids].sum()
            mass += turn.cohort.weights[liars[turn.cohort.ids]].sum()
            registrar.finish(turn)
        floor = share * budget / n
        assert (seen[~liars] / rounds > floor - 4 * np.sqrt(floor / rounds)).all()
        most = 1 - share + share * liars.mean()  # beside their luck in the draw
        assert captured / (rounds * budget) < most + 0.02
        assert mass / rounds < most + 0.02
        assert (seen[liars] > 0).all()

    def test_without_it_liars_own_the_cohort(self):
        registrar = Registrar(Believer(), population(40))
        assert set(turn_of(registrar, np.where(np.arange(40) < 10, 100.0, 1.0), 8).cohort.ids) <= set(range(10))

    def test_the_draw_depends_on_seed_and_round_alone(self):
        def lots(seed):
            registrar = Registrar(load("uniform"), population(200), seed=seed, guards=Guards(explore=0.5))
            return [play_one(registrar).guarded["explored"] for _ in range(3)]

        def play_one(registrar):
            turn = registrar.begin(np.arange(200), 6)
            registrar.finish(turn)
            return turn

        assert lots(0) == lots(0) != lots(1)
        assert lots(0)[0] != lots(0)[1]


class TestMinimum:
    guards = Guards(minimum=3)

    def test_fewer_eligible_skip_the_round(self):
        registrar = Registrar(Believer(), population(6), guards=self.guards)
        turn = registrar.begin([1, 2], 4)
        assert turn.skipped
        assert turn.question is None
        assert turn.cohort.ids.size == 0
        assert turn.cohort.notes == {"skipped": "too few eligible", "guards": {"too_few_eligible": 2}}
        assert registrar.finish(turn).size == 0
        assert registrar.index == 1
        assert not registrar.begin([1, 2, 3], 4).skipped

    def test_fewer_completed_teach_nothing_and_are_not_aggregated(self):
        heard = []

        @method
        class Listener(Selector[State]):
            @property
            def needs(self):
                return Needs(reports=(LOSS,))

            def select(self, state, round):
                return Cohort.uniform(round.available[: round.budget])

            def observe(self, state, feedback):
                heard.append((feedback.ids.tolist(), len(feedback.report(LOSS))))

        registrar = Registrar(Listener(), population(6), guards=self.guards)
        turn = registrar.begin(np.arange(6), 4)
        assert registrar.finish(turn, [0, 1], {"loss": [1.0, 2.0]}).size == 0
        assert turn.guarded == {"too_few_completed": 2}
        turn = registrar.begin(np.arange(6), 4)
        assert registrar.finish(turn, [0, 1, 2], {"loss": [1.0, 2.0, 3.0]}).tolist() == [0, 1, 2]
        assert heard == [([], 0), ([0, 1, 2], 3)]

    def test_fewer_chosen_do_not_train(self):
        @method
        class Picky(Selector[State]):
            def select(self, state, round):
                return Cohort.uniform(round.available[:2])

        turn = Registrar(Picky(), population(6), guards=self.guards).begin(np.arange(6), 4)
        assert turn.cohort.ids.size == 0
        assert turn.guarded == {"too_few_chosen": 2}

    def test_a_turn_that_is_not_open_gives_nobody(self):
        registrar = Registrar(load("uniform"), population(6))
        turn = registrar.begin(np.arange(6), 2)
        assert registrar.finish(turn).size == 2
        assert registrar.finish(turn).size == 0


ALL = Guards(
    bound=1e9,
    norm=100,
    strikes=1,
    quarantine=2,
    winsorise=3,
    size_cap=2,
    size_limit=500,
    explore=0.25,
    quota=2,
    minimum=2,
)


@pytest.mark.parametrize("name", discover())
def test_every_method_under_all_guards(name):
    """Cohort rules, quotas, minimum and mass hold for every variant, with lost, spoiled and missing answers."""
    world = ScriptedWorld()
    owners = np.asarray(world.population.groups)
    for parameters in find(name).examples():
        registrar = Registrar(find(name).load(**parameters), world.population, horizon=10, guards=ALL)
        explored_in, quarantined = 0, 0
        for turn in turns(
            registrar, world, 10, 4, share_of(world, 0.7), AnswerFaults(lost=0.1, spoiled=0.1, silent=0.2)
        ):
            cohort = turn.cohort
            assert cohort.full or (cohort.ids.size if cohort.expected_size is None else cohort.expected_size) <= 4.001
            assert cohort.ids.size == 0 or cohort.ids.size >= 2
            assert np.bincount(owners[cohort.ids], minlength=5).max() <= 2
            assert np.isfinite(cohort.weights).all()
            if cohort.ids.size:
                assert np.isin(cohort.ids, turn.round.available).all()
                assert cohort.weights.sum() > 0
            assert not (registrar.eligibility.quarantined_until[cohort.ids] > registrar.index + 2).any()
            explored_in += "explored" in turn.guarded
            quarantined += turn.guarded.get("quarantined", 0)
        assert explored_in > 0 or cohort.full  # where everybody trains there is nobody to explore
        needs = registrar.needs
        assert quarantined > 0 or not (needs.asks or needs.reports)


@pytest.mark.parametrize("name", ["power-of-choice", "fedss", "fedgs"])
def test_guarded_runs_are_repeatable_and_resumable(name, tmp_path):
    world, selector = ScriptedWorld(), load(name)
    faults = AnswerFaults(spoiled=0.1)
    straight = Registrar(selector, world.population, horizon=6, guards=ALL)
    whole = [turn.cohort.ids.tolist() for turn in turns(straight, world, 6, 4, share_of(world, 0.7), faults)]
    registrar, stopped = Registrar(selector, world.population, horizon=6, guards=ALL), []
    for _ in range(6):
        registrar.save(tmp_path / "r.npz")
        registrar = Registrar.load(tmp_path / "r.npz", selector, world.population)
        stopped += [turn.cohort.ids.tolist() for turn in turns(registrar, world, 1, 4, share_of(world, 0.7), faults)]
    assert stopped == whole
    assert whole != [c.ids.tolist() for c in play(selector, world, 6, budget=4, available=share_of(world, 0.7))]
