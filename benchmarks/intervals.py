"""How often does a comparison raise a false alarm? Simulated seeds without any true difference.

    python benchmarks/intervals.py                     # the tables of docs/statistics.md, in some minutes
    python benchmarks/intervals.py --repetitions 500   # a quick look

Accuracies of a baseline and m methods are drawn for n seeds on a test set of T examples; their expectations are equal,
so every interval that excludes zero is a false alarm. The laws of a difference:

    normal       standard deviation of two points, not rounded
    heavy tails  Student's t with 4 degrees of freedom, the same spread
    rounded      normal, then rounded to whole test examples; the spread before is 0.2 … 2 examples, the worst counts
    binomial     each model is right on each test example with the same chance
    discordant   two models disagree on 2 % of the test examples, and either is right by a coin
    exponential  the differences are skewed
    rare loss    +1 point in 90 % of the seeds, −9 points in 10 %
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from sortition.results.statistics import (
    FEWEST_SEEDS,
    LEVEL,
    MARGIN,
    SKEWED,
    compare,
    floored_variance,
    holm,
    pooled_variance,
)

METHODS = (2, 6, 12, 25)  # the baseline among them
SEEDS = (3, 4, 5, 8, 10, 20)
TEST_EXAMPLES = (50, 360, 2_000, 10_000)
SPREAD = 0.02  # of a difference over seeds, where the law has one
ROUNDED = (0.2, 0.5, 1.0, 2.0)  # spreads before rounding, in test examples
DISAGREE = 0.02
BATCH = 4_000_000  # numbers at a time
Draw = Callable[[np.random.Generator, int, int, int, int], np.ndarray]


def of_values(values: np.ndarray) -> np.ndarray:
    """(repetitions, n, m) differences from the first of the values (repetitions, n, m + 1)."""
    return values[:, :, 1:] - values[:, :, :1]


def normal(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    return of_values(SPREAD / np.sqrt(2) * rng.standard_normal((repetitions, n, m + 1)))


def heavy_tails(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    return of_values(SPREAD / 2 * rng.standard_t(4, (repetitions, n, m + 1)))


def rounded(spread: float) -> Draw:
    def draw(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
        of_seed = 0.7 * examples + 0.05 * examples * rng.standard_normal((repetitions, n, 1))
        return of_values(np.round(of_seed + spread * rng.standard_normal((repetitions, n, m + 1)))) / examples

    return draw


def binomial(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    chance = np.clip(0.7 + 0.05 * rng.standard_normal((repetitions, n, 1)), 0.01, 0.99)
    right = rng.binomial(examples, np.broadcast_to(chance, (repetitions, n, m + 1)))
    return of_values(right.astype(float)) / examples


def discordant(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    apart = rng.binomial(examples, DISAGREE, (repetitions, n, m))
    return (2 * rng.binomial(apart, 0.5) - apart) / examples


def exponential(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    values = SPREAD / np.sqrt(2) * (rng.exponential(1, (repetitions, n, m + 1)) - 1)
    values[:, :, 0] *= -1  # so that the differences are skewed, too
    return of_values(values)


def rare_loss(rng: np.random.Generator, repetitions: int, n: int, m: int, examples: int) -> np.ndarray:
    return np.where(rng.random((repetitions, n, m)) < 0.1, -0.09, 0.01)


def judged(pairs: np.ndarray, resolution: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, standard errors and critical distances (repetitions, m), as the library has them."""
    n, m = pairs.shape[1:]
    means = pairs.mean(axis=1)
    variances = np.where(np.ptp(pairs, axis=1) <= 1e-9 * np.abs(pairs).max(axis=1), 0.0, pairs.var(axis=1, ddof=1))
    identical = ~pairs.any(axis=1)
    pooled = np.where(identical, 0.0, pooled_variance(variances)[:, None])
    errors = np.sqrt(floored_variance(variances, n=n, pooled=pooled, resolution=resolution) / n)
    return means, errors, stats.t.isf(LEVEL / (2 * m), n - 1) * errors


def alarms(pairs: np.ndarray, resolution: float | None) -> np.ndarray:
    """(repetitions, m) whether the interval excludes zero: better, worse, or a certain difference below the margin."""
    means, errors, distances = judged(pairs, resolution)
    return (np.abs(means) > distances) & (errors > 0)


