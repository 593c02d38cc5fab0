"""The pictures of the documentation: the demo's report, photographed by a headless Chromium.

make screenshots                                  # runs the demo where it is not there yet, then takes the pictures
python benchmarks/screenshots.py demo/runs        # of other runs
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from sortition.report import write

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, MOST = 1280, 400_000  # pixels, bytes
SHOTS = {"report-overview": ("", 906), "report-selected": ("selected", 1000)}  # name → section, height


def photograph(page: Path, section: str, height: int, out: Path, browser: str) -> None:
    """One part of the page at the width of a laptop."""
    with tempfile.TemporaryDirectory() as profile:
        text = page.read_text(encoding="utf-8")
        if section:  # the section alone, so that nothing has to be scrolled
            style = (
                f"<style>header, nav, main > :not(#{section}) {{ display: none }} h2 {{ margin-top: 0 }}</style></head>"
            )
            text = text.replace("</head>", style, 1)
        shown = Path(profile) / "page.html"
        shown.write_text(text, encoding="utf-8")
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
            "--hide-scrollbars", f"--user-data-dir={profile}/profile", f"--window-size={WIDTH},{height}",
            "--virtual-time-budget=30000", f"--screenshot={out}", f"{shown.as_uri()}#all",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    Image.open(out).convert("RGB").save(out, optimize=True)
    if out.stat().st_size > MOST:
        raise SystemExit(f"{out} has {out.stat().st_size:,} bytes, more than {MOST:,}")
    print(out, f"{out.stat().st_size:,} bytes")


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium must be installed for the pictures, and is not.")
    with tempfile.TemporaryDirectory() as folder:
        page = write([sys.argv[1] if len(sys.argv) > 1 else "demo/runs"], Path(folder) / "page.html")
        for name, (section, height) in SHOTS.items():
            photograph(page, section, height, IMAGES / f"{name}.png", browser)


if __name__ == "__main__":
    main()
