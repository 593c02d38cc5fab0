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
from sortition.data.natural_sets._entry import Arrays, NaturalEntry, find_file

GOOD = 4
FILMS = 1682


def decode(folder: Path) -> Arrays:
    """Read ``ratings`` (100000, 4) int32: user, film, rating, time; and ``genres`` (1682, 19) of the films in order."""
    with find_file(folder, "ml-100k.inter").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    ratings = [[int(float(cell)) for cell in row] for row in rows[1:]]
    with find_file(folder, "ml-100k.item").open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    column = lines[0].index("class:token_seq")
    genres_by_film = [set(line[column].split()) for line in lines[1:]]
    genres = sorted(set.union(*genres_by_film))
    has_genre = [[genre in film_genres for genre in genres] for film_genres in genres_by_film]
    return {
        "ratings": np.array(ratings).astype("<i4"),
        "genres": np.array(has_genre).astype(np.uint8),
    }


def make(arrays: Arrays, *, films: int = 300, test: float = 0.2, seed: int = 0) -> Dataset:
    """Make a federation of users; the ``films`` films that are rated most have a feature of their own."""
    if isinstance(films, bool) or not isinstance(films, int) or not 0 <= films <= FILMS:
        raise bad("movielens.films", f"a whole number in 0 … {FILMS}", films)
    user, film, rating, _ = arrays["ratings"].T
    film = film - 1
    by_popularity = np.argsort(-np.bincount(film, minlength=FILMS), kind="stable")
    feature_of_film = np.full(FILMS, films)  # the last one, which is cut off, for films without a feature
    feature_of_film[by_popularity[:films]] = np.arange(films)
    film_features = np.eye(films + 1, dtype=np.float32)[feature_of_film[film]][:, :films]
    x = np.concatenate([arrays["genres"][film].astype(np.float32), film_features], 1)
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
