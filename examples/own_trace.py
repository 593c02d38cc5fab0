"""Who was really there: a recorded trace decides who is reachable. Run: python examples/own_trace.py

A CSV or Parquet file with client_id,start,end (or client_id,time,state). Here we make one up: phones that are on their
charger for some hours of the night, in three time zones. In a study's file:
availability = { name = "trace", path = "phones.csv", step = 3600 }.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

from sortition.studies import study

CLIENTS, DAYS, HOUR = 45, 3, 3600


def write(path: Path) -> None:
    """One stretch a client and night: about six hours around its local 2 o'clock."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["client_id", "start", "end"])
        for client in range(CLIENTS):
            midnight = 8 * (client % 3)  # the zone
            for day in range(DAYS):
                start = 24 * day + midnight + rng.normal(0, 1)
                rows.writerow([client, max(0, start) * HOUR, (start + rng.uniform(4, 8)) * HOUR])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "phones.csv"
        write(path)
        result = study(
            {
                "rounds": 24 * DAYS,
                "cohort": 4,
                "seeds": 2,
                "data": {"name": "digits", "clients": CLIENTS, "partition": {"name": "shards", "per_client": 2}},
                "model": "softmax",
                "availability": {"name": "trace", "path": str(path), "step": HOUR},
                "local": {"steps": 5, "batch": 16, "lr": 0.1},
                "method": [{"name": "uniform"}, {"name": "fedgs"}],
            }
        )
    print(result)
    there = result.runs[0].federation()["availability"].sum(axis=1)
    print("reachable by hour of the first day:", there[:24].tolist())


if __name__ == "__main__":
    main()
