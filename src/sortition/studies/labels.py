"""Names that users give to methods and settings: they become folders, and readers must be able to tell them apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from sortition import selectors
from sortition.core.errors import bad

LONGEST = 100  # characters
LONGEST_BYTES = 200  # a folder's name has at most 255 bytes on most file systems
FORBIDDEN = frozenset('/\\:*?"<>|')
# names that Windows keeps for devices, with any ending
DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³")}
)
# letters that are drawn as Latin ones, in Cyrillic and in Greek
CYRILLIC = str.maketrans("асеіјорѕхуһԁԛԝѵАВЕКМНОРСТХ", "aceijopsxyhdqwvABEKMHOPCTX")
GREEK = str.maketrans("ονΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ovABEZHIKMNOPTYX")
AS_LATIN = CYRILLIC | GREEK


def names_folder(text: str) -> bool:
    """Whether a text can name a folder on any system, and leads nowhere else."""
    if not 0 < len(text) <= LONGEST or len(text.encode(errors="replace")) > LONGEST_BYTES:
        return False
    if text[0] in ". " or text[-1] in ". " or text.partition(".")[0].strip().casefold() in DEVICES:
        return False
    return text.isprintable() and not set(text) & FORBIDDEN


def as_seen(text: str) -> str:
    """The text as a reader sees it: composed characters, and Latin letters for those that look like them."""
    return unicodedata.normalize("NFKC", text).translate(AS_LATIN)


def check_distinct(who: str, names: Iterable[str]) -> None:
    """Refuse names that differ for a computer alone: by case, by composition or by letters that look the same."""
    seen: dict[str, str] = {}
    for name in names:
        key = as_seen(name).casefold()
        if key in seen:
            hint = "Give one of them another name." if seen[key] == name else f"It reads like {seen[key]!r}."
            raise bad(who, "unique in a study", name, hint)
        seen[key] = name


def check_honest(names_by_label: Mapping[str, str]) -> None:
    """Refuse a label that is the name of another method, or looks like it; labels are given with their method."""
    known: Sequence[str] = [*selectors.discover(), *selectors.ALIASES]
    for label, name in names_by_label.items():
        seen = as_seen(label)
        if ":" not in name:  # a class of one's own may have the name of a method, in its own spelling
            seen = seen.casefold()
        method = name.replace("_", "-")
        same = {method, selectors.ALIASES.get(method, method)}
        if seen in known and not ({seen, selectors.ALIASES.get(seen, seen)} & same and label.isascii()):
            raise bad("method.label", f"no name of another method; this one is {name}", label)
