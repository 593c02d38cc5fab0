"""Metrics and shadows of an NVFlare job, whose options go through JSON."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("nvflare", reason="nvflare is not installed: make test-nvflare")

from tests.federation.test_shadow import live_part
from tests.nvflare.loopback import federation
from tests.nvflare.loopback_controllers import WithinFedAvg, Workflow, played

from sortition.core.errors import InputError
from sortition.nvflare.controller_options import read_options
from sortition.selectors.oort import Oort

BOTH = pytest.mark.parametrize("kind", [Workflow, WithinFedAvg], ids=["own", "fedavg"])
SHADOW = json.loads('["fedgs", {"name": "uniform", "label": "plain", "weights": "uniform"}, {"name": "oort"}]')


@BOTH
def test_the_live_method_does_not_notice_its_shadows(kind):
    plain = played(kind, federation(), "uniform").federation.history
    shadowed = played(kind, federation(), "uniform", shadow=SHADOW).federation.history
    assert live_part(shadowed) == live_part(plain)
    assert all(list(record["shadows"]) == ["fedgs", "plain", "oort"] for record in shadowed)
    assert all(record["shadows"]["plain"]["chosen"] for record in shadowed)


@BOTH
def test_the_live_method_does_not_notice_a_shadow_that_raises(kind, monkeypatch):
    def broken(self, state, round):
        raise RuntimeError("a shadow's own mistake")

    plain = played(kind, federation(), "uniform").federation.history
    monkeypatch.setattr(Oort, "select", broken)
    shadowed = played(kind, federation(), "uniform", shadow=["oort"]).federation.history
    assert live_part(shadowed) == live_part(plain)
    assert all("a shadow's own mistake" in record["shadows"]["oort"]["error"] for record in shadowed)


def test_a_shadow_is_promoted_at_the_next_start(tmp_path):
    about = {"checkpoint": str(tmp_path / "run.npz"), "resume": True, "shadow": SHADOW}
    played(Workflow, federation(), "uniform", rounds=3, **about)
    second = played(Workflow, federation(), "uniform", rounds=5, promote="plain", **about).federation
    assert second.registrar.selector.weights == "uniform"
    assert list(second.history[-1]["shadows"]) == ["fedgs", "oort", "uniform"]


@BOTH
def test_an_endpoint_shows_the_job(kind):
    pytest.importorskip("prometheus_client", reason="pip install 'sortition[metrics]'")
    controller = played(kind, federation(), "uniform", metrics={"port": 0})
    assert controller.settings.metrics[0].port > 0
    series = controller.federation.metrics.series
    assert series.totals["chosen"] == sum(len(record["cohort"]) for record in controller.federation.history)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": {"prot": 1}}, r"metrics must hold keys of Metrics"),
        ({"metrics": "9464"}, r"package.module:function"),
        ({"shadow": "oort"}, r"shadow must be a list of methods"),
        ({"shadow": ["oort", "oort"]}, r"labels of their own"),
        ({"shadow": [{"label": "x"}]}, r"the name of a method"),
        ({"promote": "oort"}, r"Unknown shadow 'oort'"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(options, message):
    with pytest.raises(InputError, match=message):
        read_options("SelectorController", "uniform", 2, 3, options)
