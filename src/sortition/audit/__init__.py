"""A hash-chained log of every choice, from which an outsider can recompute it."""
