"""The page of a federation's history: what is known is shown, what is not is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.results.histories import ABOUT, NAMES, ROUNDS, record, written
from tests.test_cli import call

from sortition.core.errors import InputError, StorageError
from sortition.report import write
from sortition.report.charts import fates
from sortition.report.history_digest import condense_history
from sortition.report.history_page import HistoryPage
from sortition.report.look import FigureFiles
from sortition.report.method_choice import MethodChoice
from sortition.results.history import History


def digest(folder, records=None, **more):
    return condense_history(History(written(folder, records, **more)))


def page(folder, records=None, **more):
    return HistoryPage(digest(folder, records, **more)).render()


def prose(html: str) -> str:
    """The text outside of scripts, without tags."""
    bare = re.sub(r"<(script|style).*?</\1>", "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", bare)


def test_totals_are_counted_by_hand(tmp_path):
    found = digest(tmp_path)
    assert found.totals == {"used": 3, "standby": 1, "silent": 1, "failed": 1, "left out": 1}
    assert found.chosen.tolist() == [2, 1, 2, 1, 1]
    assert found.available.tolist() == [3, 3, 3, 2, 1]
    assert found.late.tolist() == [0, 0, 0, 1, 0]
    shares = np.array([2 / 3, 1 / 3, 2 / 3, 1 / 2, 1])
    assert found.choice_counts.jain == pytest.approx(shares.sum() ** 2 / (5 * (shares**2).sum()))
    assert found.total_seconds == 30.0
    asked = found.asked["loss"]
    assert (asked.rounds, asked.n_asked, asked.n_answered, asked.floats) == (1, 4, 3, 3)
    assert [(reason.fate, reason.text, dict(reason.clients)) for reason in found.reasons] == [
        ("failed", "CUDA out of memory", {4: 1}),
        ("left out", "w is not finite", {2: 1}),
    ]


def test_the_page_says_what_happened(tmp_path):
    text = prose(page(tmp_path))
    assert "PowerOfChoice chose among 5 clients in 4 rounds of a federation run by its own server" in text
    assert "3 of 7 updates that were asked for were used (1 standby, 1 silent, 1 failed, 1 left out)" in text
    assert "Every client was chosen at least once." in text
    assert "has no test figures, so this page has no learning curves" in text
    for words in ("Who was chosen", "What became of them", "Questions and privacy", "Time", "Federation", *NAMES):
        assert words in text
    assert "CUDA out of memory" in text
    assert "hospital-12 (id 4)" in text
    assert "late" in text


def test_members_that_another_federation_had_used_are_withdrawn_and_not_needed(tmp_path):
    records = [record(0, [0, 1, 2], [0, 1, 2], [0], withdrawn=[1], silent=[2], excluded={"lifetime=1": 2})]
    text = prose(page(tmp_path, records))
    assert "1 of 3 updates that were asked for were used (1 withdrawn, 1 silent)" in text
    assert "1 of 2 that were needed" in text
    assert "another federation had used up its limit meanwhile" in text
    assert "Client-rounds that the policy left out" in text


def test_clients_that_could_never_be_chosen_are_not_called_chosen(tmp_path):
    text = prose(page(tmp_path, [record(0, [0, 1], [0, 1], [0, 1])]))
    assert "Every client that could be chosen was chosen at least once." in text
    assert "of 2 clients that could be" in text


def test_where_rounds_overlap_nothing_is_called_lost_that_a_later_record_explains(tmp_path):
    late = "no answer before the deadline"
    records = [
        record(0, [0, 1, 2, 3, 4], [0, 1, 2, 3], [0], used=[1.0], in_flight=3),
        record(1, [0, 4], [4], [2], used=[1.0], in_flight=2, given_up={"3": late}),
        record(2, [0], [], [4], used=[1.0], in_flight=1),
    ]
    condensed = digest(tmp_path, records)
    assert condensed.totals == {"used": 3, "given up": 1, "still at work": 1}
    text = prose(page(tmp_path, records))
    assert "3 of 5 updates that were asked for were used (1 given up, 1 still at work)" in text
    assert "3 of 4 that were needed" in text
    assert "the record does not say why" not in text
    assert late in text
    places = {(row["round"], row["id"]): row for row in fates.draw_strip(condensed).tables["strip"]}
    assert (places[0, 2]["fate"], places[0, 2]["ended"]) == ("used", 1)
    assert (places[0, 3]["fate"], places[0, 3]["ended"], places[0, 3]["reason"]) == ("given up", 1, late)


def test_charts_have_names_where_a_reader_points(tmp_path):
    strip = fates.draw_strip(digest(tmp_path))
    chosen = {(row["round"], row["client"]): row for row in strip.tables["strip"]}
    assert chosen[1, "hospital-2"]["fate"] == "standby"
    assert chosen[2, "hospital-12"]["reason"] == "CUDA out of memory"
    away = [(row["round"], row["client"]) for row in strip.tables["away"]]
    assert (0, "hospital-12") in away
    assert (0, "hospital-1") not in away
    assert len([client for t, client in away if t == 3]) == 5
    bars = fates.draw_times_chosen(digest(tmp_path)).tables["by_client"]
    assert bars[0] == {"client": "hospital-1", "id": 0, "fate": "used", "order": 0, "rounds": 2}


def test_an_unknown_version_is_not_called_the_installed_one(tmp_path):
    assert "Sortition 0.1.0 ·" in page(tmp_path)
    assert "Sortition 0" not in page(tmp_path, about={"sortition": ""})


def test_what_is_unknown_is_left_out(tmp_path):
    dropped = ("clock", "present", "questions", "names")
    records = [{key: value for key, value in one.items() if key not in dropped} for one in ROUNDS]
    text = page(tmp_path, records, facts={}, about={"names": [], "needs": {}})
    assert 'id="time"' not in text
    assert 'id="federation"' not in text
    assert "Clients were asked nothing before they were chosen." in text
    assert "available" not in re.search(r"<thead>.*?</thead>", text)[0]
    assert "Grey: it could not be chosen" not in text


def test_a_federation_in_which_nobody_was_chosen_has_a_page(tmp_path):
    text = prose(page(tmp_path, [record(0, [], [], [])]))
    assert "in 1 round of a federation run by its own server: nobody was ever chosen." in text
    with pytest.raises(StorageError, match="has no round yet"):
        page(tmp_path, [])


def test_a_file_that_on_round_wrote_has_a_page(tmp_path):
    own = tmp_path / "own.jsonl"
    own.write_text("".join(json.dumps(one) + "\n" for one in ROUNDS))
    text = write([own]).read_text()
    assert (tmp_path / "own.html").exists()
    assert "The method chose among 5 clients in 4 rounds: 3 of 7" in prose(text)


def test_many_clients_and_rounds_are_drawn_in_part(tmp_path):
    n, rounds = 150, 200
    records = []
    for t in range(rounds):
        cohort = [t % n]
        chosen = {"cohort": cohort, "weights": [1.0], "answered": cohort, "names": [f"c{t % n}"]}
        records.append({**ROUNDS[3], **chosen, "round": t, "members": n, "present": "0-149", "available": n})
    history = digest(tmp_path, records, about={"names": [f"c{k}" for k in range(n)]}, facts={})
    strip = fates.draw_strip(history)
    assert {row["round"] for row in strip.tables["strip"]} <= set(range(120, 200))
    assert "The last 80 of 200 rounds." in strip.caption
    assert "The 100 of 150 clients that were chosen most often." in strip.caption
    assert [row["times"] for row in fates.draw_times_chosen(history).tables["how_many"]] == ["1", "2"]
    assert sum(row["clients"] for row in fates.draw_times_chosen(history).tables["how_many"]) == n
    spans = fates.draw_fates_by_round(history)
    assert len(spans.tables["fates"]) == 67
    assert "Means of 3 rounds." in spans.caption


def test_names_and_reasons_cannot_write_markup(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    records = [record(0, [0], [0], [], failed={"0": evil}, names=[evil], members=1)]
    text = page(tmp_path, records, about={"names": [evil], "method": evil}, facts={})
    assert "<img src=x" not in text
    assert "</script><" not in text.split('id="specs">')[1].split("</script>")[0]


def test_two_clients_whose_names_look_the_same_have_two_rows(tmp_path):
    history = digest(tmp_path, about={"names": ["x", "x", "y", "z", "w"]})
    assert fates.axis_names(history, np.arange(5)) == ["x (id 0)", "x (id 1)", "y", "z", "w"]


@pytest.mark.parametrize("source", ["run.npz", "run.npz.history.jsonl", ""])
def test_report_takes_checkpoint_history_or_folder(source, tmp_path):
    written(tmp_path)
    assert call("report", tmp_path / source) == f"open: {tmp_path / 'run.html'}\n"
    assert "Federation run" in (tmp_path / "run.html").read_text()


def test_charts_of_a_history_are_exported(tmp_path):
    written(tmp_path)
    call("report", tmp_path, "-o", tmp_path / "page.html", "--figures", tmp_path / "figures")
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"strip.png", "strip.svg", "fates.pdf", "seconds.png"} <= made
    assert [name for name in made if name.endswith(".tex")] == ["figures.tex"]


def test_what_cannot_be_had_of_a_history_is_refused_in_words(tmp_path):
    path = written(tmp_path / "a")
    other = written(tmp_path / "b")
    with pytest.raises(InputError, match="or the history of one federation; got 2 sources"):
        write([path, other])
    for command in ("watch", "export"):
        with pytest.raises(InputError, match=f"The folder of sortition {command} must be one with runs of a study"):
            call(command, tmp_path / "a")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"margin": 1.0}, "A margin"),
        ({"baseline": "oort"}, "A baseline"),
        ({"all_pairs": True}, "A choice of pairs"),
        ({"all_pairs": False}, "A choice of pairs"),
        ({"cost": "seconds"}, "A cost"),
        ({"methods": MethodChoice(only=["oort"])}, "A choice of methods"),
        ({"only": [Path("seed-0")]}, "A choice of run folders"),
        ({"figures": FigureFiles(Path("figures"), columns=["MB"])}, "A choice of columns"),
    ],
)
def test_options_of_a_study_are_refused_for_a_history(tmp_path, options, words):
    path = written(tmp_path)
    message = f"{words} works only for runs of a study, not for the history {path}, which has no test results."
    with pytest.raises(InputError, match=re.escape(message)):
        write([path], tmp_path / "page.html", **options)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("backend", ["flower", "nvflare", "server"])
def test_every_backend_has_a_name(backend, tmp_path):
    words = {"flower": "Flower", "nvflare": "NVIDIA FLARE", "server": "its own server"}
    assert f"run by {words[backend]}" in prose(page(tmp_path, about={**ABOUT, "backend": backend}))


@pytest.mark.parametrize("listed", [5, True, 0.5])
def test_needs_that_are_no_list_are_shown_as_they_stand(listed, tmp_path):
    history = written(tmp_path, about={**ABOUT, "needs": {**ABOUT["needs"], "reports": listed}})
    assert "What the server sees" in HistoryPage(condense_history(History(history))).render()
