"""A study in one file, for a co-author: records, configurations, hashes and a page, as a ZIP archive.

A pack may come from anybody. It is opened into a fresh folder, and only if it is what :func:`write_pack` writes: the
files of run folders under plain names, none of them a link, no larger than announced, each with the SHA-256 that the
list of contents has. Its page is for readers without Sortition; ``sortition report`` makes a new one from the records.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from sortition.core.errors import InputError, StorageError, show_value
from sortition.core.storage.safe_files import LONGEST_TEXT, check_format, open_regular
from sortition.results import run_folder

ENDING = ".zip"
FORMAT = 1
RUNS = "runs"  # the folder of an archive that holds the study
CONTENTS = "contents.json"
PACKED_FILES = tuple(
    name for name in run_folder.FILES if name not in (run_folder.CHECKPOINT, run_folder.FAILURE)
)  # a checkpoint is the model, and a failure names folders of the machine
MOST_FILES = 200_000
ALWAYS_ALLOWED = 1 << 30  # bytes that any pack may unpack to
LARGEST_RATIO = 100  # beyond that, so many times its own size
MOST_PARTS = 8  # of a path in the archive
LONGEST_PART = 255  # bytes of a folder's or file's name
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # LZMA takes as much memory as a file says
PIECE = 1 << 20  # bytes that are copied at once
OLDEST = (1980, 1, 1, 0, 0, 0)  # the date of all files, so that an archive says nothing of the machine


def is_pack(source: str | Path) -> bool:
    """Tell whether a source is a pack by its name, and not a folder."""
    path = Path(source)
    return path.suffix.lower() == ENDING and not path.is_dir()


def write_pack(folder: Path, out: Path, *, documents: Mapping[str, bytes], code: Mapping[str, str]) -> list[str]:
    """Write the runs of a folder into one archive, whole or not at all, and return the names of its files.

    Args:
        folder: the folder of a study.
        out: the archive.
        documents: name → content of what lies beside the runs, such as the page.
        code: name → SHA-256 of the code that ran.
    """
    paths = _files_of(folder)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file, zipfile.ZipFile(file, "w") as archive:
            digests = {name: _add(archive, name, content) for name, content in documents.items()}
            for name, path in paths.items():
                digests[name] = _add_file(archive, name, path)
            contents = {"format": FORMAT, "code": dict(code), "files": digests}
            _add(archive, CONTENTS, json.dumps(contents, indent=1, sort_keys=True).encode())
        with zipfile.ZipFile(temporary) as archive:
            _checked_members(archive, temporary, tuple(documents))
        temporary.replace(out)
    except OSError as error:
        raise StorageError(f"{out} could not be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return [*digests, CONTENTS]


def _files_of(folder: Path) -> dict[str, Path]:
    """Return the files of a study by their names in an archive; refuse links, which may lead anywhere."""
    folders = {run.path for run in run_folder.find(folder)}
    if not folders:
        raise InputError(f"{folder} must be a folder with runs; got none.")
    indices = [path for path in folder.rglob(run_folder.INDEX) if path.is_file()]
    paths: dict[Path, None] = dict.fromkeys(indices)
    for run in sorted(folders):
        paths |= {run / name: None for name in PACKED_FILES if (run / name).exists()}
    named = {}
    for path in paths:
        if path.is_symlink():
            raise StorageError(f"{path} must be a file; got a link.")
        named[str(PurePosixPath(RUNS, *path.relative_to(folder).parts))] = path
    return named


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> str:
    """Add a file with this content, and return its SHA-256."""
    archive.writestr(_member(name), content)
    return hashlib.sha256(content).hexdigest()


def _add_file(archive: zipfile.ZipFile, name: str, path: Path) -> str:
    """Add a file piece by piece, and return its SHA-256."""
    digest = hashlib.sha256()
    with open_regular(path) as source, archive.open(_member(name), "w", force_zip64=True) as target:
        while piece := source.read(PIECE):
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, OLDEST)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


@contextmanager
def unpacked(sources: Sequence[str | Path], documents: Sequence[str] = ()) -> Iterator[list[Path]]:
    """Give the folders that sources mean while the context lasts: those of packs are temporary.

    Args:
        sources: folders, histories and packs.
        documents: the files that may lie beside the runs of a pack.
    """
    with ExitStack() as stack:
        yield [
            stack.enter_context(_unpacked(Path(source), documents)) if is_pack(source) else Path(source)
            for source in sources
        ]


@contextmanager
def _unpacked(path: Path, documents: Sequence[str]) -> Iterator[Path]:
    """Give a temporary folder with the runs of a pack; it has the pack's name, which a report may show."""
    parent = Path(tempfile.mkdtemp(prefix="sortition-pack-"))
    try:
        folder = parent / (path.stem.strip(". ") or "pack")
        folder.mkdir()
        _unpack(path, folder, documents)
        yield folder
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def _unpack(path: Path, folder: Path, documents: Sequence[str]) -> None:
    """Write the runs of a pack into an empty folder, after all that it announces has been checked."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            members = _checked_members(archive, path, documents)
            digests = _digests(archive, members, path)
            for name, member in members.items():
                if name == CONTENTS:
                    continue
                target = None
                if name not in documents:
                    target = folder.joinpath(*PurePosixPath(name).parts[1:])
                digest = _copy(archive, member, target)
                if digest != digests[name]:
                    raise StorageError(f"{path} is damaged: {show_value(name)} has not the SHA-256 of its contents.")
    except FileNotFoundError:
        raise InputError(f"{path} must be a folder of runs or a pack; got nothing there.") from None
    except StorageError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, RuntimeError, OSError, zlib.error) as error:
        raise StorageError(f"{path} cannot be opened as a pack: {error}.") from None


def _checked_members(archive: zipfile.ZipFile, path: Path, documents: Sequence[str]) -> dict[str, zipfile.ZipInfo]:
    """Return the files of an archive by name; refuse one that no study's pack has."""
    listed = archive.infolist()
    if len(listed) > MOST_FILES:
        raise StorageError(f"{path} must have at most {MOST_FILES:,} files; got {len(listed):,}.")
    members: dict[str, zipfile.ZipInfo] = {}
    folded: set[str] = set()
    for member in listed:
        problem = _member_fault(member, documents)
        if not problem and member.filename.casefold() in folded:
            problem = "stands there twice"
        if problem:
            raise StorageError(f"{path} is no pack of a study: {show_value(member.filename)} {problem}.")
        folded.add(member.filename.casefold())
        members[member.filename] = member
    announced = sum(member.file_size for member in listed)
    limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * sum(member.compress_size for member in listed))
    if announced > limit:
        raise StorageError(f"{path} would unpack to {announced:,} bytes, more than the {limit:,} that its size allows.")
    return members


