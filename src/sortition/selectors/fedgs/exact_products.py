"""Inner products that are the same on every processor.

A matrix product adds in an order that depends on the processor, so its last bits do too, and rows that are equally
similar by the mathematics are not by their floats. On a grid of 2⁻²⁴ of its length a row fits into single precision,
and products of two such rows have 48 bits: in double precision their sums are exact, in whatever order.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

BITS = 24


def round_rows(rows: Array) -> Array:
    """Return rows in single precision, each rounded to multiples of about 2⁻²⁴ of its length."""
    wide = np.asarray(rows, np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    _, exponent = np.frexp(length * (1 + 2.0**-20))  # so that lengths of 1 are not near the edge
    step = np.ldexp(1.0, exponent - BITS)[:, None]
    return np.asarray(np.rint(wide / step) * step, np.float32)


def products(left: Array, right: Array) -> Floats:
    """Return the inner products (n, m) of gridded rows, exactly."""
    return np.asarray(left.astype(np.float64) @ right.astype(np.float64).T)
