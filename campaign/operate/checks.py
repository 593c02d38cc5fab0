"""Whether a federation that was killed again and again has lost or broken anything."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.operate.settings import LEAST_BATTERY, POLICIES, Diary, Settings
from campaign.policies import Use, violations
from campaign.prometheus import Prometheus
from sortition.core.round_record import answered_ids
from sortition.core.storage import snapshot
from sortition.studies.audit.audit_run import examine_log

STORED_WITHIN = 2.0  # seconds that Prometheus has to store the last page that it was sent
PERIOD = "2h"  # over which Prometheus is asked for its last samples
FATES = ("late", "silent", "standby", "failed", "withdrawn")
ENDS = ("withdrawn", "silent", "standby", "failed", "left_out")  # of a member whose update is not used
Record = dict[str, Any]


def lines_of(path: Path) -> int:
    """How many whole lines a file has; 0 where there is none."""
    if not path.exists():
        return 0
    return path.read_bytes().count(b"\n")


@dataclass(frozen=True)
class Remains:
    """What a killed federation left on the disk.

    Attributes:
        rounds: that its checkpoint counts on.
        history: a digest of their records.
        job: its name in the ledger; empty where it had no checkpoint yet.
        claims: the last claim in the ledger.
        ledger: a digest of all claims until then.
    """

    rounds: int
    history: str
    job: str
    claims: int
    ledger: str

    @classmethod
    def of(cls, settings: Settings) -> Remains:
        """Read the files after a kill."""
        rounds = 0
        job = ""
        if settings.checkpoint.exists():
            _, header = snapshot.load(settings.checkpoint)
            rounds = int(header["rounds"])
            job = str(header["job"])
        claims = _last_claim(settings.ledger)
        return cls(rounds, _history_digest(settings.history, rounds), job, claims, _ledger_digest(settings, claims))


def _history_digest(path: Path, rounds: int) -> str:
    lines = path.read_bytes().splitlines(keepends=True)[:rounds] if path.exists() else []
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _rows(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    if not path.exists():
        return []
    database = sqlite3.connect(path, timeout=60)
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.OperationalError:  # killed before its tables were made
        return []
    finally:
        database.close()


def _last_claim(path: Path) -> int:
    rows = _rows(path, "SELECT COALESCE(MAX(id), 0) FROM claims")
    return int(rows[0][0]) if rows else 0


def _ledger_digest(settings: Settings, last_claim: int) -> str:
    rows = _rows(settings.ledger, "SELECT * FROM claims WHERE id <= ? ORDER BY id", last_claim)
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _uses(path: Path) -> list[Use]:
    rows = _rows(path, "SELECT job, round, client, owner, tags, at, uses, bytes FROM claims ORDER BY id")
    return [
        Use(
            job=job,
            round=round_index,
            client=client,
            owner=owner,
            tags=tuple(json.loads(tags)),
            at=at,
            uses=uses,
            bytes=n_bytes,
        )
        for job, round_index, client, owner, tags, at, uses, n_bytes in rows
    ]


def report(settings: Settings, remains: list[Remains], prometheus: Prometheus, seconds: float) -> list[str]:
    """Print the figures of a federation; returned is what is wrong with it."""
    if not settings.checkpoint.exists():
        return [f"{settings.name}: there is no checkpoint"]
    records: list[Record] = [json.loads(line) for line in settings.history.read_text().splitlines()]
    uses = _uses(settings.ledger)
    job = str(snapshot.load(settings.checkpoint)[1]["job"])
    faults = [
        *_lost(settings, remains, records, job),
        *violations(list(POLICIES), uses),
        *unaccounted(records),
        *_unclaimed(settings, records, uses, job),
        *_flat_batteries(settings),
        *_wrong_counters(settings, prometheus, records),
        *_without_shadows(records),
        *_audit_faults(settings),
    ]
    excluded = sum((Counter(record.get("excluded") or {}) for record in records), Counter[str]())
    own_uses = [use for use in uses if use.job == job and use.uses]
    print(
        f"{settings.name}: {len(records)} rounds in {seconds:.0f} s, killed {len(remains)} times; "
        f"{sum(len(record['cohort']) for record in records)} chosen, "
        f"{sum(len(answered_ids(record)) for record in records)} updates used, "
        + ", ".join(f"{sum(len(record.get(end) or ()) for record in records)} {end}" for end in ENDS)
        + f"; {sum(len(record.get('late') or ()) for record in records)} answers came late"
        f"; {sum(bool(record.get('skipped')) for record in records)} rounds skipped; "
        f"{len(own_uses)} participations in the ledger; excluded by rule: {dict(excluded)}; {len(faults)} faults",
        flush=True,
    )
    return [f"{settings.name}: {fault}" for fault in faults]


def _lost(settings: Settings, remains: list[Remains], records: list[Record], job: str) -> Iterator[str]:
    """Rounds, records and claims that were there after a kill, and are not any more."""
    indices = [record["round"] for record in records]
    if indices != list(range(settings.rounds)):
        yield f"its rounds are not 0 to {settings.rounds - 1}, each once"
    for number, left_behind in enumerate(remains):
        if _history_digest(settings.history, left_behind.rounds) != left_behind.history:
            yield f"records of before kill {number} have changed"
        if left_behind.job not in ("", job):
            yield f"it forgot at kill {number} that it was the job {left_behind.job}"
        if _ledger_digest(settings, left_behind.claims) != left_behind.ledger:
            yield f"claims of before kill {number} have changed"


def unaccounted(records: list[Record]) -> Iterator[str]:
    """Members of a cohort whose end no record tells, or tells twice."""
    for record in records:
        ends = Counter(int(client) for client in answered_ids(record))  # type: ignore[arg-type]
        for end in ENDS:
            ends.update(int(client) for client in record.get(end) or ())
        if ends != Counter(record["cohort"]):
            yield f"round {record['round']} chose {record['cohort']}, and tells the ends of {sorted(ends.elements())}"


def _unclaimed(settings: Settings, records: list[Record], uses: list[Use], job: str) -> Iterator[str]:
    """Trainings that a device did and nobody claimed; updates in a record that no device trained."""
    claimed = {(use.round, use.client) for use in uses if use.job == job and use.uses}
    trained = {(entry["round"], entry["device"]) for entry in Diary(settings.diary).entries() if "round" in entry}
    for round_index, device in sorted(trained - claimed):
        yield f"{device} trained in round {round_index} without a claim"
    for record in records:
        names = dict(zip(record["cohort"], record["names"], strict=True))
        for client in answered_ids(record):  # type: ignore[arg-type]
            if (record["round"], names[client]) not in trained:
                yield f"round {record['round']} used an update of {names[client]}, which did not train"


def _flat_batteries(settings: Settings) -> Iterator[str]:
    """Trainings of devices that had said that their battery is low."""
    last_said: dict[str, float] = {}
    for entry in Diary(settings.diary).entries():
        device = entry["device"]
        if "battery" in entry:
            last_said[device] = entry["battery"]
        elif last_said.get(device, 0.0) < LEAST_BATTERY:
            yield f"{device} trained in round {entry['round']} with a battery of {last_said.get(device)}"


def _without_shadows(records: list[Record]) -> Iterator[str]:
    for record in records:
        shadows = record.get("shadows") or {}
        if set(shadows) != {"oort", "raising"}:
            yield f"round {record['round']} has the shadows {sorted(shadows)}"
            continue
        raised = "error" in shadows["raising"]
        if raised != (record["round"] % 3 == 0 and not record.get("skipped")):
            yield f"the raising shadow of round {record['round']} says {shadows['raising']}"


def _audit_faults(settings: Settings) -> list[str]:
    """Choices that are not those that the method had to make."""
    return [f"audit: {fault}" for fault in examine_log(settings.audit).faults]


def expected_counters(records: list[Record]) -> dict[str, dict[str, float]]:
    """The counters of a federation by its records: series → label → count."""
    counters: dict[str, Counter[str]] = {
        "rounds": Counter(_result(record) for record in records),
        "chosen": Counter({"": sum(len(record["cohort"]) for record in records)}),
        "used": Counter({"": sum(len(answered_ids(record)) for record in records)}),  # type: ignore[arg-type]
        "excluded": Counter(),
        "questions": Counter(),
        "answers": Counter(),
    }
    for fate in FATES:
        counters[fate] = Counter({"": sum(len(record.get(fate) or ()) for record in records)})
    for record in records:
        counters["excluded"].update(record.get("excluded") or {})
        for question in record.get("questions") or ():
            counters["questions"][question["signal"]] += question["asked"]
            counters["answers"][question["signal"]] += question["answered"]
    return {name: {label: float(count) for label, count in counts.items()} for name, counts in counters.items()}


def _result(record: Record) -> str:
    if record.get("skipped"):
        return "skipped"
    return "used" if answered_ids(record) else "empty"  # type: ignore[arg-type]


def _wrong_counters(settings: Settings, prometheus: Prometheus, records: list[Record]) -> Iterator[str]:
    """Counters of Prometheus that are not what the records say, or that ever went back."""
    time.sleep(STORED_WITHIN)
    for name, counts in expected_counters(records).items():
        series = f'sortition_{name}_total{{job="{settings.name}"}}[{PERIOD}]'
        samples = prometheus.query(f"last_over_time({series})")
        scraped = {labels[0][1] if labels else "": value for labels, value in samples.items()}
        if scraped != counts:
            yield f"Prometheus says {scraped} of {name}, and the records {counts}"
        resets = sum(prometheus.query(f"resets({series})").values())
        if resets:
            yield f"the counter {name} went back {resets:g} times"
