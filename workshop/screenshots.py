"""The pictures of the demo's report in docs/images, taken by a headless Chromium (``make screenshots``)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

from sortition.report import write
from workshop import DOCS

WIDTH = 1280  # pixels
LARGEST = 400_000  # bytes of a picture
SHOTS = {  # name → section of the page, or all of it; height in pixels
    "report-overview": ("", 906),
    "report-selected": ("selected", 1000),
}


def take_screenshots(runs: Path) -> None:
    """Write the report of some runs to a temporary file, and its pictures to docs/images."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium must be installed for the pictures, and is not.")
    with tempfile.TemporaryDirectory() as folder:
        page = write([str(runs)], Path(folder) / "page.html")
        for name, (section, height) in SHOTS.items():
            photograph(
                page=page,
                section=section,
                height=height,
                picture=DOCS / "images" / f"{name}.png",
                browser=browser,
            )


def photograph(*, page: Path, section: str, height: int, picture: Path, browser: str) -> None:
    """Take a picture of one section of the page, or of its beginning, at the width of a laptop."""
    with tempfile.TemporaryDirectory() as profile:
        text = page.read_text(encoding="utf-8")
        if section:  # the section alone, so that nothing has to be scrolled
            style = (
                f"<style>header, nav, main > :not(#{section}) {{ display: none }} h2 {{ margin-top: 0 }}</style></head>"
            )
            text = text.replace("</head>", style, 1)
        html = Path(profile) / "page.html"
        html.write_text(text, encoding="utf-8")
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
            "--hide-scrollbars", f"--user-data-dir={profile}/profile", f"--window-size={WIDTH},{height}",
            "--virtual-time-budget=30000", f"--screenshot={picture}", f"{html.as_uri()}#all",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    Image.open(picture).convert("RGB").save(picture, optimize=True)
    size = picture.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{picture} has {size:,} bytes, more than {LARGEST:,}")
    print(picture, f"{size:,} bytes")
