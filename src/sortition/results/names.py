"""What clients are called: the stable names of a federation beside their ids, in every sentence and table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from sortition.core.errors import InputError, StorageError, bad, printable, show_value, suggest_name
from sortition.core.storage.safe_files import read_regular

LISTED = 12  # clients that a sentence lists
NAMES_RULE = 'a JSON list of names by id, or a table that has one under "names", as NAME.about.json'


class ClientNames:
    """Names of clients by id. Clients without a name are called by their id.

    Names come from the clients themselves: what cannot be printed is shown by its code.

    Args:
        names: the name of each id that is known.
    """

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        self._names = dict(names or {})

    def __bool__(self) -> bool:
        return bool(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def short_name(self, client: int) -> str:
        """Return the name alone, or the id where there is none: for axes and tables that have a column of ids."""
        return printable(self._names.get(client, str(client)))

    def name_with_id(self, client: int) -> str:
        """Return the name with its id, ``hospital-2 (id 4)``; ``client 4`` without a name, or where it is the id."""
        name = self.short_name(client)
        if name == str(client):
            return f"client {client}"
        return f"{name} (id {client})"

    def sentence_start(self, client: int) -> str:
        """Return what a sentence calls a client that it begins with: ``Client 4``; a name keeps its first letter."""
        text = self.name_with_id(client)
        if text == f"client {client}":
            return f"Client {client}"
        return text

    def list_clients(self, clients: Iterable[int], most: int = LISTED) -> str:
        """List clients with commas between them, by bare ids where they have no names."""
        ids = list(clients)
        texts = [self.name_with_id(client).removeprefix("client ") for client in ids[:most]]
        if len(ids) > most:
            texts.append("…")
        return ", ".join(texts)

    def find(self, text: str, n_known: int, when: str) -> int:
        """Return the id of the client that a user means by a name or an id.

        Args:
            text: a name, an id, or ``name:…`` and ``id:…`` where a text could be either.
            n_known: how many clients there were.
            when: in which round that was, in the words of the message.
        """
        by_name = [
            client for client, name in self._names.items() if text in (name, f"name:{name}") and client < n_known
        ]
        digits = text.removeprefix("id:")
        is_id = digits.isascii() and digits.isdigit() and len(digits) < 20
        candidates = set(by_name)
        if is_id and int(digits) < n_known:
            candidates.add(int(digits))
        if len(candidates) == 1:
            return candidates.pop()
        if candidates:
            meant = " and ".join(self.name_with_id(client) for client in sorted(candidates))
            raise bad("--client", "one client", f"{text!r}, which means {meant}", f"Write id:{text} or name:{text}.")
        rule = f"0 to {n_known - 1}, the clients known {when}"
        if not self._names:
            hint = ""
            if not is_id:
                hint = "No names of clients are known here: --names gives a file of them."
            raise bad("--client", rule, text, hint)
        raise bad(
            "--client", f"the name of a client, or {rule}", text, suggest_name(text, self._names.values()).strip()
        )


def names_by_id(names: Iterable[str]) -> ClientNames:
    """Return names that are given in the order of their ids."""
    return ClientNames(dict(enumerate(names)))


def read_names(path: Path) -> ClientNames:
    """Read names from a file that the user gives: NAME.about.json, a disclosure with names, or a bare list."""
    try:
        content: object = json.loads(read_regular(path))
    except FileNotFoundError:
        raise InputError(f"--names must be {NAMES_RULE}; got {path}, which does not exist.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None
    if isinstance(content, dict):
        names = content.get("names")
    else:
        names = content
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"--names must be {NAMES_RULE}; got {show_value(names)} in {path}.")
    return names_by_id(names)
