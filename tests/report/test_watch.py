"""The live page: what it serves, what it keeps to itself, and how far the runs are."""

import urllib.error
import urllib.request

import pytest
from tests.report.conftest import write_run

from sortition.core.errors import InputError
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
    assert watcher.look().finished
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


@pytest.mark.parametrize(("seconds", "words"), [(20, "20 s"), (600, "10 min"), (7200, "2.0 h")])
def test_the_time_left_in_words(seconds, words):
    assert Progress(1, 2, 5, 10, seconds).text.endswith(f"about {words} left")
