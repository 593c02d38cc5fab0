"""Policies at work: who is eligible, what counts as used, and what is left after a restart."""

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.federation import policy_rules
from tests.federation.fake import Device, Network

from sortition import Policy
from sortition.core import InputError, StorageError
from sortition.core.cohort import Cohort
from sortition.core.questions import Measure
from sortition.core.signals import LOSS, TRAINING_LOSS, ModelSize
from sortition.federation import Federation
from sortition.federation.ledger import Claim, Ledger
from sortition.federation.members import MemberDirectory
from sortition.federation.policies import Eligible, PolicyKeeper
from sortition.selectors import load
from sortition.studies.audit.audit_run import examine_log
from sortition.studies.audit.why import why

EVEN = load("uniform", weights="uniform")


class Clients:
    """A directory of clients c0, c1, … with owners and tags; a clock that is set by hand."""

    def __init__(self, owners=(), tags=(), parameters=10, clock=0.0):
        self.owners, self.all_tags, self.parameters = owners, tags, parameters
        self.clock = clock

    def name(self, client):
        return f"c{client}"

    def owner(self, client):
        return self.owners[client] if self.owners else ""

    def tags(self, client):
        return self.all_tags[client] if self.all_tags else ()

    def now(self):
        return self.clock

    def hour(self, utc):
        return (self.clock / 3600) % 24

    def model_size(self):
        return ModelSize(self.parameters)


def keeper(*policies, job="a", ledger=None, **options):
    made = PolicyKeeper(policies, Clients(**options), seed=1)
    made.job = job
    if ledger is not None:
        made.share(ledger, job)
    return made


def admit(kept, n=4, **facts):
    ids = np.arange(n)
    return kept.admit(
        ids, lambda asked: Eligible(asked, {name: np.asarray(rows)[asked] for name, rows in facts.items()})
    ).tolist()


def left_out(kept):
    return {key: ids.tolist() for key, ids in kept.excluded.items()}


class TestRulesOnThePast:
    def test_separation_in_rounds(self):
        kept = keeper(Policy(separation="3 rounds"))
        eligible = []
        for kept.round in range(5):
            eligible.append(admit(kept, 2))
            if kept.round == 0:
                kept.claim(np.array([1]))
        assert eligible == [[0, 1], [0], [0], [0, 1], [0, 1]]

    def test_separation_in_seconds(self):
        kept = keeper(Policy(separation="1 hour"))
        admit(kept)
        kept.claim(np.array([1]))
        kept.directory.clock = 3599.0
        assert admit(kept) == [0, 2, 3]
        assert left_out(kept) == {"separation=1 hour": [1]}
        kept.directory.clock = 3600.0
        assert admit(kept) == [0, 1, 2, 3]

    def test_participations_within_a_sliding_window(self):
        kept = keeper(Policy(participations=2, window="1 day"))
        for clock in (0.0, 50_000.0):
            kept.directory.clock = clock
            admit(kept)
            kept.claim(np.array([2]))
        assert admit(kept) == [0, 1, 3]
        assert kept.said() == "1 (chosen 2 of 2 times within 1 day)"
        kept.directory.clock = 86_400.0
        assert admit(kept) == [0, 1, 2, 3]

    def test_a_lifetime(self):
        kept = keeper(Policy(lifetime=1))
        admit(kept)
        kept.claim(np.array([0, 3]))
        kept.directory.clock = 1e9
        assert admit(kept) == [1, 2]

    def test_megabytes_leave_room_for_a_whole_training(self):
        kept = keeper(Policy(megabytes=2.0, window="1 day"), parameters=100_000)  # 0.8 MB a training
        for _ in range(2):
            admit(kept)
            kept.claim(np.array([0]))
        assert admit(kept) == [1, 2, 3]

    def test_a_clock_that_is_set_back_is_not_followed(self):
        kept = keeper(Policy(separation="1 minute"))
        kept.directory.clock = 100.0
        admit(kept)
        kept.claim(np.array([0]))
        kept.directory.clock = 10.0
        assert 0 not in admit(kept)
        kept.directory.clock = 160.0
        assert 0 in admit(kept)

    def test_nor_is_one_that_is_set_back_during_a_restart(self):
        policy = Policy(participations=1, window="1 minute")
        kept = keeper(policy, clock=100.0)
        admit(kept)
        kept.claim(np.array([0]))
        kept.directory.clock = 165.0
        assert 0 in admit(kept)
        again = keeper(policy, clock=130.0)
        again.restore(json.loads(json.dumps(kept.export())))
        admit(again)
        again.claim(np.array([0]))
        (used_at,) = [moment for moment, *_ in again.export()["tallies"][0]["window"]]
        assert used_at == 165.0

    @pytest.mark.parametrize(
        "saved", [None, [], {"tallies": []}, {"tallies": [{}]}, {"latest": "nan", "tallies": [{}]}]
    )
    def test_damaged_counts_are_refused(self, saved):
        with pytest.raises(StorageError, match=r"of another policy|are damaged"):
            keeper(Policy(lifetime=1)).restore(saved)

    def test_twice_in_one_round_is_one_participation(self):
        kept = keeper(Policy(lifetime=1))
        admit(kept)
        assert kept.claim_question(Measure(TRAINING_LOSS, np.array([0, 1]))).ids.tolist() == [0, 1]
        assert not kept.claim(np.array([0])).size

    def test_only_some(self):
        kept = keeper(Policy(lifetime=1, only=("phone", "c3")), tags=(("phone",), (), (), ()))
        admit(kept)
        kept.claim(np.arange(4))
        assert admit(kept) == [1, 2]


