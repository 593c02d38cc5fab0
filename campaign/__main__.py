"""``python -m campaign PART``: one part of the campaign, within bounds; ``--help`` lists the parts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before numpy is imported: the processes do not fight for cores
os.environ.setdefault("RUST_BACKTRACE", "0")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Look for defects, for as long as wanted.")
    parts = parser.add_subparsers(dest="part", required=True)
    soak = parts.add_parser("soak", help="every method under random faults, guards and attacks")
    soak.add_argument("--runs", type=int, default=1_000)
    soak.add_argument("--rounds", type=int, default=100, help="of each run")
    soak.add_argument("--first", type=int, default=0, help="number (seed) of the first run")
    soak.add_argument("--seconds", type=float, default=900)
    soak.add_argument("--jobs", type=int, default=2)
    kills = parts.add_parser("kills", help="kill -9 at random instants, each time resumed")
    kills.add_argument("--kills", type=int, default=200)
    kills.add_argument("--seed", type=int, default=0)
    fuzz = parts.add_parser("fuzz", help="damaged and odd inputs to everything that reads")
    fuzz.add_argument("--targets", nargs="*", help="default: all that can be imported")
    fuzz.add_argument("--seconds", type=float, default=600, help="for all targets together")
    fuzz.add_argument("--inputs", type=int, default=1 << 60, help="for each target")
    fuzz.add_argument("--seed", type=int, default=0)
    fuzz.add_argument("--state", default="", help="a JSON file of tallies, to go on from")
    fuzz.add_argument("--atheris", action="store_true", help="one target, guided by coverage (pip install atheris)")
    policies = parts.add_parser("policies", help="rules on how often and when devices may be used, on one ledger")
    policies.add_argument("--rounds", type=int, default=100_000)
    policies.add_argument("--first", type=int, default=0, help="number (seed) of the first world")
    operate = parts.add_parser(
        "operate", help="two federations with policies, metrics and shadows on one ledger, killed and started again"
    )
    operate.add_argument("--rounds", type=int, default=1_000, help="of each federation")
    operate.add_argument("--kills", type=int, default=20, help="of each federation")
    operate.add_argument("--seconds", type=float, default=5_400, help="for everything")
    operate.add_argument("--only", nargs="*", default=["flower", "server"], choices=["flower", "server"])
    operate.add_argument("--seed", type=int, default=0)
    parts.add_parser("claims", help="what adversaries gain with claims made for one method, and by silence")
    long = parts.add_parser("long", help="ten thousand rounds with a hundred thousand clients")
    long.add_argument("--methods", nargs="*", default=["uniform", "power-of-choice", "fedgs", "fedss"])
    long.add_argument("--rounds", type=int, default=10_000)
    long.add_argument("--clients", type=int, default=100_000)
    long.add_argument("--cohort", type=int, default=20)
    long.add_argument("--share", type=float, default=0.3, help="of the clients that are available")
    portable = parts.add_parser("portable", help="other kernels, odd folders, another user")
    portable.add_argument("--only", nargs="*", default=[], choices=["kernels", "odd", "nobody"])
    portable.add_argument("paths", nargs="*", default=["tests"], help="of the tests in odd folders")
    identity = parts.add_parser("identity", help="do two trees of the source choose the same?")
    identity.add_argument("--write", metavar="FILE", help="play every method, and write digests")
    identity.add_argument("--compare", nargs=2, metavar=("BEFORE", "AFTER"), help="two such files")
    readability = parts.add_parser("readability", help="figures on how the lines of src/ read")
    readability.add_argument("--places", metavar="ROOM", help="list the lines behind the figures of one room")
    parts.add_parser("first-evaluation", help="suite 2: what gains owe to the time before the first evaluation")
    shape = parts.add_parser("shape", help="statements of the rooms of a federation, and files of a simulated round")
    shape.add_argument("--files", action="store_true", help="list the files of the round")
    trust = parts.add_parser("trust", help="what a tenth of the clients can do to a model in spite of the guards")
    trust.add_argument("--out", default="trust.jsonl", help="a file of outcomes, to go on from")
    trust.add_argument("--first", type=int, default=3, help="the first seed; the set-up was chosen on seeds 0 to 2")
    trust.add_argument("--seeds", type=int, default=6)
    trust.add_argument("--methods", nargs="*", default=[], help="default: all")
    trust.add_argument("--attacks", nargs="*", default=[], help="default: all")
    trust.add_argument("--unguarded", nargs="*", default=["honest"], help="attacks to play without guards, too")
    trust.add_argument("--partition", default="shards", choices=["shards", "dirichlet"])
    trust.add_argument(
        "--table", default="", help="add what was measured to this table, which the report reads, and to docs"
    )
    trust.add_argument("--show", action="store_true", help="print the tables of the file, and play nothing")
    microcosm = parts.add_parser("microcosm", help="what Microcosm gains, and where there is nothing to gain")
    microcosm.add_argument(
        "of", choices=["natural", "rivals", "losses", "targets", "ledger", "small", "clients", "payments"]
    )
    microcosm.add_argument("--out", default="microcosm.jsonl", help="a file of outcomes, to go on from")
    microcosm.add_argument("--first", type=int, default=200, help="the first seed")
    microcosm.add_argument("--seeds", type=int, default=5)
    microcosm.add_argument("--methods", nargs="*", default=[], help="labels; default: all")
    microcosm.add_argument("--settings", nargs="*", default=[], help="default: all")
    microcosm.add_argument("--show", action="store_true", help="print the table of the file, and play nothing")
    return parser.parse_args()


def main() -> int:
    """Run one part; 0 if nothing was found."""
    given = _arguments()
    if given.part == "soak":
        from campaign import soak

        return soak.report(soak.run(given.first, given.runs, given.seconds, given.jobs, given.rounds))
    if given.part == "kills":
        from campaign import kills

        return kills.run(given.kills, given.seed)
    if given.part == "fuzz" and given.atheris:
        from campaign.fuzz import guided

        return guided.guide(given.targets[0], given.seconds)
    if given.part == "fuzz":
        from campaign.fuzz import run

        return run.run(given)
    if given.part == "policies":
        from campaign import policies

        return policies.run(given.rounds, given.first)
    if given.part == "operate":
        from campaign.operate import run as operation

        return operation.run(
            names=given.only, rounds=given.rounds, kills=given.kills, seconds=given.seconds, seed=given.seed
        )
    if given.part == "claims":
        from campaign import claims

        return claims.run()
    if given.part == "portable":
        from campaign import portable

        return portable.run(given.only, given.paths)
    if given.part == "identity":
        return _identity(given)
    if given.part == "readability":
        from campaign import readability

        return readability.report(given.places)
    if given.part == "shape":
        from campaign import shape

        return shape.report(with_files=given.files)
    if given.part == "first-evaluation":
        from campaign import first_evaluation

        return first_evaluation.report()
    if given.part == "trust":
        from campaign import trust

        return trust.report(given)
    if given.part == "microcosm" and given.of == "clients":
        from campaign import suite_clients

        return suite_clients.report(Path(given.out), given.settings, seeds=given.seeds, show=given.show)
    if given.part == "microcosm" and given.of == "payments":
        from campaign import payments

        return payments.report(range(given.first, given.first + given.seeds))
    if given.part == "microcosm":
        from campaign import microcosm

        return microcosm.report(given)
    from campaign import long_run

    return 0 if long_run.run(tuple(given.methods), given.rounds, given.clients, given.cohort, given.share) else 1


def _identity(given: argparse.Namespace) -> int:
    import json
    from pathlib import Path

    from campaign import identity

    if given.compare:
        return identity.compare(Path(given.compare[0]), Path(given.compare[1]))
    Path(given.write).write_text(json.dumps(identity.digests(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