def without_floor(pairs: np.ndarray) -> np.ndarray:
    """The same with the plain paired t of earlier versions."""
    n, m = pairs.shape[1:]
    error = pairs.std(axis=1, ddof=1) / np.sqrt(n)
    return np.abs(pairs.mean(axis=1)) > stats.t.isf(LEVEL / (2 * m), n - 1) * error


def look_skewed(pairs: np.ndarray) -> np.ndarray:
    n = pairs.shape[1]
    deviations = pairs - pairs.mean(axis=1, keepdims=True)
    second = (deviations**2).mean(axis=1)
    third = (deviations**3).mean(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = np.where(second > 1e-18, third / second**1.5, 0.0)
    return np.abs(skewness) > SKEWED * np.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))


def agrees(pairs: np.ndarray, resolution: float | None) -> None:
    """Stop where the library's own function gives other intervals or verdicts than the arithmetic here."""
    m = pairs.shape[2]
    means, _, distances = judged(pairs, resolution)
    false = alarms(pairs, resolution)
    for at in range(len(pairs)):
        others = {str(j): pairs[at, :, j].tolist() for j in range(m)}
        found = compare([0.0] * pairs.shape[1], others, resolution=resolution)
        for j, comparison in enumerate(found.values()):
            if comparison.decided or comparison.seeds_needed:
                np.testing.assert_allclose(comparison.low, means[at, j] - distances[at, j], atol=1e-12)
            if (comparison.p < LEVEL) != false[at, j]:
                raise SystemExit(f"the library has p = {comparison.p}, and the arithmetic here does not")


