"""MovieLens-100k (GroupLens; research use, not to be redistributed): the client is a user, the task a good rating.

100,000 ratings of 1,682 films by 943 users, 20 to 737 each (median 65). Two classes: a rating of at least 4, or less.
Features: the film's genres, and which film it is where it is among those rated most.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from sortition.core.errors import bad
from sortition.data.dataset import Dataset
from sortition.data.natural import by_client
from sortition.data.natural_sets._entry import Arrays, NaturalEntry, found

GOOD = 4
FILMS = 1682


def decode(folder: Path) -> Arrays:
    """``ratings`` (100000, 4) int32: user, film, rating, time; ``genres`` (1682, 19) of the films in order."""
    with found(folder, "ml-100k.inter").open(newline="") as file:
        rows = [[int(float(cell)) for cell in row] for row in list(csv.reader(file, delimiter="\t"))[1:]]
    with found(folder, "ml-100k.item").open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    column = lines[0].index("class:token_seq")
    listed = [set(line[column].split()) for line in lines[1:]]
    names = sorted(set.union(*listed))
    return {
        "ratings": np.array(rows).astype("<i4"),
        "genres": np.array([[name in one for name in names] for one in listed]).astype(np.uint8),
    }


def make(arrays: Arrays, *, films: int = 300, test: float = 0.2, seed: int = 0) -> Dataset:
    """Clients are users; ``films`` films have a feature of their own."""
    if isinstance(films, bool) or not isinstance(films, int) or not 0 <= films <= FILMS:
        raise bad("movielens.films", f"a whole number in 0 … {FILMS}", films)
    user, film, rating, _ = arrays["ratings"].T
    film = film - 1
    place = np.full(FILMS, films)
    place[np.argsort(-np.bincount(film, minlength=FILMS), kind="stable")[:films]] = np.arange(films)
    own = np.eye(films + 1, dtype=np.float32)[place[film]][:, :films]
    x = np.concatenate([arrays["genres"][film].astype(np.float32), own], 1)
    return by_client(x, (rating >= GOOD).astype(int), user, name="movielens", test=test, seed=seed)


ENTRY = NaturalEntry(
    name="movielens",
    title="MovieLens-100k by user: 943 clients, rating of at least 4",
    licence="GroupLens: research use, no redistribution",
    package="pip:recbole==1.2.1 sha256:9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
    file="ml-100k.inter and ml-100k.item of the PyPI package recbole 1.2.1",
    sha256={"ratings": "9d7589acad0910f4212cfdfd56933ec74066c8fe7a9caf847cb404b7f7a3ccd4"},
    decode=decode,
    make=make,
)
