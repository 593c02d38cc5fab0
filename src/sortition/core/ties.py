"""One rule for ties: the same answers give the same choices on every processor.

Sums differ in their last bits between processors and libraries, so clients that are equal by the mathematics are not
equal by their floats. Scores are therefore compared on a grid that is far coarser than such differences and far finer
than any that means something: :func:`round_to_tie_grid` for a ranking, which is then sorted by (rounded score, id), and
:func:`first_largest` for a single best one, which is the lowest id among those within the tolerance of the maximum.
Comparing by a tolerance is not transitive and would not do for a ranking.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

BITS = 32  # significant ones of a score: differences beyond 2⁻³² = 2·10⁻¹⁰ of it are none
TIE_TOLERANCE = 2.0**-BITS
FINEST = float(np.finfo(np.float64).tiny)  # the smallest float of full precision: a grid of 0 divides by 0


def round_to_tie_grid(values: Array, scale: float | None = None) -> Floats:
    """Round values to ``BITS`` significant bits each; with a ``scale``, all to multiples of 2⁻³² of it.

    A scale is needed where values are differences of numbers of that size, whose last bits are noise.
    """
    floats = np.asarray(values, np.float64)
    if scale is None:
        mantissa, exponent = np.frexp(floats)
        mantissa *= 2.0**BITS
        return np.asarray(np.ldexp(np.rint(mantissa), exponent - BITS))
    step = grid_step(scale)
    multiples = np.asarray(floats / step)
    multiples = np.rint(multiples, out=multiples)  # in place: memory that is new takes longer than the step
    multiples *= step
    return multiples


def grid_step(scale: float, bits: int = BITS) -> float:
    """Return a power of two, about 2^−bits of the scale; the same one if the scale differs in its last bits."""
    if not (np.isfinite(scale) and scale > 0):
        return 2.0**-bits
    _, exponent = np.frexp(scale * (1 + 2.0**-20))  # shifted, so that no natural number is near the edge
    return max(float(2.0 ** (exponent - bits)), FINEST)


def first_largest(score: Array, scale: float = 0.0) -> int:
    """Return the first position whose score is within the tolerance of the largest, relative to it or to ``scale``."""
    best = float(np.max(score))
    if not np.isfinite(best):
        return int(np.argmax(score))
    return int(np.argmax(score >= best - TIE_TOLERANCE * max(abs(best), scale)))


def first_smallest(score: Array, scale: float = 0.0) -> int:
    """Return the first position whose score is within the tolerance of the smallest."""
    return first_largest(-np.asarray(score), scale)
