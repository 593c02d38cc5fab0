"""Sortition: client selection for federated learning."""

__version__ = "0.1.0"
