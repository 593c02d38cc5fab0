"""A study in one file: what is in it, that it opens elsewhere, and that nothing else opens."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile

import pytest
from tests.report.conftest import write_run
from tests.test_cli import call

from sortition.core.errors import InputError, StorageError
from sortition.report import pack_with_page as report_pack
from sortition.report import write
from sortition.report.pack_with_page import DOCUMENTS, pack_study
from sortition.results import pack as packs
from sortition.results.pack import CONTENTS, unpacked

RUN = "runs/main/uniform/seed-0"


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "mine"
    for seed in range(3):
        write_run(folder, "uniform", seed, [0.4, 0.5 + seed / 100])
        write_run(folder, "fedgs", seed, [0.4, 0.7 + seed / 99])
    (folder / "main" / "uniform" / "seed-0" / "checkpoint.npz").write_bytes(b"the model")
    (folder / "main" / "uniform" / "seed-0" / "failure.log").write_text("in /home/somebody")
    (folder / "main" / "uniform" / "seed-0" / "notes.txt").write_text("private")
    return folder


def opened(path):
    """What a pack holds under its runs, by name."""
    with unpacked([path], DOCUMENTS) as (folder,):
        files = [file for file in folder.rglob("*") if file.is_file()]
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def archive(path, files, *, attributes=(), listed=None):
    """Write an archive with a list of contents that fits, unless another is given."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    contents = {"format": 1, "code": {}, "files": digests if listed is None else listed}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in [*files.items(), (CONTENTS, json.dumps(contents).encode())]:
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = dict(attributes).get(name, stat.S_IFREG | 0o644) << 16
            target.writestr(member, content)
    return path


def test_a_pack_opens_as_the_same_runs(runs, tmp_path):
    path = pack_study(runs)
    assert path == tmp_path / "mine.zip"
    files = opened(path)
    assert files["main/fedgs/seed-2/rounds.jsonl"] == (runs / "main/fedgs/seed-2/rounds.jsonl").read_bytes()
    assert not any(name.endswith(("checkpoint.npz", "failure.log", "notes.txt")) for name in files)
    with zipfile.ZipFile(path) as inside:
        contents = json.loads(inside.read(CONTENTS))
        assert "beats uniform" in inside.read("report.html").decode()
        assert inside.read("methods.md").decode().startswith("We compare fedgs [fedgs] and uniform")
    assert contents["code"] == {"sortition (that packed)": report_pack.package_digest()}


def test_run_folders_are_not_chosen_from_a_pack(runs, tmp_path):
    path = pack_study(runs)
    with pytest.raises(InputError, match="A choice of run folders must be made among folders; got the pack "):
        write([runs, path], tmp_path / "page.html", only=[runs / "main" / "fedgs" / "seed-0"])
    assert not (tmp_path / "page.html").exists()


def test_report_and_cite_open_a_pack(runs, tmp_path):
    call("pack", runs, "-o", tmp_path / "sent" / "study.zip")
    said = call("report", tmp_path / "sent" / "study.zip")
    assert said == f"open: {tmp_path / 'sent' / 'study.html'}\n"
    page = (tmp_path / "sent" / "study.html").read_text()
    assert "fedgs beats uniform" in page
    assert "<h1>study</h1>" in page
    assert call("cite", tmp_path / "sent" / "study.zip") == call("cite", runs)