def _member_fault(member: zipfile.ZipInfo, documents: Sequence[str]) -> str:
    """Say what is wrong with a file of an archive; empty where nothing is."""
    name = member.orig_filename
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or member.is_dir():
        return "is no file but a link, a folder or a device"
    if member.flag_bits & 1:
        return "is encrypted"
    if member.compress_type not in COMPRESSIONS:
        return "is compressed in another way than a pack"
    if name in (CONTENTS, *documents):
        return ""
    parts = name.split("/")
    if parts[0] != RUNS or not 2 <= len(parts) <= MOST_PARTS or parts[-1] not in PACKED_FILES:
        return "is no file of a run"
    for part in parts:
        is_plain = part.isprintable() and not set(part) & set('\\:*?"<>|')
        if not part.strip(". ") or not is_plain or len(part.encode(errors="replace")) > LONGEST_PART:
            return "has a name that leads elsewhere or cannot be written everywhere"
    return ""


def _digests(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], path: Path) -> dict[str, str]:
    """Return the SHA-256 that the list of contents has of each file; refuse a list that is not of these files."""
    if CONTENTS not in members:
        raise StorageError(f"{path} is no pack of a study: it has no {CONTENTS}.")
    with archive.open(members[CONTENTS]) as file:
        text = file.read(min(members[CONTENTS].file_size, LONGEST_TEXT))
    try:
        contents: Any = json.loads(text)
        stored_format = contents["format"]
        digests = {str(name): str(digest) for name, digest in contents["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StorageError(f"{path} is damaged: its {CONTENTS} cannot be read.") from None
    check_format(str(path), stored_format, FORMAT)
    if set(digests) != set(members) - {CONTENTS}:
        raise StorageError(f"{path} is damaged: its {CONTENTS} lists other files than it has.")
    return digests


def _copy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path | None) -> str:
    """Read a file to its end, at most as far as announced; write it to a new file where one is given."""
    digest = hashlib.sha256()
    with ExitStack() as stack:
        source = stack.enter_context(archive.open(member))
        file: IO[bytes] | None = None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(target.open("xb"))
        bytes_left = member.file_size
        while piece := source.read(min(PIECE, bytes_left + 1)):
            bytes_left -= len(piece)
            if bytes_left < 0:
                raise ValueError(f"{show_value(member.filename)} is larger than announced")
            digest.update(piece)
            if file is not None:
                file.write(piece)
    return digest.hexdigest()
