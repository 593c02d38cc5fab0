"""Figures on how the lines of ``src/`` read, room by room: vague names, conditional expressions, tuple assignments.

The figures are symptoms to think about, not limits: no test enforces them.
``python -m campaign readability`` prints one row per room; ``--places ROOM`` lists the lines behind the figures.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sortition"

_VAGUE_WORDS = """
about again all_of answered around asked at away back before begun bound both called came chosen_of
come cut done drawn each either else_ ended far few first_of following for_ found from_ full gone
given gives got had has held here his how its just kept known last_of later least left less like
made many met mine missing more most much near new now of old on one ones only open_ other others
out over own parted per put read rest said same seen sent set_ shown side so some state_of such
taken tell than that their theirs them then there these they thing things this those till to_ told
tried two under until_ up upon used wanted way what when where which while_ who whole whom whose
with_ within without words_of yet
"""

VAGUE_NAMES = frozenset(_VAGUE_WORDS.split())
"""Names that do not say what the thing is. Some are fair words in their place; they are counted all the same."""

SKIPPED_TOKENS = frozenset(
    {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
)


@dataclass
class Figures:
    """What was counted in one or more files."""

    lines: int = 0
    statements: int = 0
    tokens: int = 0
    names: int = 0
    places: dict[str, list[str]] = field(default_factory=dict)
    vague: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, place: str) -> None:
        """Remember one place of a kind."""
        self.places.setdefault(kind, []).append(place)

    def count(self, kind: str) -> int:
        """How many places of a kind were met."""
        return len(self.places.get(kind, ()))

    def per_thousand(self, kind: str, of: int) -> float:
        """Places of a kind per thousand lines or statements."""
        return 1000 * self.count(kind) / max(of, 1)


def _assigned_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def _is_tuple_assignment(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def _is_any(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "Any" and isinstance(node.ctx, ast.Load)


def _has_many_positional(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and len(node.args) >= 5


def measure(path: Path, figures: Figures) -> None:
    """Add the figures of one file."""
    text = path.read_text()
    tree = ast.parse(text)
    figures.lines += len(text.splitlines())
    figures.statements += sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    figures.tokens += sum(token.type not in SKIPPED_TOKENS for token in tokens)
    for name, line in _assigned_names(tree):
        figures.names += 1
        if name.strip("_") in VAGUE_NAMES:
            figures.vague[name] += 1
            figures.add("vague name", f"{path}:{line} {name}")
    for node in ast.walk(tree):
        place = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.IfExp):
            figures.add("conditional expression", place)
        if _is_tuple_assignment(node):
            figures.add("tuple assignment", place)
        if _is_any(node):
            figures.add("Any", place)
        if _has_many_positional(node):
            figures.add("five positional arguments", place)


def measure_room(room: str) -> Figures:
    """Measure one room of the package, or the whole package (an empty name)."""
    figures = Figures()
    for path in sorted((SOURCE / room).rglob("*.py")):
        measure(path, figures)
    return figures


def table() -> str:
    """One row per room and one for all: the figures of the table in the notes on readability."""
    rooms = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
    header = f"{'room':14}{'lines':>7}{'vague %':>9}{'ifexp':>7}{'tuple':>7}{'Any':>6}{'5 args':>8}{'tokens':>8}"
    rows = [header]
    for room in [*rooms, ""]:
        figures = measure_room(room)
        rows.append(
            f"{room or 'all':14}{figures.lines:7}"
            f"{100 * figures.count('vague name') / max(figures.names, 1):9.2f}"
            f"{figures.per_thousand('conditional expression', of=figures.lines):7.1f}"
            f"{figures.per_thousand('tuple assignment', of=figures.statements):7.1f}"
            f"{figures.per_thousand('Any', of=figures.lines):6.1f}"
            f"{figures.per_thousand('five positional arguments', of=figures.lines):8.1f}"
            f"{figures.tokens / max(figures.statements, 1):8.1f}"
        )
    return "\n".join(rows)


def places(room: str) -> str:
    """The lines behind the figures of one room."""
    figures = measure_room(room)
    lines = []
    for kind, places_of_kind in sorted(figures.places.items()):
        lines.append(f"{kind}: {len(places_of_kind)}")
        lines.extend(f"  {place}" for place in places_of_kind)
    return "\n".join(lines)


def report(room: str | None) -> int:
    """Print the table, or the places of one room."""
    print(table() if room is None else places(room))
    return 0