class TestQuestions:
    def test_one_that_needs_no_training_is_no_participation(self):
        kept = keeper(Policy(lifetime=1))
        admit(kept)
        kept.claim_question(Measure(LOSS, np.arange(4)))
        assert admit(kept) == [0, 1, 2, 3]

    def test_it_goes_only_to_those_who_can_also_train_after_it(self):
        kept = keeper(Policy(megabytes=1.0, window="1 day"), parameters=100_000)  # a question and a training: 1.2 MB
        admit(kept)
        assert kept.claim_question(Measure(LOSS, np.array([0, 1]))) is None
        assert not kept.claim(np.array([0, 1])).size

    def test_a_rehearsal_uses_its_cohort(self):
        kept = keeper(Policy(lifetime=1))
        admit(kept)
        kept.claim_question(Measure(LOSS, np.array([2, 3]), Cohort.uniform([0, 1])))
        assert admit(kept) == [2, 3]


class TestSharedLimits:
    def test_an_owner_has_no_more_clients_eligible_than_places_left(self):
        kept = keeper(Policy(participations=3, window="1 day", per="owner"), owners=("a", "a", "a", "b"))
        admit(kept)
        kept.claim(np.array([0]))
        eligible = admit(kept)
        assert len(eligible) == 3
        assert 3 in eligible
        assert not kept.claim(np.array(eligible)).size
        assert admit(kept) == [3]
        assert set(left_out(kept)) == {"participations=3/1 day per owner"}

    def test_clients_with_a_tag_are_used_apart_from_each_other(self):
        kept = keeper(Policy(separation="1 hour", per="tag"), tags=(("x",), ("x", "y"), ("y",), ()))
        eligible = admit(kept)
        assert 3 in eligible
        assert len(eligible) in (2, 3)  # client 1 alone, or clients 0 and 2
        assert not {0, 1} <= set(eligible)
        assert not {1, 2} <= set(eligible)
        assert not kept.claim(np.array(eligible)).size

    def test_the_draw_is_keyed_by_the_round(self):
        kept = keeper(Policy(participations=1, window="1 round", per="owner"), owners=("a",) * 4)
        drawn = []
        for kept.round in range(12):
            drawn += admit(kept)
        assert len(drawn) == 12
        assert len(set(drawn)) > 1


