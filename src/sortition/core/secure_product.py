"""Algorithm 2 of FedGS (after Du and Zhan 2002): the inner product of two clients' vectors, message by message.

**No security control.** All messages pass the server, which also made the masks: whoever keeps both R_a and Â = A + R_a
has A. It hides the vectors from the other clients, and from a server that forgets its masks. Shipped for fidelity.

The paper works over ℝ, where a sum leaks the size of its terms. Here everything lives in the ring of integers modulo
2⁶⁴ with fresh masks from the operating system: exact for whole numbers whose product is below 2⁶³.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad

Ring = npt.NDArray[np.uint64]
Log = Callable[[str, str, str], None]  # (from, to, what)


def draw_mask(dimension: int) -> Ring:
    """Draw fresh uniform elements of the ring."""
    return np.frombuffer(secrets.token_bytes(8 * dimension), np.uint64).copy()


class Holder:
    """A client with a private vector."""

    def __init__(self, vector: Array) -> None:
        values = np.asarray(vector, np.float64)
        if values.ndim != 1 or not np.array_equal(values, np.rint(values)):
            raise bad("secure product", "of a vector of whole numbers", vector, "Scale and round it first.")
        self._vector = values.astype(np.int64).astype(np.uint64)

    def receive(self, R: Ring, r: np.uint64) -> Ring:
        """Keep the mask and return the masked vector (steps 2 and 3)."""
        self._R = R
        self._r = r
        return self._vector + R

    def reply(self, masked: Ring) -> tuple[np.uint64, np.uint64]:
        """Draw v2, as client B, and return it with u = Â·B + r_b − v2 (step 5)."""
        v2 = draw_mask(1)
        u = dot(masked, self._vector) + self._r - v2
        return u[0], v2[0]

    def close(self, u: np.uint64, masked: Ring) -> np.uint64:
        """Return, as client A, v1 = u − R_a·B̂ + r_a = A·B − v2 (step 7)."""
        v1 = np.array([u]) - dot(self._R, masked) + self._r
        return np.uint64(v1[0])


def dot(a: Ring, b: Ring) -> Ring:
    """Return the inner product in the ring, shape (1,): numpy's unsigned integers wrap around."""
    return np.asarray((a * b).sum(keepdims=True, dtype=np.uint64))


def secure_product(alice: Holder, bob: Holder, dimension: int, log: Log = lambda *_: None) -> int:
    """Play the server's part of Algorithm 2 and return the product; ``log`` is called with every message."""
    Ra = draw_mask(dimension)  # step 1: r_a + r_b = R_a·R_b
    Rb = draw_mask(dimension)
    ra = draw_mask(1)
    rb = dot(Ra, Rb) - ra
    log("server", "A", "R_a, r_a")  # step 2
    log("server", "B", "R_b, r_b")
    masked_a = alice.receive(Ra, ra[0])
    masked_b = bob.receive(Rb, rb[0])
    log("A", "server", "Â")  # step 3
    log("B", "server", "B̂")
    log("server", "B", "Â")  # step 4
    log("server", "A", "B̂")
    u, v2 = bob.reply(masked_a)
    log("B", "server", "u, v2")  # step 5
    log("server", "A", "u")  # step 6
    v1 = alice.close(u, masked_b)
    log("A", "server", "v1")  # step 7
    return int((np.array([v1]) + v2).view(np.int64)[0])  # step 8


def secure_products(vectors: Sequence[Array]) -> Floats:
    """Return all inner products (n, n), each by a run of its own; clients compute the diagonal for themselves."""
    holders = [Holder(vector) for vector in vectors]
    table = np.empty((len(holders), len(holders)))
    for i, alice in enumerate(holders):
        table[i, i] = float(np.asarray(vectors[i], np.float64) @ np.asarray(vectors[i], np.float64))
        for j in range(i):
            table[i, j] = table[j, i] = secure_product(alice, holders[j], len(vectors[i]))
    return table
