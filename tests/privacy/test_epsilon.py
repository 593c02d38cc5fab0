"""ε of a federation is dp-accounting's, and methods without a bound are refused in words."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

from sortition.cli import app
from sortition.core import Guards
from sortition.core.errors import InputError
from sortition.privacy import Deployment, Promises, epsilon, lint, privacy_budget
from sortition.selectors import discover, load

dp = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'sortition[budget]'")

FEDERATION = Deployment(clients=500, cohort=10, rounds=200)


def accountant(name="rdp", *, replaced=False):
    from dp_accounting import pld, rdp

    relation = dp.NeighboringRelation.REPLACE_ONE if replaced else dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    kind = rdp.RdpAccountant if name == "rdp" else pld.PLDAccountant
    return kind(neighboring_relation=relation)


@pytest.mark.parametrize("name", ["rdp", "pld"])
@pytest.mark.parametrize("noise", [0.7, 1.3])
@pytest.mark.parametrize("q", [None, 0.05])
def test_poisson_is_that_of_dp_accounting(name, noise, q):
    result = privacy_budget(load("poisson", q=q), FEDERATION, noise=noise, delta=1e-5, accountant=name)
    event = dp.PoissonSampledDpEvent(10 / 500 if q is None else q, dp.GaussianDpEvent(noise))
    expected = accountant(name).compose(dp.SelfComposedDpEvent(event, 200)).get_epsilon(1e-5)
    assert result.epsilon == pytest.approx(expected, abs=1e-6)
    assert result.neighbours == "clients added or removed"


def test_uniform_is_that_of_dp_accounting():
    result = privacy_budget(load("uniform"), FEDERATION, noise=1.0, delta=1e-6)
    event = dp.SampledWithoutReplacementDpEvent(500, 10, dp.GaussianDpEvent(1.0))
    expected = accountant(replaced=True).compose(dp.SelfComposedDpEvent(event, 200)).get_epsilon(1e-6)
    assert result.epsilon == pytest.approx(expected, abs=1e-6)
    assert (result.sampling, result.probability) == ("without-replacement", 0.02)
    assert any("everybody is available" in condition for condition in result.conditions)


def test_full_is_a_plain_composition_of_gaussians():
    result = privacy_budget(load("full"), FEDERATION, noise=5.0, delta=1e-5, accountant="pld")
    mu = math.sqrt(200) / 5.0  # 200 Gaussian mechanisms are one of μ = √200/σ

    def delta_of(epsilon):  # Balle and Wang 2018, theorem 8
        def phi(x):
            return 0.5 * math.erfc(-x / math.sqrt(2))

        return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)

    assert delta_of(result.epsilon) == pytest.approx(1e-5, rel=2e-2)
    assert result.probability == 1.0


def test_sampling_fewer_noisier_or_shorter_costs_less():
    def epsilon(q=0.02, rounds=200, noise=1.0):
        about = Deployment(clients=500, cohort=10, rounds=rounds)
        return privacy_budget(load("poisson", q=q), about, noise=noise, delta=1e-5).epsilon

    assert epsilon(q=0.01) < epsilon() < epsilon(q=0.04)
    assert epsilon(rounds=100) < epsilon()
    assert epsilon(noise=2.0) < epsilon()


@pytest.mark.parametrize("name", [name for name in discover() if name not in ("poisson", "uniform", "full")])
def test_every_other_method_is_refused_in_words(name):
    method = load(name)
    with pytest.raises(InputError, match=r"has no bound on privacy: .*Use poisson or uniform"):
        privacy_budget(method, FEDERATION, noise=1.0, delta=1e-5)


def test_the_reason_names_what_the_choice_depends_on():
    with pytest.raises(InputError, match=r"FedGS has no bound .*depends on clients' data \(label_counts\)"):
        privacy_budget(load("fedgs"), FEDERATION, noise=1.0, delta=1e-5)
    with pytest.raises(InputError, match=r"PowerOfChoice .*\(loss\)"):
        privacy_budget(load("power-of-choice"), FEDERATION, noise=1.0, delta=1e-5)


@pytest.mark.parametrize("guards", [Guards(explore=0.2), Guards(quarantine=5), Guards(quota=2)])
def test_guards_that_change_the_draw_are_refused(guards):
    about = Deployment(clients=500, cohort=10, rounds=200, guards=guards)
    with pytest.raises(InputError, match=r"0 where a budget is computed.*It changes who is drawn"):
        privacy_budget(load("poisson"), about, noise=1.0, delta=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": 0.0}, r"budget.noise must be a finite number > 0"),
        ({"noise": math.inf}, r"budget.noise"),
        ({"delta": 0.0}, r"budget.delta must be between 0 and 1"),
        ({"delta": 1.0}, r"budget.delta"),
        ({"accountant": "moments"}, r"budget.accountant must be one of rdp, pld"),
        ({"deployment": Deployment(clients=500, cohort=10)}, r"budget.rounds must be given"),
        ({"deployment": Deployment(clients=5, cohort=10, rounds=1)}, r"budget.cohort must be at most"),
    ],
)
def test_bad_numbers_are_refused(changes, message):
    arguments = {"deployment": FEDERATION, "noise": 1.0, "delta": 1e-5, **changes}
    with pytest.raises(InputError, match=message):
        privacy_budget(load("poisson"), arguments.pop("deployment"), **arguments)


def test_privacy_losses_have_no_bound_without_replacement():
    with pytest.raises(InputError, match=r"one with a bound for without-replacement sampling.*Use accountant 'rdp'"):
        privacy_budget(load("uniform"), FEDERATION, noise=1.0, delta=1e-5, accountant="pld")


def test_without_the_package_the_message_says_how_to_install_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    method = load("poisson")
    monkeypatch.setattr(epsilon.importlib, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'sortition\[budget\]'"):
        privacy_budget(method, FEDERATION, noise=1.0, delta=1e-5)


def test_lint_leads_to_it():
    promises = Promises(differential_privacy="central", amplification=True)
    for name in ("uniform", "fedgs"):
        (finding,) = [finding for finding in lint(load(name), promises) if finding.rule == "amplification"]
        assert "'sortition budget'" in finding.sentence


ABOUT = ["--clients", "500", "--cohort", "10", "--rounds", "200", "--noise", "1.0"]


def test_the_command_prints_what_the_function_gives():
    result = CliRunner().invoke(app, ["budget", "poisson", *ABOUT, "--q", "0.01"])
    expected = privacy_budget(load("poisson", q=0.01), FEDERATION, noise=1.0, delta=1e-5)
    assert result.exit_code == 0, result.output
    assert f"ε = {expected.epsilon:.4g} at δ = 1e-05" in result.output
    assert "if every update is clipped" in result.output


def test_the_command_fails_where_a_method_has_no_bound():
    result = CliRunner().invoke(app, ["budget", "poisson", "fedgs", *ABOUT])
    assert result.exit_code == 1
    assert "poisson: ε = " in result.output
    assert "fedgs: FedGS has no bound on privacy" in result.output


def test_the_command_reads_a_study(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'rounds = 50\ncohort = 5\nmodel = "softmax"\nlocal = { steps = 1, batch = 8, lr = 0.1 }\n'
        '[data]\nname = "digits"\nclients = 100\npartition = "iid"\n'
        '[[method]]\nname = "poisson"\n[[method]]\nname = "uniform"\n'
    )
    result = CliRunner().invoke(app, ["budget", str(study), "--noise", "1.0"])
    assert result.exit_code == 0, result.output
    assert "50 rounds of poisson sampling with probability 0.05" in result.output
    assert "50 rounds of without-replacement sampling" in result.output
