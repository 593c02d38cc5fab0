"""Data sets, how they are split over clients, and how skewed a split is. Nothing downloads on import."""

from sortition.data.dataset import Dataset
from sortition.data.fetch import directory, get
from sortition.data.load import load, names

__all__ = ["Dataset", "directory", "get", "load", "names"]