def rate(draw: Draw, n: int, methods: int, examples: int, repetitions: int, rng: np.random.Generator) -> float:
    """The share of families, in %, in which any interval excludes zero."""
    m = methods - 1
    resolution = 1 / examples
    if examples == TEST_EXAMPLES[0]:
        agrees(draw(rng, 1, n, m, examples), resolution)
    size = max(1, BATCH // (n * (m + 1)))
    wrong = 0
    for start in range(0, repetitions, size):
        pairs = draw(rng, min(size, repetitions - start), n, m, examples)
        wrong += int(alarms(pairs, resolution).any(axis=1).sum())
    return 100 * wrong / repetitions


def table(columns: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def false_alarms(repetitions: int, rng: np.random.Generator) -> float:
    """Print the rates of laws that the tests must withstand; the largest of them."""
    laws = {"normal": [normal], "heavy tails": [heavy_tails], "binomial": [binomial]}
    laws |= {"discordant": [discordant], "rounded": [rounded(spread) for spread in ROUNDED]}
    worst = 0.0
    for name, draws in laws.items():
        rows = []
        for examples in TEST_EXAMPLES:
            for methods in METHODS:
                rates = [max(rate(draw, n, methods, examples, repetitions, rng) for draw in draws) for n in SEEDS]
                worst = max(worst, *rates)
                rows.append([f"{examples:,}", str(methods), *[f"{value:.1f}" for value in rates]])
        print(f"\n**{name}**: any false alarm in the family, %\n")
        table(["test examples", "methods", *[f"{n} seeds" for n in SEEDS]], rows)
    return worst


def earlier(repetitions: int, rng: np.random.Generator) -> None:
    """Print what a plain paired t without a floor does with few seeds and rounded accuracies."""
    rows = []
    for examples in (50, 360):
        for methods in (2, 7, 25):
            cells = []
            for n in (2, 3, 5):
                rates = [without_floor(rounded(s)(rng, repetitions, n, methods - 1, examples)) for s in ROUNDED]
                cells.append(f"{100 * max(found.any(axis=1).mean() for found in rates):.1f}")
            rows.append([f"{examples:,}", str(methods), *cells])
    print("\n**rounded**, plain paired t without a floor: any false alarm, %\n")
    table(["test examples", "methods", "2 seeds", "3 seeds", "5 seeds"], rows)


def skewed_laws(repetitions: int, rng: np.random.Generator) -> None:
    """Print the rates of skewed laws, and how many of the false alarms are called skewed."""
    rows = []
    for name, draw in (("exponential", exponential), ("rare loss", rare_loss)):
        for methods in METHODS:
            cells = []
            for n in SEEDS:
                pairs = draw(rng, repetitions, n, methods - 1, 10_000)
                false = alarms(pairs, 1e-4)
                said = (false & look_skewed(pairs)).sum() / max(1, false.sum())
                cells.append(f"{100 * false.any(axis=1).mean():.1f} ({100 * said:.0f})")
            rows.append([name, str(methods), *cells])
    print("\n**Skewed laws**: any false alarm, % (of these called skewed, %); 10,000 test examples\n")
    table(["law", "methods", *[f"{n} seeds" for n in SEEDS]], rows)


def false_equalities(repetitions: int, rng: np.random.Generator) -> None:
    """Print how often a true difference of exactly the margin is called practically equal."""
    rows = []
    for methods in METHODS:
        cells = []
        for n in SEEDS:
            pairs = normal(rng, repetitions, n, methods - 1, 10_000) / 8 + MARGIN / 100
            means, errors, _ = judged(pairs, 1e-4)
            equal = np.abs(means) + stats.t.isf(LEVEL / (methods - 1), n - 1) * errors < MARGIN / 100
            cells.append(f"{100 * equal.any(axis=1).mean():.1f}")
        rows.append([str(methods), *cells])
    print("\n**Equality**: any difference of exactly the margin called practically equal, %\n")
    table(["methods", *[f"{n} seeds" for n in SEEDS]], rows)


def power(repetitions: int, rng: np.random.Generator) -> None:
    """Print what the floor costs: how often a difference of two standard deviations is found, with and without it."""
    rows = []
    for methods in METHODS:
        cells = []
        for n in SEEDS:
            pairs = normal(rng, repetitions, n, methods - 1, 10_000)
            pairs[:, :, 0] += 2 * SPREAD
            cells.append(
                f"{100 * alarms(pairs, 1e-4)[:, 0].mean():.0f} ({100 * without_floor(pairs)[:, 0].mean():.0f})"
            )
        rows.append([str(methods), *cells])
    print("\n**Power**: a difference of two standard deviations is shown, % (without the floor, %)\n")
    table(["methods", *[f"{n} seeds" for n in SEEDS]], rows)


def pages(repetitions: int, rng: np.random.Generator) -> None:
    """Print how often the first sentence of a page over many settings names a better method, though none is."""
    rows = []
    n, m = 5, 5
    for settings in (2, 10, 30):
        pairs = normal(rng, repetitions * settings, n, m, 10_000)
        means, errors, _ = judged(pairs, 1e-4)
        p = 2 * stats.t.sf(np.abs(means) / errors, n - 1)
        better = (alarms(pairs, 1e-4) & (means > 0)).reshape(repetitions, -1)
        p = p.reshape(repetitions, -1)
        held = [bool((np.array(holm(p[i].tolist())) & better[i]).any()) for i in np.flatnonzero(better.any(axis=1))]
        rows.append([str(settings), f"{100 * better.any(axis=1).mean():.1f}", f"{100 * sum(held) / repetitions:.1f}"])
    print("\n**Pages** of several settings, 5 methods and a baseline, 5 seeds: a false better, %\n")
    table(["settings", "in any setting", "in the first sentence (Holm)"], rows)


def percentile_bootstrap(repetitions: int, rng: np.random.Generator) -> None:
    """Print the coverage of an alternative: a percentile bootstrap interval of one difference."""
    rows = []
    for n in SEEDS:
        pairs = normal(rng, max(500, repetitions // 10), n, 1, 10_000)[:, :, 0]
        picks = rng.integers(0, n, (999, n))
        bounds = [np.quantile(one[picks].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2]) for one in pairs]
        rows.append([str(n), f"{100 * np.mean([low <= 0 <= high for low, high in bounds]):.1f}"])
    print("\n**Percentile bootstrap**, one interval: coverage in place of 95 %\n")
    table(["seeds", "coverage, %"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20_000)
    repetitions = parser.parse_args().repetitions
    rng = np.random.default_rng(1)
    if min(SEEDS) < FEWEST_SEEDS:
        raise SystemExit("below the fewest seeds there are no verdicts")
    worst = false_alarms(repetitions, rng)
    print(f"\nThe largest of these rates is {worst:.1f} %.")
    earlier(repetitions, rng)
    skewed_laws(repetitions, rng)
    false_equalities(repetitions, rng)
    power(repetitions, rng)
    pages(max(200, repetitions // 10), rng)
    percentile_bootstrap(repetitions, rng)


if __name__ == "__main__":
    main()