class TestRulesOnFacts:
    def test_each_rule(self):
        policy = Policy(examples=10, battery=0.5, charging=True, idle=True)
        kept = keeper(policy)
        facts = {
            "sizes": [9, 10, 10, 10, 10],
            "battery": [1.0, 0.4, 0.5, 1.0, 0.5],
            "charging": [1, 1, 0, 1, 1],
            "idle": [1, 1, 1, 0, 1],
        }
        assert admit(kept, 5, **facts) == [4]
        assert left_out(kept) == {"battery=0.5": [1], "charging": [2], "examples=10": [0], "idle": [3]}

    def test_what_is_not_known_is_not_eligible(self):
        kept = keeper(Policy(battery=0.1))
        assert admit(kept, 2, battery=[np.nan, 0.5]) == [1]
        assert admit(kept, 2) == []

    def test_devices_left_out_by_the_past_are_not_asked(self):
        kept = keeper(Policy(lifetime=1, battery=0.1))
        admit(kept, battery=np.ones(4))
        kept.claim(np.array([0, 1]))
        asked = []

        def look(ids):
            asked.extend(ids.tolist())
            return Eligible(ids, {"battery": np.ones(ids.size)})

        kept.admit(np.arange(4), look)
        assert asked == [2, 3]

    @pytest.mark.parametrize(("hour", "eligible"), [(21.9, False), (22.0, True), (3.0, True), (6.0, False)])
    def test_hours_over_midnight(self, hour, eligible):
        kept = keeper(Policy(hours="22-6"))
        kept.directory.clock = 3600 * hour
        assert bool(admit(kept)) == eligible

    def test_hours_of_the_device(self):
        kept = keeper(Policy(hours="8-18", local_hours=True))
        kept.directory.clock = 3600.0 * 5
        assert admit(kept, 3, utc_offset=[0, 3, -7]) == [1]
        assert left_out(kept) == {"hours=8-18 local": [0, 2]}


# -- the ledger --------------------------------------------------------------------------------------------------------


class TestLedger:
    def test_two_jobs_share_the_limits_of_a_device(self, tmp_path):
        first = keeper(Policy(lifetime=1), job="a", ledger=Ledger(tmp_path / "l.sqlite"))
        second = keeper(Policy(lifetime=1), job="b", ledger=Ledger(tmp_path / "l.sqlite"))
        assert admit(first) == admit(second) == [0, 1, 2, 3]
        assert not first.claim(np.array([0, 1])).size
        assert second.claim(np.array([1, 2])).tolist() == [1]  # chosen before the other job's claim was known
        assert admit(first) == admit(second) == [3]

    def test_rounds_are_those_of_one_job(self, tmp_path):
        first = keeper(Policy(separation="5 rounds"), job="a", ledger=Ledger(tmp_path / "l.sqlite"))
        second = keeper(Policy(separation="5 rounds"), job="b", ledger=Ledger(tmp_path / "l.sqlite"))
        admit(first)
        first.claim(np.array([0]))
        assert admit(first) == [1, 2, 3]
        assert admit(second) == [0, 1, 2, 3]

    def test_rounds_that_an_older_checkpoint_forgot_count_as_just_played(self, tmp_path):
        policy = Policy(separation="2 rounds", participations=2, window="10 rounds")
        kept = keeper(policy, ledger=Ledger(tmp_path / "l.sqlite"))
        for kept.round, client in ((37, 3), (43, 0), (48, 0), (49, 1), (50, 2)):
            admit(kept)
            assert kept.claim(np.array([client])).tolist() == []

        def restored(round_index):
            again = keeper(policy, ledger=Ledger(tmp_path / "l.sqlite"))
            again.round = round_index
            return again

        again = restored(20)  # as if rounds 43 to 50 had been 13 to 20
        assert admit(again) == [3]
        assert left_out(again) == {"participations=2/10 rounds": [0], "separation=2 rounds": [1, 2]}
        assert again.claim(np.array([3])).tolist() == []
        again.round = 21
        assert admit(again) == [1]
        again = restored(21)  # another restart moves nothing once more
        assert admit(again) == [1]
        again.round = 23
        assert admit(again) == [0, 1, 2, 3]

    def test_a_job_that_restarts_knows_what_it_sent(self, tmp_path):
        policy = Policy(participations=2, window="1 day")
        kept = keeper(policy, ledger=Ledger(tmp_path / "l.sqlite"))
        admit(kept)
        kept.claim(np.array([0]))
        kept.ledger.close()
        again = keeper(policy, ledger=Ledger(tmp_path / "l.sqlite"))  # the same round once more
        admit(again)
        assert not again.claim(np.array([0])).size  # a second training, and counted as such
        assert admit(again) == [1, 2, 3]

    def test_what_fails_is_not_kept(self, tmp_path):
        ledger = Ledger(tmp_path / "l.sqlite")

        def fail():
            with ledger.exclusively():
                ledger.append([Claim("a", 0, "c0", "", (), 0.0, 1, 8)])
                ledger.unread()
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        other = Ledger(tmp_path / "l.sqlite")
        other.append([Claim("b", 0, "c1", "", ("x",), 0.0, 1, 8)])
        assert [claim.client for claim in ledger.unread().claims] == ["c1"]

    def test_a_file_of_something_else_is_refused(self, tmp_path):
        (tmp_path / "text").write_text("no database, and long enough to be read as one" * 9)
        with pytest.raises(StorageError, match="text cannot be used: file is not a database"):
            Ledger(tmp_path / "text")
        with sqlite3.connect(tmp_path / "other") as database:
            database.execute("CREATE TABLE books (title TEXT)")
        with pytest.raises(StorageError, match="other is a database of something else"):
            Ledger(tmp_path / "other")

    def test_a_damaged_row_is_refused(self, tmp_path):
        ledger = Ledger(tmp_path / "l.sqlite")
        ledger._db.execute("INSERT INTO claims VALUES (1, 'a', 'x', 'c', '', '[]', 0.0, 1, 8)")
        with pytest.raises(StorageError, match="is damaged: the stored claim on client 'c' is invalid"):
            ledger.unread()

    @pytest.mark.parametrize("row", [("c", "", "{}", 1, 0.0), ("c", "", "[]", "many", 0.0)])
    def test_a_damaged_lifetime_is_refused(self, tmp_path, row):
        ledger = Ledger(tmp_path / "l.sqlite")
        ledger._db.execute("INSERT INTO lifetimes VALUES (?, ?, ?, ?, ?)", row)
        ledger._db.execute("INSERT INTO pruned VALUES (1, 5)")
        with pytest.raises(StorageError, match="is damaged: the stored use count of client 'c' is invalid"):
            ledger.unread()

    def test_a_later_format_is_refused(self, tmp_path):
        ledger = Ledger(tmp_path / "l.sqlite")
        ledger._db.execute("PRAGMA user_version = 9")
        with pytest.raises(StorageError, match="format 9; this version reads 1"):
            Ledger(tmp_path / "l.sqlite")


