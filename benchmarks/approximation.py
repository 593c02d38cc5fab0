"""What the forms for many clients lose: a method's own objective, exact, in that form, and exact within a subsample.

    python -m benchmarks.approximation [--methods fedgs longfed] [--clients 2000] [--seeds 3]

Every form is given a quarter of the clients to work on where it samples (nodes, references, leaves, anchors), and the
subsample holds as many. `chance` is a cohort by lot. `kept` is the share of what the exact method
gains over chance; a form that keeps no more than the subsample has failed. Results stand in docs/scale.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from sortition.core import Measure, Population, Reading, Registrar, Round, stream
from sortition.selectors import load
from sortition.selectors._parts.distances import distances_between
from sortition.selectors._parts.facility import greedy_cover
from sortition.selectors._parts.facility_sampled import sampled_cover
from sortition.selectors._parts.linkage import cut_to_count, tree_groups
from sortition.selectors._parts.shares import label_shares
from sortition.selectors.clustered import Clustered
from sortition.selectors.clustered import Memory as Updates
from sortition.selectors.fedgs import graph
from sortition.selectors.fedgs.dispersion import disperse
from sortition.selectors.fedss.allocation import apportion
from sortition.selectors.fedss.strata import stratify
from sortition.selectors.hics import entropy_estimate, selection_odds

Figures = dict[str, float]  # chance, exact, form, subsample
COHORT = 50


def kinds_of_clients(n: int, rng: np.random.Generator, kinds: int = 30, width: int = 16, spread: float = 0.4):
    return (rng.normal(size=(kinds, width))[rng.integers(kinds, size=n)] + spread * rng.normal(size=(n, width))).astype(
        np.float32
    )


def fedgs(n: int, seed: int, concentration: float = 0.3) -> Figures:
    """Mean distance H of the cohort's pairs (eq. 16 at equal counts), 30 % available."""
    rng, M = stream(seed, "fedgs"), COHORT
    counts = rng.dirichlet(np.full(10, concentration), n)
    U = graph.scale_to_unit(counts)
    low, high = graph.extremes(U @ U.T, np.ones(n, int), "released", clip=True)
    R = graph.lengths(graph.normalise(U @ U.T, low, high), "released", 0.01, 0.1)
    H = graph.path_distances(R, np.ones(n, int))
    there = np.sort(rng.choice(n, 3 * n // 10, replace=False))
    sample = np.sort(rng.choice(n, n // 4, replace=False))
    inside = np.flatnonzero(np.isin(sample, there))
    whole, part = Population(np.ones(n), counts), Population(np.ones(sample.size), counts[sample])
    best = disperse(np.arange(there.size), np.zeros(there.size), H[np.ix_(there, there)], 2 / (M * (M - 1)), M, rng)
    form = load("fedgs", exact_up_to=9, nodes=n // 4)
    chosen = {
        "exact": there[best.members],
        "form": Registrar(form, whole, seed=seed).begin(there, M).cohort.ids,
        "subsample": sample[Registrar(load("fedgs"), part, seed=seed).begin(inside, M).cohort.ids],
    }
    lots = [rng.choice(there, M, replace=False) for _ in range(20)]
    mean = {name: H[np.ix_(ids, ids)].sum() / (M * (M - 1)) for name, ids in chosen.items()}
    return {"chance": float(np.mean([H[np.ix_(ids, ids)].sum() / (M * (M - 1)) for ids in lots])), **mean}


class LatentWorld:
    """Loss changes that are FedCor's model: Δl = Xz + noise, with a z of its own in every round and rehearsal."""

    def __init__(self, n: int, d: int, seed: int) -> None:
        rng = stream(seed, "latent world")
        self.n, self.seed = n, seed
        self.X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(6, d))[rng.integers(6, size=n)]
        self.population = Population(rng.integers(10, 100, n))
        self.path = np.cumsum(rng.normal(size=(200, d)), axis=0)

    def measure(self, question: Measure, t: int) -> Reading:
        """Losses before round t, or after a rehearsal in it."""
        rng = stream(self.seed, "rehearsal" if question.after is not None else "loss", t)
        z = self.path[t] + (rng.normal(size=self.X.shape[1]) if question.after is not None else 0)
        return Reading(question.ids, (100 + self.X @ z + 0.02 * rng.normal(size=self.n))[question.ids])

    def worth(self, ids: np.ndarray, there: np.ndarray, sigma: float) -> float:
        """Each pick's own criterion (Σ_i p_i Σ̃_ik)/√Σ̃_kk (eq. 10, 11) under the true covariance, over the best one's.

        Not their sum, which greedy does not maximise: where the first pick takes all there is, the rest bring nothing.
        """
        p = self.population.sizes / self.population.sizes.sum()
        S, found, left = self.X @ self.X.T + sigma**2 * np.eye(self.n), [], there
        for k in ids:
            value = (p @ S[:, left]) / np.sqrt(np.diag(S)[left])
            found.append(float(value[left == k][0] / value.max()))
            S = S - np.outer(S[:, k], S[:, k]) / S[k, k]
            left = left[left != k]
        return float(np.mean(found))


def fedcor(n: int, seed: int) -> Figures:
    """What a pick promises to everybody's loss under the true covariance, over what the best one would."""
    world, K, rounds, everybody = LatentWorld(n, 6, seed), 3, 40, np.arange(n)
    few = np.sort(stream(seed, "few").choice(n, n // 4, replace=False))
    common = {"dimension": 6, "warmup": 16, "history_warmup": 16, "history": 16, "theta": 0.97, "interval": 2}
    common |= {"beta": 1.0, "sigma": 0.05}
    plans = {
        "exact": (common | {"fit_at_most": n, "ask_at_most": n}, everybody),
        "form": (common | {"fit_at_most": n // 4, "ask_at_most": n // 2}, everybody),
        "subsample": (common | {"fit_at_most": n}, few),
    }
    out = {
        "chance": float(
            np.mean([world.worth(stream(s, "lot").choice(n, K, False), everybody, 0.05) for s in range(20)])
        )
    }
    for name, (parameters, there) in plans.items():
        registrar, found = Registrar(load("fedcor", **parameters), world.population, seed=seed), []
        for t in range(rounds):
            turn = registrar.begin(there, K)
            while turn.question is not None:
                turn.answer(world.measure(turn.question, t))
            registrar.finish(turn, turn.cohort.ids, {})
            found += [world.worth(turn.cohort.ids, everybody, 0.05)] if t >= 16 else []
        out[name] = float(np.mean(found))
    return out


def facility(n: int, seed: int, fair: bool) -> Figures:
    rng = stream(seed, "facility")
    rows, there = kinds_of_clients(n, rng), np.sort(rng.choice(n, 3 * n // 10, replace=False))
    table = distances_between(rows, rows)
    price = np.where(rng.random(n) < 0.3, rng.normal(size=n), 0) * 0.5 * table.mean() if fair else np.zeros(n)
    references, candidates = np.sort(rng.choice(n, n // 4, False)), np.sort(rng.choice(there, n // 8, False))
    mass = np.full(references.size, n / references.size)
    block = table[np.ix_(candidates, references)]

    def cost(ids: np.ndarray) -> float:
        return float(table[ids].min(axis=0).sum() + price[ids].sum())

    return {
        "chance": float(np.mean([cost(rng.choice(there, COHORT, False)) for _ in range(20)])),
        "exact": cost(there[greedy_cover(table[there], COHORT, price=price[there])]),
        "form": cost(sampled_cover(rows, there, candidates, references, COHORT, mass, price)),
        "subsample": cost(candidates[greedy_cover(block, COHORT, price=price[candidates], mass=mass)]),
    }


def longfed(n: int, seed: int) -> Figures:
    """Σ_i min_j d_ij + λ · drift (eq. 23), with queues that a third of the clients have."""
    return facility(n, seed, fair=True)


def divfl(n: int, seed: int) -> Figures:
    """G(S) = Σ_i min_j ‖g_i − g_j‖."""
    return facility(n, seed, fair=False)


def hics(n: int, seed: int) -> Figures:
    """Total variation between the law of a draw (eq. 10) and the exact one's; chance draws by size."""
    rng, K = stream(seed, "hics"), COHORT // 5
    balanced = rng.random(n) < 0.1
    skewed = (np.eye(10)[rng.integers(10, size=n)] * 0.02 - 0.002) * rng.uniform(0.8, 1.2, (n, 1))
    rows = np.where(balanced[:, None], 0.0005 * rng.normal(size=(n, 10)), skewed)
    entropy, sizes = entropy_estimate(rows, 0.0025), rng.integers(10, 50, n)

    def law(ids: np.ndarray, limit: int) -> np.ndarray:
        cut = lambda links, _: cut_to_count(links, K)  # noqa: E731
        groups = tree_groups(rows, cut, limit, stream(seed, "leaves"), among=ids, offset=10 * entropy[ids])
        out = np.zeros(n)
        out[ids] = selection_odds(entropy[ids], groups, sizes[ids], 3.0)
        return out

    exact = law(np.arange(n), n)
    laws = {"chance": sizes / sizes.sum(), "exact": exact, "form": law(np.arange(n), n // 4)}
    laws["subsample"] = law(np.sort(rng.choice(n, n // 4, replace=False)), n)
    return {name: 0.5 * float(np.abs(one - exact).sum()) for name, one in laws.items()}


def clustered(n: int, seed: int) -> Figures:
    """E‖(1/m) Σ Δ of the draws − Σ p_i Δ_i‖²; chance draws by size. The subsample's error is over 20 samples."""
    rng, m = stream(seed, "clustered"), COHORT // 2
    rows, sizes = kinds_of_clients(n, rng, 25, spread=0.2).astype(np.float64), rng.integers(5, 60, n)
    mean = sizes @ rows / sizes.sum()

    def error(ids: np.ndarray, limit: int) -> float:
        round = Round(0, None, np.arange(ids.size), m, Population(sizes[ids]), stream(seed, "bins"))
        table = Clustered(exact_up_to=limit).bins(Updates(ids.size, update=rows[ids]), round).table(ids.size)
        centre = table @ rows[ids]
        variance = (table @ rows[ids] ** 2 - centre**2).sum() / m**2
        return float(variance + ((centre.mean(axis=0) - mean) ** 2).sum())

    everybody = np.arange(n)
    return {
        "chance": float((sizes @ rows**2 / sizes.sum() - mean**2).sum() / m),
        "exact": error(everybody, n),
        "form": error(everybody, n // 4),
        "subsample": float(np.mean([error(np.sort(rng.choice(n, n // 4, replace=False)), n) for _ in range(20)])),
    }


def fedss(n: int, seed: int) -> Figures:
    """Mean squared error of the mean label distribution (eq. 13) with strata from the fit; chance: one stratum."""
    rng, S = stream(seed, "fedss"), COHORT
    counts = rng.integers(0, 4, (n, 10))
    counts[np.arange(n), rng.integers(10, size=n)] += 30
    vectors = label_shares(counts)

    def error(ids: np.ndarray, sample: int) -> float:
        labels = stratify(vectors[ids], 15, stream(seed, "strata"), sample=sample).labels
        members = np.bincount(labels)
        seats = apportion(members, S, members)
        spread = [
            vectors[ids][labels == k].var(axis=0, ddof=1).sum() if members[k] > 1 else 0 for k in range(seats.size)
        ]
        return float(((members / ids.size) ** 2 * (1 / seats - 1 / members) * spread).sum())

    total = float(vectors.var(axis=0, ddof=1).sum())
    some = np.sort(rng.choice(n, n // 4, replace=False))
    return {
        "chance": total * (1 / S - 1 / n),
        "exact": error(np.arange(n), n),
        "form": error(np.arange(n), n // 4),
        "subsample": error(some, n) + total * (1 / some.size - 1 / n),
    }


METHODS: dict[str, Callable[[int, int], Figures]] = {
    "fedgs": fedgs,
    "fedcor": fedcor,
    "longfed": longfed,
    "divfl": divfl,
    "hics": hics,
    "clustered": clustered,
    "fedss": fedss,
}


def mean_figures(name: str, n: int, seeds: int) -> Figures:
    """The four figures over some seeds."""
    found = [METHODS[name](n, seed) for seed in range(seeds)]
    return {key: float(np.mean([one[key] for one in found])) for key in ("chance", "exact", "form", "subsample")}


def kept(figures: Figures, key: str) -> float:
    """What share of the exact method's gain over chance is left."""
    return (figures[key] - figures["chance"]) / (figures["exact"] - figures["chance"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    print("| method | chance | exact | form | subsample | form keeps | subsample keeps |\n|" + "---|" * 7)
    for name in arguments.methods:
        one = mean_figures(name, arguments.clients, arguments.seeds)
        cells = [f"{one[key]:.4g}" for key in ("chance", "exact", "form", "subsample")]
        print(f"| {name} | {' | '.join(cells)} | {kept(one, 'form'):.2f} | {kept(one, 'subsample'):.2f} |", flush=True)


if __name__ == "__main__":
    main()