def test_the_page_of_a_pack_is_made_anew(runs, tmp_path):
    path = pack_study(runs)
    with zipfile.ZipFile(path) as source:
        files = {name: source.read(name) for name in source.namelist() if name != CONTENTS}
    files["report.html"] = b"<script>stolen()</script>"
    call("report", archive(tmp_path / "other.zip", files), "-o", tmp_path / "page.html")
    assert "stolen" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "../config.toml", "runs/../../config.toml", "/runs/config.toml", "runs//config.toml",
        "runs/..\\..\\config.toml",
        "C:/runs/config.toml", "runs/C:/config.toml", "runs/a/evil.py", "runs/a/checkpoint.npz", "other/config.toml",
        "runs/ /config.toml", "runs/a\nb/config.toml", "runs/a\x00b/config.toml", f"runs/{'a' * 300}/config.toml",
        "runs/" + "a/" * 9 + "config.toml", "evil.html",
    ],
)  # fmt: skip
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    with pytest.raises(StorageError, match="no pack of a study"):
        opened(archive(tmp_path / "a.zip", {name: b"x"}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"]


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_are_refused(tmp_path, kind):
    name = f"{RUN}/config.toml"
    with pytest.raises(StorageError, match="is no file but a link, a folder or a device"):
        opened(archive(tmp_path / "a.zip", {name: b"/etc/passwd"}, attributes={name: kind | 0o777}))


def test_names_that_some_systems_take_for_one_are_refused(tmp_path):
    files = {f"{RUN}/config.toml": b"x", f"{RUN.upper().replace('RUNS', 'runs')}/config.toml": b"y"}
    with pytest.raises(StorageError, match="stands there twice"):
        opened(archive(tmp_path / "a.zip", files))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "ALWAYS_ALLOWED", 1000)
    with pytest.raises(StorageError, match="would unpack to 1,000,"):
        opened(archive(tmp_path / "a.zip", {f"{RUN}/rounds.jsonl": b"0" * 1_000_000}))


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packs, "MOST_FILES", 2)
    with pytest.raises(StorageError, match="at most 2 files; got 3"):
        opened(archive(tmp_path / "a.zip", {f"{RUN}/rounds.jsonl": b"", f"{RUN}/config.toml": b""}))


@pytest.mark.parametrize("listed", [{}, {f"{RUN}/config.toml": "00"}, {"runs/more/config.toml": "00"}, ["x"], None])
def test_a_file_that_is_not_what_the_contents_say_is_refused(tmp_path, listed):
    path = archive(tmp_path / "a.zip", {f"{RUN}/config.toml": b"x"}, listed=listed)
    if listed is None:
        assert opened(path) == {"main/uniform/seed-0/config.toml": b"x"}
        return
    with pytest.raises(StorageError, match="damaged"):
        opened(path)


def test_every_flipped_byte_is_refused_or_harmless(runs):
    path = pack_study(runs)
    sound = opened(path)
    content = path.read_bytes()
    for position in range(0, len(content), len(content) // 60):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        try:
            assert opened(path) == sound
        except (StorageError, InputError):
            continue


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", b"PK\x05\x06" + b"\0" * 18])
def test_what_is_no_archive_is_refused_in_a_sentence(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(StorageError, match=r"a\.zip (cannot be opened as a pack|is no pack of a study)"):
        opened(tmp_path / "a.zip")


def test_a_pack_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InputError, match="must be a folder of runs or a pack; got nothing there"):
        call("report", tmp_path / "a.zip")


def test_a_link_in_a_run_folder_is_not_packed(runs, tmp_path):
    (tmp_path / "secret").write_text("secret")
    records = runs / "main" / "uniform" / "seed-1" / "timings.jsonl"
    records.unlink(missing_ok=True)
    records.symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError, match=r"timings\.jsonl must be a file; got a link"):
        packs.write_pack(runs, tmp_path / "a.zip", documents={}, code={})
    assert not (tmp_path / "a.zip").exists()


def test_nothing_stays_in_the_temporary_folder(runs, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    path = pack_study(runs)
    opened(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StorageError):
        opened(path)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_than_a_pack_has_are_refused(tmp_path, kind):
    """What LZMA announces, up to 4 GiB, would be allocated before anything is read."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", kind) as file:
        file.writestr(CONTENTS, json.dumps({"format": 1, "code": {}, "files": {}}))
    damaged = bytearray(path.read_bytes())
    begin = damaged.find(CONTENTS.encode()) + len(CONTENTS)
    damaged[begin + 9 : begin + 30] = b"\xff" * 21
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match="is compressed in another way than a pack"), unpacked([path]):
        pass
