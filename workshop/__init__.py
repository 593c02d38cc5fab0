"""The project's own workshop: it writes the tables, pages and pictures that README and docs show.

It is not part of the package and not in the wheel. ``python -m workshop --help`` lists what it writes.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