DAY = 86400.0


def use(kept, clients, *, days, round_index=None):
    """Let a keeper claim clients some days later, in the next round or the one that is given."""
    kept.directory.clock += days * DAY
    kept.round = kept.round + 1 if round_index is None else round_index
    admit(kept)
    return kept.claim(np.array(clients)).tolist()


def stored_claims(path):
    with sqlite3.connect(path) as database:
        return [client for (client,) in database.execute("SELECT client FROM claims ORDER BY id")]


def stored_lifetimes(path):
    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT client, uses FROM lifetimes"))


class TestPruning:
    def test_claims_that_no_rule_needs_become_sums(self, tmp_path):
        path = tmp_path / "l.sqlite"
        kept = keeper(Policy(participations=2, window="1 day", lifetime=3), ledger=Ledger(path))
        use(kept, [0, 1], days=0)
        use(kept, [0], days=27)
        assert stored_claims(path) == ["c0", "c1", "c0"]
        use(kept, [2], days=2)
        assert stored_claims(path) == ["c0", "c2"]
        assert stored_lifetimes(path) == {"c0": 1, "c1": 1}

    def test_the_lifetime_of_a_device_outlives_its_claims(self, tmp_path):
        path = tmp_path / "l.sqlite"
        policy = Policy(lifetime=2)
        kept = keeper(policy, ledger=Ledger(path))
        use(kept, [0], days=0)
        use(kept, [0, 1], days=40)
        use(kept, [2], days=40)
        assert stored_lifetimes(path) == {"c0": 2, "c1": 1}
        kept.ledger.close()
        again = keeper(policy, ledger=Ledger(path), clock=90 * DAY)
        assert admit(again) == [1, 2, 3]
        assert left_out(again) == {"lifetime=2": [0]}

    def test_lifetimes_of_owners_and_tags_are_summed_up_apart(self, tmp_path):
        path = tmp_path / "l.sqlite"
        policies = [Policy(lifetime=2, per="owner"), Policy(lifetime=3, per="tag", only=["phone"])]
        options = {"owners": ["acme", "acme", "beta", "beta"], "tags": [("phone",), ("phone",), ("phone",), ()]}
        kept = keeper(*policies, ledger=Ledger(path), **options)
        use(kept, [0, 1], days=0)
        use(kept, [2], days=40)
        use(kept, [3], days=40)
        assert stored_claims(path) == ["c3"]
        kept.ledger.close()
        again = keeper(*policies, ledger=Ledger(path), **options, clock=90 * DAY)
        admit(again)
        assert left_out(again) == {"lifetime=2 per owner": [0, 1, 2, 3]}

    def test_a_longer_window_of_another_job_keeps_claims(self, tmp_path):
        path = tmp_path / "l.sqlite"
        short = keeper(Policy(participations=1, window="1 day"), job="short", ledger=Ledger(path))
        long = keeper(Policy(participations=1, window="8 weeks"), job="long", ledger=Ledger(path))
        use(short, [0], days=0)
        use(short, [1], days=50)
        assert stored_claims(path) == ["c0", "c1"]
        long.directory.clock = 50 * DAY
        assert admit(long) == [2, 3]
        use(short, [2], days=20)
        assert stored_claims(path) == ["c1", "c2"]

    def test_rounds_are_looked_back_by_their_own_job_alone(self, tmp_path):
        path = tmp_path / "l.sqlite"
        slow = keeper(Policy(separation="3 rounds"), job="slow", ledger=Ledger(path))
        other = keeper(Policy(lifetime=9), job="other", ledger=Ledger(path))
        use(slow, [0], days=0, round_index=5)
        use(other, [1], days=0, round_index=5)
        use(other, [2], days=99)
        assert stored_claims(path) == ["c0", "c2"]  # the slow job may go on with round 6
        slow.ledger.close()
        again = keeper(Policy(separation="3 rounds"), job="slow", ledger=Ledger(path), clock=100 * DAY)
        again.round = 7
        assert admit(again) == [1, 2, 3]
        again.ledger._prune_at = 0.0
        use(again, [1], days=0, round_index=8)
        use(again, [3], days=2, round_index=9)
        assert stored_claims(path) == ["c2", "c1", "c3"]

    def test_a_job_that_had_not_read_what_was_pruned_counts_anew(self, tmp_path):
        path = tmp_path / "l.sqlite"
        asleep = keeper(Policy(lifetime=2), job="asleep", ledger=Ledger(path))
        use(asleep, [0], days=0)
        awake = keeper(Policy(lifetime=9), job="awake", ledger=Ledger(path))
        use(awake, [0, 1], days=0)
        use(awake, [2], days=99)
        assert stored_claims(path) == ["c2"]
        asleep.directory.clock = 99 * DAY
        assert admit(asleep) == [1, 2, 3]
        assert use(asleep, [1, 2], days=0) == []
        assert admit(asleep) == [3]
        assert left_out(asleep) == {"lifetime=2": [0, 1, 2]}

    def test_pruning_that_is_interrupted_loses_nothing(self, tmp_path, monkeypatch):
        path = tmp_path / "l.sqlite"
        kept = keeper(Policy(lifetime=2), ledger=Ledger(path))
        use(kept, [0], days=0)
        use(kept, [1], days=0)
        monkeypatch.setattr(kept.ledger, "append", lambda claims: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            use(kept, [0], days=99)
        assert stored_claims(path) == ["c0", "c1"]
        assert stored_lifetimes(path) == {}


USES_BY_CLIENT = """
SELECT client, SUM(uses)
FROM (SELECT client, uses FROM claims UNION ALL SELECT client, uses FROM lifetimes) GROUP BY client
"""
CLAIMER = """
import sys
import numpy as np
from pathlib import Path
from sortition import Policy
from sortition.federation.ledger import Ledger
from sortition.federation.policies import Eligible
from tests.federation.test_policies import keeper
from sortition.federation import ledger
if sys.argv[3] == "prunes":
    ledger.RETENTION = ledger.CLOCK_MARGIN = ledger.PRUNING_PAUSE = 0.0
kept = keeper(Policy(lifetime=3), job=sys.argv[2], ledger=Ledger(Path(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
got = 0
for kept.round in range(40):
    kept.directory.clock += 1
    kept.admit(np.arange(30), lambda ids: Eligible(ids, {}))
    chosen = np.random.default_rng(kept.round).choice(30, 4, replace=False)
    got += 4 - kept.claim(chosen).size
    print(got, flush=True)
"""


def claimer(path, job, prunes=""):
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIMER, str(path), job, prunes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout.readline() == "ready\n"
    return process


def claims_by_client(path):
    with sqlite3.connect(path) as database:
        return dict(database.execute(USES_BY_CLIENT))


@pytest.mark.parametrize("prunes", ["", "prunes"])
def test_two_processes_on_one_ledger_never_use_a_device_too_often(tmp_path, prunes):
    path = tmp_path / "l.sqlite"
    processes = [claimer(path, job, prunes) for job in ("a", "b")]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    counts = claims_by_client(path)
    assert set(counts.values()) == {3}  # both wanted more, and every device was used as often as it may be
    assert sum(int(output.split()[-1]) for output in outputs) == sum(counts.values())
    assert bool(stored_lifetimes(path)) == bool(prunes)


def test_a_job_that_is_killed_leaves_a_sound_ledger(tmp_path):
    path = tmp_path / "l.sqlite"
    process = claimer(path, "a")
    process.stdin.write("go\n")
    process.stdin.flush()
    told = [int(process.stdout.readline()) for _ in range(5)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    counts = claims_by_client(path)
    assert max(counts.values()) <= 3
    assert sum(counts.values()) >= told[-1]  # what it had been told is claimed is on the disk
    again = keeper(Policy(lifetime=3), ledger=Ledger(path))
    full = [client for client in range(30) if counts.get(f"c{client}", 0) >= 3]
    assert admit(again, 30) == [client for client in range(30) if client not in full]


# -- a federation ------------------------------------------------------------------------------------------------------


def federation(tmp_path, devices, *, transport=None, **options):
    network = transport or Network(devices)
    settings = {"cohort": 2, "patience": 0.0, "checkpoint": tmp_path / "f.npz", **options}
    made = Federation(network, {"w": np.zeros(2, np.float32)}, EVEN, **settings)
    made.messenger.clock = network.clock
    made.messenger.go_on_from(0.0)
    return made


def devices(n=4, **options):
    return [Device(f"c{k}", **options) for k in range(n)]


class TestFederation:
    def test_nobody_is_used_more_often_than_promised(self, tmp_path):
        made = federation(tmp_path, devices(), policy=Policy(participations=1, window="2 rounds"))
        made.run(6)
        cohorts = [set(record["cohort"]) for record in made.history]
        assert all(len(cohort) == 2 for cohort in cohorts)
        assert all(not before & after for before, after in pairwise(cohorts))
        assert [record.get("excluded") for record in made.history[1:]] == [{"participations=1/2 rounds": 2}] * 5
        listed = made.history[1]["excluded_ids"]["participations=1/2 rounds"]
        assert listed == sorted(made.history[0]["cohort"])

    def test_nobody_eligible_is_a_skipped_round_with_a_line(self, tmp_path, caplog):
        made = federation(tmp_path, devices(2), policy=Policy(lifetime=1), patience=20.0)
        with caplog.at_level(logging.INFO):
            made.run(3)
        assert [record["skipped"] for record in made.history] == [False, True, True]
        reasons = "of 2 clients online, 0 are busy, and the others are not eligible: 2 (chosen 1 of 1 times in all)"
        assert caplog.messages.count(f"Waiting: {reasons}; the round is skipped in 20 s (patience)") == 2
        assert made.history[1]["notes"]["skipped"] == "nobody eligible"
        assert made.history[1]["excluded"] == {"lifetime=1": 2}
        line = "Round 1 is skipped: the policy leaves nobody eligible; left out are 2 (chosen 1 of 1 times in all)"
        assert line in caplog.messages

    def test_facts_are_asked_for_and_fresh(self, tmp_path):
        fleet = [Device(f"c{k}", facts={"battery": 0.2 * k, "charging": True}) for k in range(4)]
        made = federation(tmp_path, fleet, policy=Policy(battery=0.5, charging=True))
        made.run(1)
        assert made.history[0]["cohort"] == [3]
        assert made.history[0]["excluded"] == {"battery=0.5": 3}

    def test_owners_share_a_limit(self, tmp_path):
        policy = Policy(participations=1, window="1 round", per="owner")
        made = federation(tmp_path, devices(4), policy=policy, owner_of=lambda name: int(name[1]) // 2)
        made.run(4)
        assert all(len({client // 2 for client in record["cohort"]}) == 2 for record in made.history)

    def test_a_resumed_federation_goes_on_with_what_it_counted(self, tmp_path):
        policy = Policy(lifetime=1)
        federation(tmp_path, devices(4), policy=policy).run(1)
        made = federation(tmp_path, devices(4), policy=policy, resume=True)
        made.run(3)
        chosen = [client for record in made.history for client in record["cohort"]]
        assert sorted(chosen) == [0, 1, 2, 3]
        assert made.history[2]["skipped"]

    def test_what_was_sent_before_a_crash_counts_and_the_round_is_played_with_others(self, tmp_path, monkeypatch):
        policy = Policy(separation="5 rounds")
        made = federation(tmp_path, devices(6), policy=policy)
        monkeypatch.setattr(made.driver, "close_round", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made.run(1)
        sent = {ask.session for ask in made.messenger.transport.asks if ask.kind == "train"}
        again = federation(tmp_path, devices(6), policy=policy, resume=True, ledger=tmp_path / "f.npz.ledger.sqlite")
        again.run(1)
        resent = {ask.session for ask in again.messenger.transport.asks if ask.kind == "train"}
        assert len(sent) == len(resent) == 2
        assert not sent & resent

    def test_two_federations_share_the_limits_of_a_device(self, tmp_path):
        policy = Policy(lifetime=1)
        ledger = tmp_path / "devices.sqlite"
        first = federation(tmp_path / "one", devices(4), policy=policy, ledger=ledger)
        second = federation(tmp_path / "two", devices(4), policy=policy, ledger=ledger, seed=5)
        first.run(1)
        second.run(1)
        assert not set(first.history[0]["names"]) & set(second.history[0]["names"])

    def test_a_member_that_another_job_used_meanwhile_is_withdrawn(self, tmp_path, monkeypatch):
        made = federation(tmp_path, devices(2), policy=Policy(lifetime=1))
        claim = made.messenger.policy.claim

        def raced(cohort):
            with made.messenger.policy.ledger.exclusively():
                made.messenger.policy.ledger.append([Claim("other", 0, "c0", "", (), time.time(), 1, 8)])
            return claim(cohort)

        monkeypatch.setattr(made.messenger.policy, "claim", raced)
        made.run(1)
        record = made.history[0]
        assert record["withdrawn"] == [0]
        assert record["answered"] == [1]
        assert record["silent"] == []
        assert not made.messenger.transport.asked("train", "c0")

    @pytest.mark.parametrize("pace", [{"kind": "buffered", "buffer": 1}, {"quorum": 1, "late": "use"}])
    def test_where_work_outlives_a_step(self, tmp_path, pace):
        fleet = [Device(f"c{k}", train=1.0 + k) for k in range(6)]
        made = federation(tmp_path, fleet, policy=Policy(lifetime=2), pace=pace)
        made.run(16)
        assert max(made.messenger.transport.asked("train", f"c{k}") for k in range(6)) == 2
        assert made.history[-1]["skipped"]
        assert set(made.history[-1]["excluded"]) == {"lifetime=2"}

    def test_a_member_withdrawn_from_overlapping_work_is_given_up(self, tmp_path, monkeypatch):
        pace = {"kind": "buffered", "buffer": 1}
        made = federation(tmp_path, devices(2), policy=Policy(lifetime=1), pace=pace)
        claim = made.messenger.policy.claim

        def raced(cohort):
            made.messenger.policy.ledger.append([Claim("other", 0, "c0", "", (), time.time(), 1, 8)])
            return claim(cohort)

        monkeypatch.setattr(made.messenger.policy, "claim", raced)
        made.run(1)
        assert made.history[0]["given_up"] == {"0": "another job used up its limit"}
        assert made.history[0]["answered"] == [1]

    def test_history_and_audit_log_say_why(self, tmp_path):
        made = federation(tmp_path, devices(4), policy=Policy(lifetime=1), audit=tmp_path / "audit.jsonl")
        made.run(2)
        finding = examine_log(tmp_path / "audit.jsonl")
        assert (finding.faults, finding.n_recomputed) == ([], 2)
        name = made.history[0]["names"][0]
        expected = "It was not eligible: chosen 1 of 1 times in all; so Uniform could not choose it."
        assert expected in why(tmp_path / "audit.jsonl", 1, name)
        (tmp_path / "audit.jsonl").unlink()
        assert expected in why(tmp_path / "f.npz", 1, name)
        assert any("The policy left out 2 (chosen 1 of 1 times in all)" in line for line in why(tmp_path / "f.npz", 1))

    def test_without_a_policy_nothing_is_written(self, tmp_path):
        made = federation(tmp_path, devices(2))
        made.run(1)
        assert not list(tmp_path.glob("*.sqlite*"))
        assert not {"excluded", "excluded_ids", "withdrawn"} & made.history[0].keys()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"policy": {"lifetime": 3}}, "Federation.policy must be a Policy or a list of them"),
            ({"ledger": "l.sqlite"}, "Federation.ledger must be given with a policy only; got 'l.sqlite'"),
            (
                {"policy": Policy(lifetime=3, per="owner")},
                "Policy.per must be 'client' or 'tag' where owners are unknown",
            ),
            ({"policy": Policy(lifetime=3), "refresh": {"battery": 9}}, "Federation.refresh must be of the facts"),
        ],
    )
    def test_mistakes_are_said_before_anything_runs(self, tmp_path, options, message):
        with pytest.raises(InputError, match=message):
            federation(tmp_path, devices(2), **options)


class Tagged(Device):
    """A device with a tag."""

    def answer(self, ask, handle):
        reply = super().answer(ask, handle)
        if reply.profile is not None:
            reply = replace(reply, profile=replace(reply.profile, tags=("phone",)))
        return reply


@pytest.mark.parametrize("rule", policy_rules.RULES)
def test_each_rule_on_a_server_of_ones_own(rule, tmp_path, monkeypatch):
    monkeypatch.setattr(MemberDirectory, "hour", lambda self, utc: policy_rules.NOON)
    policy = Policy(**policy_rules.options_of(rule, parameters=2))
    fleet = [Tagged(f"c{client}", facts=policy_rules.facts_of(client)) for client in range(4)]
    made = federation(tmp_path, fleet, policy=policy, owner_of=lambda name: "company")
    made.run(2)
    policy_rules.check_two_rounds(rule, made.history)


def test_a_ledger_with_tags_of_any_depth_is_called_damaged(tmp_path):
    path = tmp_path / "deep.sqlite"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        row = ("job", 1, "a", "", "[" * 100_000, 1.0, 1, 1)
        database.execute(
            "INSERT INTO claims (job, round, client, owner, tags, at, uses, bytes) VALUES (?,?,?,?,?,?,?,?)", row
        )
    with pytest.raises(StorageError, match="is damaged"):
        Ledger(path).unread()


def test_a_ledger_that_ended_the_transaction_itself_is_an_error_in_words(tmp_path):
    """As SQLite does where the disk is full."""
    path = tmp_path / "full.sqlite"
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON claims BEGIN SELECT RAISE(ROLLBACK, 'full'); END")
    ledger = Ledger(path)
    claim = Claim(job="job", round=0, client="a", owner="", tags=(), at=1.0, uses=1, bytes=1)
    with pytest.raises(StorageError, match="full"), ledger.exclusively():
        ledger.append([claim])
