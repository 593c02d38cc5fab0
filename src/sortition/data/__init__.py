"""Data sets, how they are split over clients, and how skewed a split is. Nothing downloads on import."""

from sortition.data.dataset import Dataset
from sortition.data.fetch import directory
from sortition.data.load import get, load, names
from sortition.data.natural import by_client, from_clients, from_frame, from_leaf

__all__ = [
    "Dataset",
    "by_client",
    "directory",
    "from_clients",
    "from_frame",
    "from_leaf",
    "get",
    "load",
    "names",
]
