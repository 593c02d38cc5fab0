"""Prometheus reads what federations show: dashboard, alerts, and a scrape of running ones."""

from __future__ import annotations

import json
import math
import re
import subprocess

import pytest

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed: pip install 'sortition[metrics]'")

import yaml
from campaign.prometheus import EXAMPLES, free_port, scraping
from tests.federation.prometheus import AtTheEnd, needs_prometheus, needs_promtool
from tests.federation.scraping import samples
from tests.federation.test_monitoring import broken, check_counters, played, scraped

from sortition.core import Guards
from sortition.federation import Metrics


@pytest.fixture(scope="module")
def shown():
    """What a federation shows that has an owner, questions, refusals and exclusions."""
    guards = Guards(quarantine=50, strikes=1)
    owners = {"owner_of": lambda name: name}
    labels = {"selector": "fedgs", "shadow": ["power-of-choice"]}
    _, text = scraped(4, replaced={"device-7": broken}, guards=guards, cohort=8, **owners, **labels)
    return text


def expressions():
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]
    for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"], ""


def without_variables(expression):
    """The expression as Grafana sends it."""
    return expression.replace("$job", "sortition").replace("$__rate_interval", "1m")


def known_series(text):
    """Series that a page shows, and those of work that outlives a step and of checkpoints, with their labels."""
    labels_of = {}
    for name, labels in samples(text):
        labels_of.setdefault(name, set()).update(key for key, _ in labels)
    for name in ("in_flight", "checkpoint_age_seconds"):
        labels_of.setdefault(f"sortition_{name}", set())
    for name in ("questions_total", "answers_total"):
        labels_of.setdefault(f"sortition_{name}", {"signal"})
    return labels_of


def test_dashboard_and_alerts_ask_for_series_that_there_are(shown):
    labels_of = known_series(shown)
    for where, expression, legend in expressions():
        names = re.findall(r"sortition_\w+", expression)
        assert names or where == "SortitionDown", where
        for name in names:
            assert name in labels_of, f"{where} asks for {name}"
        for label in re.findall(r"\{\{(\w+)\}\}", legend):
            assert label in labels_of[names[0]], f"{where} shows the label {label}"


def test_every_alert_is_explained_in_the_runbook():
    runbook = (EXAMPLES.parents[1] / "docs" / "operate.md").read_text()
    for group in yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            assert f"`{rule['alert']}`" in runbook
            assert rule["annotations"]["runbook"] == "docs/operate.md#alerts"


def test_every_series_is_explained_in_the_runbook(shown):
    runbook = (EXAMPLES.parents[1] / "docs" / "operate.md").read_text()
    for name in known_series(shown):
        series = re.sub(r"_(bucket|count|sum|created)$", "", name)
        assert f"`{series}`" in runbook


