"""Do the intervals of a comparison cover, and how often is there a false alarm? Simulated seeds, known truth.

    python benchmarks/intervals.py                     # the tables of docs/statistics.md, in about a minute
    python benchmarks/intervals.py --repetitions 2000  # a quick look

Differences of m methods from a common baseline are drawn for n seeds; they correlate with each other (0.5) and have a
spread of two points. Three laws: normal, heavy tails (Student's t with 4 degrees of freedom), skew (exponential).
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import stats

from sortition.results.statistics import LEVEL, MARGIN, compare

SEEDS = (5, 6, 8, 10, 15, 20)
SPREAD = 0.02  # of a difference, over seeds
LAWS = ("normal", "heavy tails", "skew")


def noise(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Mean 0, variance 1."""
    if law == "heavy tails":
        return rng.standard_t(4, shape) / np.sqrt(2)
    return rng.exponential(1, shape) - 1 if law == "skew" else rng.standard_normal(shape)


def draw(law: str, repetitions: int, n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """(repetitions, n, m + 1) values of a baseline and m methods whose means are equal."""
    values = SPREAD / np.sqrt(2) * noise(law, (repetitions, n, m + 1), rng)
    values[:, :, 0] *= -1  # so that the differences are skewed too where the law is
    return values


def student(pairs: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and half widths (repetitions, m)."""
    n = pairs.shape[1]
    return pairs.mean(axis=1), stats.t.isf(tail, n - 1) * pairs.std(axis=1, ddof=1) / np.sqrt(n)


def max_t(pairs: np.ndarray, rng: np.random.Generator, draws: int = 2000) -> np.ndarray:
    """(repetitions,) critical values of the largest |t| with the correlation that each data set shows."""
    repetitions, n, m = pairs.shape
    found = np.empty(repetitions)
    for at in range(repetitions):
        values, vectors = np.linalg.eigh(np.atleast_2d(np.corrcoef(pairs[at].T)))
        x = rng.standard_normal((draws, n, m)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
        t = x.mean(axis=1) / (x.std(axis=1, ddof=1) / np.sqrt(n))
        found[at] = np.quantile(np.abs(t).max(axis=1), 1 - LEVEL)
    return found


def agrees(values: np.ndarray) -> None:
    """The library's own function gives the same intervals and verdicts as the arithmetic here."""
    m = values.shape[2] - 1
    mean, half = student(values[:, :, 1:] - values[:, :, :1], LEVEL / (2 * m))
    for at in range(min(10, len(values))):
        found = compare(values[at, :, 0].tolist(), {str(j): values[at, :, j + 1].tolist() for j in range(m)})
        for j, one in enumerate(found.values()):
            np.testing.assert_allclose([one.low, one.high], [mean[at, j] - half[at, j], mean[at, j] + half[at, j]])
            if abs(mean[at, j]) > half[at, j] and one.verdict not in ("better", "worse", "practically equal"):
                raise SystemExit("an interval that excludes zero has no verdict")


def errors(law: str, n: int, m: int, repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Rates in %: simultaneous coverage, any false alarm, any false equality at a true difference of the margin."""
    values = draw(law, repetitions, n, m, rng)
    agrees(values)
    pairs = values[:, :, 1:] - values[:, :, :1]
    mean, half = student(pairs, LEVEL / (2 * m))
    covered = (np.abs(mean) <= half).all(axis=1)
    small = pairs / 8 + MARGIN  # little spread, so that equality can be claimed at all; the truth is at the edge
    inner_mean, inner = student(small, LEVEL / m)
    equal = (np.abs(inner_mean) + inner < MARGIN).any(axis=1)
    return {"coverage": 100 * covered.mean(), "alarm": 100 * (~covered).mean(), "equal": 100 * equal.mean()}


def others(n: int, m: int, repetitions: int, rng: np.random.Generator) -> dict[str, float]:
    """Simultaneous coverage in % of the alternatives, and how much wider Bonferroni's intervals are than max-t's."""
    pairs = draw("normal", repetitions, n, m, rng)
    pairs = pairs[:, :, 1:] - pairs[:, :, :1]
    mean, half = student(pairs, LEVEL / (2 * m))
    error = half / stats.t.isf(LEVEL / (2 * m), n - 1)
    critical = max_t(pairs, rng)
    picks = rng.integers(0, n, (999, n))
    boot = [
        np.quantile(one[picks].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2], axis=0) for one in pairs[: repetitions // 4]
    ]
    single = np.mean([(low <= 0) & (high >= 0) for low, high in boot])
    return {
        "bonferroni": 100 * (np.abs(mean) <= half).all(axis=1).mean(),
        "max-t": 100 * (np.abs(mean) <= critical[:, None] * error).all(axis=1).mean(),
        "wider": float(np.median(stats.t.isf(LEVEL / (2 * m), n - 1) / critical)),
        "bootstrap": 100 * single,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20_000)
    repetitions, rng = parser.parse_args().repetitions, np.random.default_rng(1)
    for m in (1, 6):
        print(f"\n{m} comparison(s): simultaneous coverage, any false alarm, any false equality, %\n")
        print("| seeds | " + " | ".join(LAWS) + " |\n|" + "---|" * (1 + len(LAWS)))
        for n in SEEDS:
            found = [errors(law, n, m, repetitions, rng) for law in LAWS]
            cells = [f"{one['coverage']:.1f}, {one['alarm']:.1f}, {one['equal']:.1f}" for one in found]
            print(f"| {n} | " + " | ".join(cells) + " |")
    print("\n6 comparisons, normal: simultaneous coverage, %, and of single bootstrap intervals\n")
    columns = ("seeds", "Bonferroni", "max-t", "Bonferroni's width over max-t's", "percentile bootstrap, one interval")
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for n in SEEDS:
        c = others(n, 6, max(200, repetitions // 10), rng)
        print(f"| {n} | {c['bonferroni']:.1f} | {c['max-t']:.1f} | {c['wider']:.2f} | {c['bootstrap']:.1f} |")


if __name__ == "__main__":
    main()
