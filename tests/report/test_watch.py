"""The live page: what it serves, what it keeps to itself, and how far the runs are."""

import http.client
import os
import threading
import time
import urllib.error
import urllib.request

import pytest
from tests.report.conftest import write_run

from sortition.core.errors import InputError, StorageError
from sortition.report.watch import Progress, Watcher, _serve, watch


@pytest.fixture
def growing(tmp_path):
    write_run(tmp_path / "runs", "uniform", 0, [0.2, 0.4, 0.6])
    home = write_run(tmp_path / "runs", "fedgs", 0, [0.3, 0.6, 0.8], done=False)
    lines = (home / "rounds.jsonl").read_text().splitlines(keepends=True)
    (home / "rounds.jsonl").write_text("".join(lines[:1]))
    return home, lines


def test_the_page_follows_the_runs(growing, tmp_path):
    home, lines = growing
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    first = watcher.look()
    assert (first.done, first.total, first.rounds, first.planned) == (1, 2, 4, 6)
    assert "So far, with 1 of 2 runs unfinished" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert watcher.version == 1
    assert watcher.look() and watcher.version == 1  # nothing new, nothing rewritten  # noqa: PT018
    (home / "rounds.jsonl").write_text("".join(lines))
    (home / "summary.json").write_text('{"status": "done"}')
    assert watcher.look().is_finished
    assert watcher.version == 2
    assert 'id="progress"' not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_it_is_served_on_loopback_and_nothing_else_is(growing, tmp_path):
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    watcher.look()
    server = _serve(watcher, 0)
    host, port = server.server_address
    assert host == "127.0.0.1"

    def get(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()

    try:
        assert 'fetch("progress")' in get("/")
        assert get("/progress").startswith("1\n1 of 2 runs done, 4 of 6 rounds")
        with pytest.raises(urllib.error.HTTPError) as refused:
            get("/../runs/main/uniform/seed-0/config.toml")
        refused.value.close()
        assert refused.value.code == 404
        with pytest.raises(InputError, match="--port must be free"):
            _serve(watcher, port)
    finally:
        server.shutdown()
        server.server_close()


def test_a_name_that_points_at_this_machine_is_refused(growing, tmp_path):
    """A site whose name was changed to 127.0.0.1 would read the page from the reader's browser."""
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    watcher.look()
    server = _serve(watcher, 0)
    port = server.server_address[1]

    def status(host):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/", headers={"Host": host})
        found = connection.getresponse().status
        connection.close()
        return found

    try:
        assert [status(f"{name}:{port}") for name in ("127.0.0.1", "localhost")] == [200, 200]
        assert status("localhost") == 200
        assert [status(host) for host in (f"evil.example:{port}", "evil.example", "")] == [421] * 3
    finally:
        server.shutdown()
        server.server_close()


def test_an_error_message_is_text_and_no_markup(growing, tmp_path, monkeypatch):
    def refuses(*_, **__):
        raise InputError("title must be a text; got <script>alert(1)</script>.")

    monkeypatch.setattr("sortition.report.watch.gather", refuses)
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    watcher.look()
    assert "<script>alert" not in watcher.page
    assert "&lt;script&gt;alert(1)" in watcher.page


def test_looks_from_several_threads_take_turns(growing, tmp_path, monkeypatch):
    inside, most = [], []

    def slow(path, content):
        inside.append(path)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()

    monkeypatch.setattr("sortition.report.watch.write_atomically", slow)
    monkeypatch.setattr(
        "sortition.report.watch.gather", lambda *_, **__: (_ for _ in ()).throw(InputError("nothing yet"))
    )
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    threads = [threading.Thread(target=watcher.look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]  # the others saw nothing new


def test_a_pipe_in_place_of_rounds_is_refused_and_not_waited_for(growing, tmp_path):
    home, _ = growing
    (home / "rounds.jsonl").unlink()
    os.mkfifo(home / "rounds.jsonl")
    with pytest.raises(StorageError, match="must be a file"):
        Watcher([tmp_path / "runs"], tmp_path / "page.html").look()


def test_it_ends_when_all_runs_are_done(tmp_path):
    write_run(tmp_path / "runs", "uniform", 0, [0.2, 0.4, 0.6])
    addresses, said = [], []
    page = watch([tmp_path / "runs"], every=0.01, port=0, say=said.append, ready=addresses.append)
    assert page == tmp_path / "runs" / "runs.html"
    assert addresses[0].startswith("http://127.0.0.1:")
    assert said == [f"{page}: 1 of 1 runs done, 3 of 3 rounds"]


def test_before_the_first_evaluation_there_is_a_page_too(tmp_path):
    home = write_run(tmp_path / "runs", "uniform", 0, [0.2], done=False)
    (home / "rounds.jsonl").write_text("")
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    assert watcher.look().rounds == 0
    assert "no evaluated round yet" in watcher.page


def test_before_the_first_run_the_page_waits_for_news(tmp_path):
    (tmp_path / "runs").mkdir()
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    assert watcher.look().text == "no runs yet"
    assert not watcher.look().is_finished
    for part in ('id="progress"', 'fetch("progress")'):
        assert part in watcher.page
    write_run(tmp_path / "runs", "uniform", 0, [0.2, 0.4])
    assert watcher.look().is_finished
    assert 'fetch("progress")' not in watcher.page


def test_looks_between_two_rounds_do_not_hide_the_pace(growing, tmp_path, monkeypatch):
    home, lines = growing
    now = 0.0
    monkeypatch.setattr("sortition.report.watch.time.monotonic", lambda: now)
    watcher = Watcher([tmp_path / "runs"], tmp_path / "page.html")
    assert watcher.look().seconds_left is None
    now = 100.0
    (home / "rounds.jsonl").write_text("".join(lines[:2]))
    assert watcher.look().seconds_left == 100.0  # one more round
    for _ in range(40):  # a browser looks every 2 s
        now += 2.0
        assert watcher.look().seconds_left == 100.0


@pytest.mark.parametrize(("seconds", "words"), [(20, "20 s"), (600, "10 min"), (7200, "2.0 h")])
def test_the_time_left_in_words(seconds, words):
    assert Progress(1, 2, 5, 10, seconds).text.endswith(f"about {words} left")


def test_runs_that_have_not_begun_count(growing, tmp_path):
    (tmp_path / "runs" / "study.json").write_text('{"runs": 5}')
    now = Watcher([tmp_path / "runs"], tmp_path / "page.html").look()
    assert (now.done, now.total, now.planned) == (1, 5, 15)
