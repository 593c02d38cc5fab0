"""Runs: one run, many runs side by side, what they write and how far they are."""
