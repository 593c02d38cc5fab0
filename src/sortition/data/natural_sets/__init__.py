"""Real data whose clients are given by the data: aircraft, roles of plays, schools, users. One file, one set."""

from __future__ import annotations

from sortition.data.natural_sets import chem97, flights, movielens, shakespeare
from sortition.data.natural_sets._entry import NaturalEntry, get, read

__all__ = ["SETS", "NaturalEntry", "get", "read"]
SETS = {module.ENTRY.name: module.ENTRY for module in (flights, shakespeare, chem97, movielens)}
