"""How long a report takes: run folders made up in the shape of a large study, then reported.

    python benchmarks/report.py [--methods 15] [--seeds 10] [--rounds 500] [--clients 100] [--keep DIR]

Prints seconds, peak memory and the size of the page. The figures in the folders mean nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import tomli_w


def fabricate(folder: Path, methods: int, seeds: int, rounds: int, clients: int, settings: int = 1) -> None:
    """Run folders like those of a study; seeds share federation and availability, methods differ a little."""
    for place in range(settings):
        for seed in range(seeds):
            rng = np.random.default_rng([place, seed])
            counts = rng.multinomial(60, rng.dirichlet(np.full(10, 0.2), clients).clip(0, 1))
            mask = rng.random((rounds, clients)) < rng.uniform(0.2, 1.0, clients)
            for method in range(methods):
                label = (
                    "uniform"
                    if method == 0
                    else f"method-{method}" + ("-with-a-rather-long-name" if method == 3 else "")
                )
                home = folder / f"setting-{place}" / label / f"seed-{seed}"
                home.mkdir(parents=True, exist_ok=True)
                one_run(home, f"setting-{place}", label, seed, counts, mask, method)


def one_run(home: Path, setting: str, label: str, seed: int, counts, mask, method: int) -> None:
    rounds, clients = mask.shape
    rng = np.random.default_rng([seed, method])
    config = {
        "rounds": rounds, "cohort": 10, "seed": seed, "setting": setting,
        "data": {"name": "made-up", "clients": clients, "partition": {"name": "dirichlet", "alpha": 0.2}},
        "model": {"name": "mlp"}, "local": {"steps": 20, "batch": 64, "lr": 0.005},
        "method": {"name": "power-of-choice" if method else "uniform", "label": label}, "target": {"accuracy": 0.6},
    }  # fmt: skip
    (home / "config.toml").write_text(tomli_w.dumps(config))
    needs = {
        "reads": ["sizes"],
        "asks": {"loss": "mean loss"} if method else {},
        "reports": {},
        "individual": method % 3 == 2,
    }
    manifest = {"format": 1, "sortition": "0", "needs": needs, "cite": "@misc{made-up}"}
    (home / "manifest.json").write_text(json.dumps(manifest))
    lines = []
    selected = np.zeros(clients, int)
    for t in range(rounds):
        here = np.flatnonzero(mask[t])
        cohort = rng.choice(here, min(10, here.size), replace=False)
        selected[cohort] += 1
        accuracy = 0.75 * (1 - np.exp(-(t + 1) / (60 - 2 * method))) + rng.normal(0, 0.02)
        record = {
            "round": t, "available": int(here.size), "cohort": cohort.tolist(), "weights": [0.1] * cohort.size,
            "answered": None, "skipped": False, "full": False, "questions": [],
            "bytes": {"model_down": 2e6, "model_up": 2e6, "questions_down": 4e5 * method, "questions_up": 80},
            "passes": {"training": 12800, "forward": 600 * method}, "steps": 200, "clock": 1.5 * (t + 1),
            "test": {"loss": float(2.3 - 2 * accuracy), "accuracy": float(accuracy)}, "train_loss": 1.0, "notes": {},
        }  # fmt: skip
        if method == 1 and t == rounds // 2:
            record["notes"]["embedding"] = {
                "ids": list(range(clients))[:100],
                "x": rng.normal(size=(min(clients, 100), 5)).tolist(),
            }
        if method == 2 and t == rounds // 2:
            record["notes"]["grouping"] = {"ids": list(range(clients)), "group": (np.arange(clients) % 4).tolist()}
        lines.append(json.dumps(record, separators=(",", ":")))
    (home / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    (home / "timings.jsonl").write_text(
        "".join(f'{{"round":{t},"select":0.001,"total":0.02}}\n' for t in range(rounds))
    )
    packed = np.packbits(mask, axis=1)
    np.savez_compressed(home / "federation.npz", sizes=counts.sum(axis=1), label_counts=counts, availability=packed)
    accuracy = np.clip(rng.normal(0.7, 0.1, clients), 0, 1)
    np.savez_compressed(
        home / "clients.npz", selected=selected, completed=selected, available=mask.sum(axis=0), accuracy=accuracy
    )
    (home / "summary.json").write_text('{"status": "done"}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("methods", 15), ("seeds", 10), ("rounds", 500), ("clients", 100), ("settings", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--keep", type=Path, help="keep folders and page here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        fabricate(
            folder / "runs", arguments.methods, arguments.seeds, arguments.rounds, arguments.clients, arguments.settings
        )
        started = time.perf_counter()
        from sortition.report import write

        page = write([folder / "runs"], folder / "report.html")
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{seconds:.1f} s, {peak:.0f} MB peak, page {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
