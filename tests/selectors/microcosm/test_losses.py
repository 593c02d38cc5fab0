from __future__ import annotations

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference import microcosm_literal as literal

from sortition.core import InputError, Population, Registrar
from sortition.selectors import load
from sortition.selectors import microcosm as module
from sortition.selectors.microcosm import losses

N = 12
SIZES = np.arange(10, 10 + N)


def played(seed=0, rounds=30, loss_of=None, **options):
    """Play with losses of a script; yield the state and the twin's shares, losses and records after every round."""
    rng = np.random.default_rng(seed)
    registrar = Registrar(load("microcosm", by="sizes", losses=True, **options), Population(SIZES), seed=seed)
    loss, record = {}, {}
    for t in range(rounds):
        m = literal.due_multiples(loss, record, N)
        expected = [SIZES[k] * m[k] for k in range(N)]
        shares = registrar.selector._due_shares(registrar.state, registrar.population)
        assert shares == pytest.approx(np.array(expected) / sum(expected))
        turn = registrar.begin(range(N), 4)
        done = turn.cohort.ids[rng.random(turn.cohort.ids.size) < 0.8]
        now = {int(k): loss_of(int(k), t) if loss_of else float(rng.lognormal(0, 1)) for k in done}
        registrar.finish(turn, done, {"training-loss": [now[int(k)] for k in done]})
        literal.reported(loss, record, m, now)
        assert registrar.state.loss_record == pytest.approx([record.get(k, 0.1) for k in range(N)])
    return registrar, loss, record


@pytest.mark.parametrize("seed", range(4))
def test_due_shares_and_records_are_those_of_the_twin(seed):
    _, _, record = played(seed)
    assert record  # somebody was tried


def differs(seed):
    """Whether the method ever differs from the twin."""
    try:
        played(seed)
    except AssertionError:
        return True
    return False


SLIPS = [
    ("due_multiples", "np.clip(relative, 1.0, LARGEST_MULTIPLE)", "relative"),  # a client may be due any multiple
    ("due_multiples", "KNOWN_FROM * known.size", "0"),  # losses count from the first
    ("update_record", "STEP_OF_RECORD * (fall - new_record[clients])", "STEP_OF_RECORD * fall"),  # records only grow
    ("update_record", "was_due_more & ~", "~"),  # who was not tried is judged
]


@pytest.mark.parametrize(("name", "right", "wrong"), SLIPS, ids=[slip[1] for slip in SLIPS])
def test_a_slip_is_caught_by_the_twin(name, right, wrong, monkeypatch):
    monkeypatch.setattr(module, name, slipped(getattr(losses, name), right, wrong))
    assert any(differs(seed) for seed in range(4))


def behind(k, t):
    """Client 0 lags and catches up; client 1 lags for good; the others are served well."""
    return {0: 3.0 * 0.9**t + 0.5, 1: 3.0}.get(k, 0.3)


def test_who_catches_up_is_due_more_and_who_does_not_is_not():
    registrar, _, record = played(rounds=60, loss_of=behind, forgetting=0.0)
    m = losses.due_multiples(registrar.state.loss, registrar.state.loss_record, np.arange(N))
    assert record[1] < 0.02  # wrong labels: more weight changed nothing
    assert m[1] < 1.6
    assert m[2:] == pytest.approx(1.0)


def test_nobody_is_due_more_than_four_times_its_share():
    loss = np.full(10, 1.0)
    loss[3] = 1e6
    m = losses.due_multiples(loss, np.full(10, 9.0), np.arange(10))
    assert m.tolist() == [1, 1, 1, 4, 1, 1, 1, 1, 1, 1]


def test_losses_of_zero_and_clients_without_a_loss_are_sound():
    loss = np.zeros(10)
    loss[0] = np.nan
    assert np.isfinite(losses.due_multiples(loss, np.full(10, 0.1), np.arange(10))).all()
    assert losses.due_multiples(loss, np.full(10, 0.1), np.arange(10))[0] == 1


def test_losses_are_reported_only_where_the_option_is_on():
    names = {signal.name for signal in load("microcosm", losses=True, secure_aggregation=True).needs.reports}
    assert names == {"training-loss"}
    assert "training-loss" not in {signal.name for signal in load("microcosm").needs.reports}
    with pytest.raises(InputError, match=r"Microcosm\.losses must be false where by = 'secure'"):
        Registrar(load("microcosm", by="secure", losses=True), Population(SIZES))