def test_the_dashboards_panels_do_not_overlap():
    panels = json.loads((EXAMPLES / "dashboard.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")],
)
def test_promtool_accepts_rules_and_configuration(arguments):
    done = subprocess.run(["promtool", *arguments], cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_every_expression_of_the_dashboard(tmp_path):
    recorded = [
        {"record": f"panel:{number}", "expr": without_variables(expression)}
        for number, (_, expression, legend) in enumerate(expressions())
        if legend
    ]
    assert len(recorded) > 20
    rules = tmp_path / "dashboard.yml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_page():
    from tests.federation.scraping import page

    endpoint = Metrics(0, linger=0)
    texts = []
    played(2, metrics=endpoint, on_round=lambda record: texts.append(page(endpoint.port, "text/plain")))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=texts[-1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
@pytest.mark.prometheus
def test_prometheus_scrapes_a_federation_on_ones_own_server(tmp_path):
    target = free_port()
    with scraping(tmp_path, {"sortition": target}) as prometheus:
        at_the_end = AtTheEnd(prometheus, 5)
        federation = played(5, metrics=[Metrics(target), at_the_end])
    at_the_end.check(federation.history)


class FirstScrape:
    """A sink that waits until Prometheus has scraped the first round, and for no other one."""

    def __init__(self, prometheus):
        self.prometheus = prometheus

    def begin(self, series, played):
        """Nothing to do."""

    def show(self, series):
        """Wait after the first round."""
        if series.last["round"] == 0:
            self.prometheus.wait_for("sortition_round", 0)

    def end(self, completed):
        """Nothing to do."""


@needs_prometheus
@pytest.mark.prometheus
def test_prometheus_does_not_lose_the_last_round(tmp_path):
    target = free_port()
    with scraping(tmp_path, {"sortition": target}) as prometheus:
        federation = played(6, metrics=[Metrics(target), FirstScrape(prometheus)])
        chosen = sum(len(record["cohort"]) for record in federation.history)
        prometheus.wait_for("last_over_time(sortition_round[10m])", 5, patience=5)
        assert list(prometheus.query("last_over_time(sortition_chosen_total[10m])").values()) == [chosen]


class Answered:
    """A sink that asks Prometheus for every panel of the dashboard when the last round has been scraped."""

    def __init__(self, prometheus, rounds):
        self.prometheus = prometheus
        self.rounds = rounds
        self.panels = set()

    def begin(self, series, played):
        """Nothing to do."""

    def show(self, series):
        """Let every round be scraped, so that rates have something to grow by."""
        self.prometheus.wait_for("sortition_round", series.last["round"])
        if series.last["round"] + 1 == self.rounds:
            for title, expression, legend in expressions():
                numbers = self.prometheus.query(without_variables(expression)).values()
                if legend and any(not math.isnan(number) for number in numbers):
                    self.panels.add((title, legend))

    def end(self, completed):
        """Nothing to do."""


@needs_prometheus
@pytest.mark.prometheus
def test_prometheus_answers_every_query_of_the_dashboard(tmp_path):
    """Each panel has numbers of one of three federations: refusals, questions, work that outlives a step."""
    refusing = {
        "selector": "fedgs",
        "shadow": ["power-of-choice"],
        "owner_of": lambda name: name,
        "guards": Guards(quarantine=50, strikes=1),
        "replaced": {"device-7": broken},
        "cohort": 8,
        "checkpoint": tmp_path / "run.npz",
    }
    overlapping = {"selector": "uniform", "pace": {"kind": "buffered", "buffer": 1}}
    panels = set()
    for number, options in enumerate((refusing, {}, overlapping)):
        folder = tmp_path / str(number)
        folder.mkdir()
        target = free_port()
        with scraping(folder, {"sortition": target}) as prometheus:
            answered = Answered(prometheus, 3)
            played(3, metrics=[Metrics(target), answered], **options)
        panels |= answered.panels
    assert {(title, legend) for title, _, legend in expressions() if legend} - panels == set()


def lost_keys(table, known, where="dashboard"):
    """Keys and values of a JSON document that another one does not have."""
    if isinstance(table, dict):
        for key, value in table.items():
            if not isinstance(known, dict) or key not in known:
                yield f"{where}.{key}"
            else:
                yield from lost_keys(value, known[key], f"{where}.{key}")
    elif isinstance(table, list):
        for number, value in enumerate(table):
            yield from lost_keys(value, known[number], f"{where}[{number}]")
    elif table != known:
        yield where


def test_grafanas_own_types_know_every_key_of_the_dashboard():
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder", reason="pip install grafana-foundation-sdk")
    from grafana_foundation_sdk.cog import plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    plugins.register_default_plugins()

    def unknown(document):
        return list(lost_keys(document, json.loads(json.dumps(Dashboard.from_json(document), cls=encoder.JSONEncoder))))

    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    assert unknown(dashboard) == []
    dashboard["panels"][0]["targets"][0]["legendFromat"] = "rounds"
    assert unknown(dashboard) == ["dashboard.panels[0].targets[0].legendFromat"]


def test_a_page_of_a_running_federation_has_its_counters(shown):
    federation, text = scraped(3)
    check_counters(samples(text), federation.history)
