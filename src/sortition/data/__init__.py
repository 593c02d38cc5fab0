"""Data sets, how they are split over clients, and how skewed a split is."""

from sortition.data.dataset import Dataset

__all__ = ["Dataset"]
