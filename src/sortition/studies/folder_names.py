"""Names that users give to methods and settings: they become folders, and readers must be able to tell them apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

from sortition import selectors
from sortition.core.errors import bad

MAX_CHARACTERS = 100
MAX_BYTES = 200  # a folder's name has at most 255 bytes on most file systems
FORBIDDEN = frozenset('/\\:*?"<>|')
# names that Windows keeps for devices, with any ending
DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in "123456789¹²³")}
)
# letters that are drawn as Latin ones, in Cyrillic and in Greek
CYRILLIC = str.maketrans("асеіјорѕхуһԁԛԝѵАВЕКМНОРСТХ", "aceijopsxyhdqwvABEKMHOPCTX")
GREEK = str.maketrans("ονΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ovABEZHIKMNOPTYX")
AS_LATIN = CYRILLIC | GREEK


def can_name_folder(text: str) -> bool:
    """Tell whether a text can name a folder on any system, and leads nowhere else."""
    if not 0 < len(text) <= MAX_CHARACTERS or len(text.encode(errors="replace")) > MAX_BYTES:
        return False
    if text[0] in ". " or text[-1] in ". " or text.partition(".")[0].strip().casefold() in DEVICES:
        return False
    return text.isprintable() and not set(text) & FORBIDDEN


def as_seen(text: str) -> str:
    """Return the text as a reader sees it: composed characters, and Latin letters for those that look like them."""
    return unicodedata.normalize("NFKC", text).translate(AS_LATIN)


def check_distinct(subject: str, names: Iterable[str]) -> None:
    """Refuse names that differ for a computer alone: by case, by composition or by letters that look the same."""
    name_by_look: dict[str, str] = {}
    for name in names:
        look = as_seen(name).casefold()
        if look in name_by_look:
            other_name = name_by_look[look]
            if other_name == name:
                hint = "Give one of them another name."
            else:
                hint = f"It reads like {other_name!r}."
            raise bad(subject, "unique in a study", name, hint)
        name_by_look[look] = name


def check_honest(names_by_label: Mapping[str, str]) -> None:
    """Refuse a label that is the name of another method, or looks like it; labels are given with their method."""
    method_names = {*selectors.discover(), *selectors.ALIASES}
    for label, name in names_by_label.items():
        look = as_seen(label)
        if ":" not in name:  # a class of one's own may have the name of a method, in its own spelling
            look = look.casefold()
        method = name.replace("_", "-")
        own_names = {method, selectors.ALIASES.get(method, method)}
        names_this_method = label.isascii() and bool({look, selectors.ALIASES.get(look, look)} & own_names)
        if look in method_names and not names_this_method:
            raise bad("method.label", f"no name of another method; this one is {name}", label)
