"""``sortition pack``: a study in one file, with a page and the paragraph of a paper beside its records."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sortition.report.gather import Gathered, gather
from sortition.report.methods_paragraph import write_methods_paragraph
from sortition.report.page import Page
from sortition.results.pack import write_pack

PAGE = "report.html"
PARAGRAPH = "methods.md"
DOCUMENTS = (PAGE, PARAGRAPH)  # what lies beside the runs of a pack


def pack_study(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write a study into one file: records, configurations, hashes of data and code, a page and a paragraph.

    Args:
        folder: the folder of the study's runs.
        out: the file. Default: beside the folder, with its name.
    """
    study = Path(folder)
    gathered = gather([study])
    if out is None:
        path = study.resolve().with_name(f"{study.resolve().name}.zip")
    else:
        path = Path(out)
    documents = {PAGE: Page(gathered).render().encode()}
    if any(run.done for run in gathered.runs):
        documents[PARAGRAPH] = f"{write_methods_paragraph(gathered)}\n".encode()
    write_pack(study, path, documents=documents, code=_code_digests(gathered))
    return path


def _code_digests(gathered: Gathered) -> dict[str, str]:
    """Return the SHA-256 of the code of this Sortition, and of the users' code that the runs name."""
    digests = {"sortition (that packed)": package_digest()}
    for run in gathered.runs:
        digests |= {str(name): str(digest) for name, digest in (run.manifest.get("python") or {}).items()}
    return digests


def package_digest() -> str:
    """Return the SHA-256 of all Python files of this package, by name and content."""
    digest = hashlib.sha256()
    for name, content in sorted(_python_files(files("sortition"), "")):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _python_files(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    """Return path and content of all Python files below a folder."""
    named_contents: list[tuple[str, bytes]] = []
    for item in folder.iterdir():
        if item.is_dir():
            named_contents += _python_files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".py"):
            named_contents.append((f"{prefix}{item.name}", item.read_bytes()))
    return named_contents
