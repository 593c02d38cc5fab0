"""The page as a reader meets it: complete, alone on a machine without network, and honest about what it lacks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations

import pytest
from tests.report.conftest import write_run

from sortition.core.errors import InputError
from sortition.report import write
from sortition.report.charts import method_notes
from sortition.report.gather import gather
from sortition.report.look import FigureFiles
from sortition.report.page import SECTIONS, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def text_of(path):
    return path.read_text(encoding="utf-8")


def test_every_section_is_there(study, tmp_path):
    shutil.rmtree(study / "main" / "fedgs" / "seed-0")
    write_run(study, "fedgs", 0, [0.3, 0.6, 0.8], notes={"grouping": {"ids": [0, 1, 2, 3], "group": [0, 1, 0, 0]}})
    page = text_of(write([study], tmp_path / "page.html"))
    for key, title in SECTIONS.items():
        if key == "losses":
            continue  # nothing went wrong here; see test_losses_section.py
        assert f'<section id="{key}">{f"<h2>{title}" if title else ""}' in page
    assert "fedgs against uniform is undecided: +18.33 points; 2 seeds show no spread" in page
    assert "@misc{fedgs}" in page
    assert "src=" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_empty_sections_are_left_out(study, tmp_path):
    assert 'id="method_notes"' not in text_of(write([study], tmp_path / "page.html"))


@pytest.mark.parametrize(
    "kind",
    [
        {"embedding": {"ids": [0, 1, 2], "x": [[1.0, 0, 0], [0, 1, 0], [0, 0.5, 1]]}},
        {"graph": {"ids": [0, 1, 2, 3], "edges": [[0, 1], [2, 3]]}},
        {"coverage": {"ids": [0, 1, 2], "distances": [[0, 1, 2], [1, 0, 1], [2, 1, 0]], "by": [0, 0, 2]}},
        {"grouping": {"ids": [0, 1, 2, 3], "group": [0, 0, 1, 1], "value": [0.1, 0.2, 0.5, 0.6]}},
        {"grouping": {"ids": [0, 1, 2, 3], "group": [0, 0, 1, 1]}},
    ],
)
def test_pictures_of_what_a_method_saw(tmp_path, kind):
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3], notes=kind)
    page = Page(gather([tmp_path]))
    assert f"uniform: {next(iter(kind))}" in page.method_notes()
    (chart,) = (chart for _, chart in page.charts)
    assert all(len(rows) for rows in chart.spec()["datasets"].values())


def test_a_note_that_is_no_picture_is_passed_over(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3], notes={"graph": {"nodes": 3}, "grouping": [4, 5]})
    assert Page(gather([tmp_path])).method_notes() == ""


def test_one_run_one_seed_and_no_target(tmp_path):
    write_run(tmp_path, "fedcor", 0, [0.1, 0.2, 0.3], target=None)
    page = text_of(write([tmp_path], tmp_path / "page.html"))
    assert "Uniform is not among the methods" in page


def test_large_and_small_seeds_stand_in_one_page(tmp_path):
    for method in ("uniform", "fedgs"):
        for seed in (0, 2**63 - 1):
            write_run(tmp_path, method, seed, [0.1, 0.2, 0.3])
    assert "accuracy \\u2212 uniform" in text_of(write([tmp_path], tmp_path / "page.html"))


def test_settings_are_never_averaged_together(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3], setting="easy")
    write_run(tmp_path, "uniform", 0, [0.5, 0.6, 0.7], setting="hard")
    gathered = gather([tmp_path])
    assert [s.name for s in gathered.settings] == ["easy", "hard"]
    assert text_of(write([tmp_path], tmp_path / "page.html")).count('<h3 class="setting">easy</h3>') >= 2


def test_names_cannot_break_the_page(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3])
    write_run(tmp_path, "a<b>&'c", 0, [0.1, 0.2, 0.3], name="fedgs")
    page = text_of(write([tmp_path], tmp_path / "page.html"))
    assert "a<b>&'c</td>" not in page
    assert "a&lt;b&gt;&amp;&#x27;c" in page


class TestBadInput:
    def test_no_folder(self, tmp_path):
        with pytest.raises(InputError, match="must be a folder of runs"):
            write([tmp_path / "none"], tmp_path / "page.html")
        with pytest.raises(InputError, match="at least one folder"):
            write([], tmp_path / "page.html")

    def test_nothing_to_show(self, tmp_path):
        with pytest.raises(InputError, match="got none that can be shown"):
            write([tmp_path], tmp_path / "page.html")
        assert not (tmp_path / "page.html").exists()

    def test_foreign_and_damaged_folders_are_named_and_left_out(self, study, tmp_path):
        foreign = study / "main" / "foreign" / "seed-0"
        foreign.mkdir(parents=True)
        (foreign / "config.toml").write_text("this is not toml")
        (foreign / "manifest.json").write_text("{}")
        damaged = write_run(study, "damaged", 0, [0.1, 0.2, 0.3])
        lines = (damaged / "rounds.jsonl").read_text().splitlines()
        (damaged / "rounds.jsonl").write_text("\n".join([lines[0], "{torn", lines[2]]) + "\n")
        empty = write_run(study, "empty", 0, [0.1, 0.2, 0.3])
        (empty / "rounds.jsonl").write_text("")
        gathered = gather([study])
        assert len(gathered.warnings) == 3
        assert gathered.methods == ["fedgs", "uniform"]
        assert "What to know of these runs" in text_of(write([study], tmp_path / "page.html"))

    def test_a_torn_last_line_is_nothing_to_mention(self, study):
        with (study / "main" / "uniform" / "seed-0" / "rounds.jsonl").open("a") as file:
            file.write('{"round": 3, "coho')
        assert gather([study]).warnings == []

    def test_mixed_versions(self, study):
        manifest = study / "main" / "uniform" / "seed-0" / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "sortition": "9.9"}))
        assert "different versions of Sortition: 0.1.0, 9.9" in gather([study]).warnings[0]


def test_figures_for_papers(study, tmp_path):
    write([study], tmp_path / "page.html", figures=FigureFiles(tmp_path / "figures"))
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"accuracy.png", "accuracy.svg", "accuracy.pdf", "timeline.pdf", "forest-last.svg", "main.tex"} <= made
    assert (tmp_path / "figures" / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figures" / "accuracy.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_in_a_browser(study, tmp_path):
    page = write([study], tmp_path / "page.html")
    log = tmp_path / "net.json"
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr",
        "--virtual-time-budget=20000", "--dump-dom", f"file://{page}#all",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    charts = done.stdout.count('data-chart="')
    assert charts >= 8
    assert done.stdout.count('class="marks"') == charts, "every chart is drawn"
    assert 'data-ready="yes"' in done.stdout
    assert "CONSOLE" not in done.stderr, "no error or warning on the console"
    assert not asked_by_pages(json.loads(log.read_text())), "the page asks the network for nothing"


def asked_by_pages(log):
    """URLs that a page asked for; the browser's own calls home have no origin."""
    events = (event["params"] for event in log["events"] if isinstance(event.get("params"), dict))
    return {
        params["url"]
        for params in events
        if params.get("url", "").startswith("http") and params.get("initiator", "not an origin") != "not an origin"
    }


def test_losses_that_are_not_finite_are_null_in_the_page(tmp_path):
    write_run(tmp_path, "uniform", 0, [0.1, 0.2, 0.3])
    for file in tmp_path.rglob("rounds.jsonl"):
        file.write_text(re.sub(r'"loss": [0-9.]+', '"loss": null', file.read_text()))
    page = Page(gather([tmp_path])).render()
    data = re.search(r'id="specs">(.*?)</script>', page, re.DOTALL)[1]

    def strict(name):
        raise ValueError(name)

    assert json.loads(data, parse_constant=strict)


def test_control_characters_are_marked(study, tmp_path):
    (study / "study.json").write_text(json.dumps({"title": "a\x1b[2Jb"}))
    page = text_of(write([study], tmp_path / "page.html"))
    assert "\x1b" not in page
    assert "<h1>a\ufffd[2Jb</h1>" in page


def test_a_graph_in_a_picture_has_no_more_edges_than_a_reader_can_tell_apart():
    ids = list(range(47))
    edges = list(combinations(ids, 2))[:1000]
    picture = method_notes.draw_graph({"ids": ids, "edges": edges}, None)
    shown = len(picture.tables["lines"])
    assert shown == 500
    assert picture.caption.startswith("500 of 1000 edges.")
