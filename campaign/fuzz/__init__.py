"""Fuzzing: one module a target, one loop for all."""
