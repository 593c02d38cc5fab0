"""Every kind of tampering with a run is found, and told by its line or round."""

import json
import shutil

import pytest
from tests.studies.tables import small

from sortition.audit import hash_chain
from sortition.audit.entry_writer import encode_cohort, encode_notes
from sortition.core import StorageError
from sortition.results import metrics, run_folder
from sortition.simulation import start
from sortition.studies import build_federation
from sortition.studies.audit.audit_run import examine
from sortition.studies.config import RunConfig, validated
from sortition.studies.plan import plan
from sortition.studies.runs import write_folder
from sortition.studies.runs.run_task import OneRun
from sortition.studies.runs.runner import place


def played(out, method, stop=None, **changes):
    run = plan(small(seeds=1, method=[method], **changes)).runs[0]
    path, ticks = place(out, run), []
    OneRun(run, path)(lambda *tick: ticks.append(tick), lambda: stop is not None and len(ticks) >= stop)
    return run_folder.Run(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return played(tmp_path_factory.mktemp("whole"), {"name": "power-of-choice", "d": 6})


@pytest.fixture
def run(whole, tmp_path):
    """A copy to tamper with."""
    shutil.copytree(whole.path, tmp_path / "run")
    return run_folder.Run(tmp_path / "run")


def lines(run):
    return (run.path / run_folder.AUDIT).read_bytes().splitlines()


def write(run, changed):
    (run.path / run_folder.AUDIT).write_bytes(b"".join(line + b"\n" for line in changed))


def edit(run, name, change):
    told = json.loads((run.path / name).read_text())
    change(told)
    (run.path / name).write_text(json.dumps(told))


def rehashed(entries):
    """A whole chain, forged anew with the right hashes."""
    last, made = hash_chain.START, []
    for number, entry in enumerate(entries):
        rest = {key: value for key, value in entry.items() if key not in ("entry", "previous", "hash")}
        line, last = hash_chain.seal(number, last, rest)
        made.append(line.rstrip(b"\n"))
    return made, last


def forged(run, t, change):
    """Forge round t and everything that would betray it but the choice itself."""
    entries = [json.loads(line) for line in lines(run)]
    change(entries[t + 1])
    made, last = rehashed(entries)
    write(run, made)
    edit(run, run_folder.SUMMARY, lambda told: told["audit"].update(final=last))


def recorded(run, change):
    """Forge rounds.jsonl."""
    told = [json.loads(line) for line in (run.path / run_folder.ROUNDS).read_text().splitlines()]
    change(told)
    (run.path / run_folder.ROUNDS).write_text("".join(json.dumps(one) + "\n" for one in told))


def cut(run, rounds):
    """Keep so many rounds of the log and of the records, and no word of an end."""
    for name, more in ((run_folder.AUDIT, 1), (run_folder.ROUNDS, 0)):
        path = run.path / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: rounds + more]))
    (run.path / run_folder.SUMMARY).unlink()


def faults(run, **options):
    found = examine(run_folder.Run(run.path), **options)
    assert found.faults
    return found.faults


def test_an_honest_run_holds(whole):
    found = examine(whole)
    assert (found.faults, found.unchecked_because, found.n_recomputed, found.rounds) == ([], "", 6, 6)
    assert not found.replayed
    again = examine(whole, replay=True)
    assert (again.faults, again.n_recomputed, again.replayed) == ([], 6, True)


@pytest.mark.parametrize("replay", [False, True])
def test_a_run_whose_availability_follows_the_clock_holds(tmp_path, replay):
    run = played(tmp_path, {"name": "uniform"}, pace={"slot": 0.5}, devices={"speed": 20.0, "speed_spread": 1.0})
    finding = examine(run, replay=replay)
    assert (finding.faults, finding.n_recomputed, finding.replayed) == ([], 6, replay)
    n_available = run.federation()["availability"].sum(axis=1).tolist()
    assert n_available == [record["available"] for record in run.records]
    assert len(set(n_available)) > 1


@pytest.mark.parametrize("name", ["hics", "fedcor", "longfed"])
def test_vectors_come_from_playing_the_run_again(tmp_path, name):
    found = examine(played(tmp_path, {"name": name}, rounds=4))
    assert (found.faults, found.n_recomputed) == ([], 4)


def test_altered(run):
    kept = lines(run)
    kept[3] = kept[3].replace(b'"budget":3', b'"budget":4')
    write(run, kept)
    assert faults(run) == ["Line 4 was altered: its content does not have the hash that it ends in."]


def test_deleted_inserted_reordered_and_cut(run):
    kept = lines(run)
    for changed, told in (
        ([*kept[:3], *kept[4:]], "Line 4 (entry 4) does not follow from the line before it: an entry was deleted"),
        ([*kept[:3], kept[1], *kept[3:]], "inserted or reordered"),
        ([*kept[:3], kept[4], kept[3], *kept[5:]], "inserted or reordered"),
        (kept[:-1], "the end was cut off"),
        ([], "The log is empty."),
    ):
        write(run, changed)
        assert told in faults(run)[0]


def test_a_torn_last_line_of_a_finished_run_is_told(run):
    path = run.path / run_folder.AUDIT
    path.write_bytes(path.read_bytes()[:-40])
    assert "Line 7 was altered" in faults(run)[0]


def test_what_a_kill_leaves_is_no_tampering(run):
    """A torn line, and a log ahead of the records, are common to all that stops; the verdict is never a pass."""
    path = run.path / run_folder.AUDIT
    (run.path / run_folder.SUMMARY).unlink()
    path.write_bytes(path.read_bytes()[:-40])
    found = examine(run_folder.Run(run.path))
    assert (found.faults, found.verdict, found.n_recomputed) == ([], "unfinished: 5 of 6 rounds", 5)
    recorded(run, lambda told: told.__delitem__(slice(2, None)))
    found = examine(run_folder.Run(run.path), replay=True)
    assert (found.faults, found.verdict, found.n_recomputed) == ([], "unfinished: 2 of 6 rounds", 2)
    path.write_bytes(b"")
    (run.path / run_folder.ROUNDS).unlink()
    assert examine(run_folder.Run(run.path)).verdict == "unfinished: 0 of 6 rounds"


def test_a_run_that_is_being_played_is_in_progress(run):
    cut(run, 3)
    with write_folder.locked(run.path):
        assert examine(run_folder.Run(run.path)).verdict == "in progress: 3 of 6 rounds"
    assert examine(run_folder.Run(run.path)).verdict == "unfinished: 3 of 6 rounds"


def test_a_run_cut_short_is_unfinished_whatever_its_summary_says(run):
    summary = json.loads((run.path / run_folder.SUMMARY).read_text())
    cut(run, 3)
    found = examine(run_folder.Run(run.path))
    assert (found.verdict, found.faults) == ("unfinished: 3 of 6 rounds", [])
    end = json.loads(lines(run)[-1])["hash"]
    told = {**summary, "rounds": 3, "figures": {}, "audit": {"entries": 4, "final": end}}
    (run.path / run_folder.SUMMARY).write_text(json.dumps(told))
    assert faults(run) == ["The run ends after 3 of 6 rounds, and no target was reached by then."]


def test_a_run_that_stopped_at_its_target_holds(tmp_path):
    target = {"accuracy": 0.2, "smooth": 1}
    run = played(tmp_path, {"name": "uniform"}, rounds=12, target=target, stop_at_target=True)
    assert len(run.records) < 12
    assert examine(run).verdict == "holds"


def test_a_run_that_was_given_more_rounds_holds_when_played_again(tmp_path):
    """Its old last round was evaluated, which the longer run would not have done."""
    for rounds in (3, 5):
        run = played(tmp_path, {"name": "uniform"}, rounds=rounds, evaluate_every=4)
    assert [t for t, one in enumerate(run.records) if "test" in one] == [2, 3, 4]
    assert examine(run, replay=True).verdict == "holds"


def test_a_removed_log_is_a_fault_and_the_run_does_not_go_on_without(run, tmp_path):
    (run.path / run_folder.AUDIT).unlink()
    assert faults(run) == ["The audit log is missing, though the run was made with one."]
    run = played(tmp_path / "stopped", {"name": "uniform"}, stop=2)
    (run.path / run_folder.AUDIT).unlink()
    with pytest.raises(
        StorageError, match=r"audit.jsonl is missing, though 2 rounds were played with it\. Bring it back"
    ):
        played(tmp_path / "stopped", {"name": "uniform"})
    assert "audit" in run_folder.Run(run.path).manifest


def test_a_manifest_of_a_later_version_is_a_finding(run):
    edit(run, run_folder.MANIFEST, lambda told: told.update(format=99))
    assert "has format 99" in faults(run)[0]


def test_a_forged_cohort_disagrees_with_the_records_and_with_the_recount(run):
    absent = next(k for k in range(12) if k not in json.loads(lines(run)[3])["cohort"])
    forged(run, 2, lambda e: e.update(cohort=[absent, *e["cohort"][1:]]))
    assert faults(run)[0].startswith("Round 2: cohort: the log has")
    recorded(run, lambda told: told[2]["cohort"].__setitem__(0, absent))
    found = examine(run_folder.Run(run.path))
    assert found.faults[-1].startswith("Round 2: the cohort should be")
    assert (found.n_recomputed, found.unchecked_because) == (2, "an earlier round differs")


def test_forged_weights_and_completions_disagree_with_the_records(run):
    forged(run, 1, lambda e: e.update(weights=[0.5, 0.25, 0.25]))
    assert "Round 1: weights: the log has [0.5, 0.25, 0.25]; rounds.jsonl has" in faults(run)[0]
    forged(run, 1, lambda e: e.update(weights=1 / 3, done=e["cohort"][:1]))
    assert any("completed clients" in fault for fault in faults(run))


def test_forged_availability_is_found(run):
    forged(run, 1, lambda e: e.update(available=[*e["available"][1:], max(set(range(12)) - set(e["available"]))]))
    found = examine(run)
    assert found.faults  # other candidates than the seed gives
    assert found.faults[0].startswith("Round 1")


@pytest.mark.parametrize("replay", [False, True])
def test_availability_forged_with_all_that_follows_from_it_is_found(tmp_path, replay):
    """The forger recomputes every choice, re-chains the log, and rewrites records and summary; the seed stays."""
    run = played(tmp_path, {"name": "uniform"})
    config = validated(RunConfig, run.config, "config")
    registrar = start(build_federation.setup(config)[1]).registrar
    entries, told = [json.loads(line) for line in lines(run)], run.records
    for entry, record in zip(entries[1:], told, strict=True):
        if entry["round"] == 2:
            absent = next(k for k in range(12) if k not in entry["available"])
            entry["available"] = sorted([absent, *[k for k in entry["available"] if k != entry["cohort"][0]]])
        turn = registrar.begin(entry["available"], entry["budget"])
        entry |= {**encode_cohort(turn.cohort), "notes": encode_notes(turn.cohort.notes)}
        record |= {"cohort": turn.cohort.ids.tolist(), "weights": turn.cohort.weights.tolist()}
        registrar.finish(turn)
    made, last = rehashed(entries)
    write(run, made)
    recorded(run, lambda kept: kept.__setitem__(slice(None), told))
    edit(run, run_folder.SUMMARY, lambda told: told.update(audit={"final": last}, figures={}))
    assert faults(run, replay=replay)[0].startswith("Round 2: ")


def test_a_forged_budget_is_found(tmp_path):
    run = played(tmp_path, {"name": "full"}, rounds=3)  # takes everybody, whatever the budget
    forged(run, 1, lambda entry: entry.update(budget=2))
    assert faults(run) == ["Round 1: the budget should be 3; the log has 2."]


def test_completions_and_refusals_forged_in_log_and_records_are_found(run):
    silent = json.loads(lines(run)[6])["cohort"][0]

    def without(entry):
        entry.update(done=entry["cohort"][1:], blamed={str(silent): "made up"})

    forged(run, 5, without)

    def record(told):
        told[5].update(answered=told[5]["cohort"][1:])
        told[5]["notes"]["unsound_updates"] = [silent]

    recorded(run, record)
    edit(run, run_folder.SUMMARY, lambda told: told.update(figures={}))
    assert faults(run, replay=True)[0].startswith("Round 5: ")


def test_made_up_refusals_are_found_without_a_replay(run):
    client = json.loads(lines(run)[6])["cohort"][0]
    forged(run, 5, lambda entry: entry.update(rejected={str(client): "loss: not finite"}))
    assert faults(run)[0].startswith("Round 5: refused numbers: the log has")
    recorded(run, lambda told: told[5].update(rejected={str(client): "loss: not finite"}))
    assert faults(run) == [
        f"Round 5: the refused numbers should be None; the log has {{'{client}': 'loss: not finite'}}."
    ]


@pytest.mark.parametrize(
    ("key", "value"), [("test", {"accuracy": 0.99, "loss": 0.01}), ("clock", 5.0), ("steps", 1), ("extra", 1)]
)
def test_a_replay_compares_every_figure_of_the_records(run, key, value):
    recorded(run, lambda told: told[3].update({key: value}))
    edit(run, run_folder.SUMMARY, lambda told: told.update(figures={}))
    assert examine(run_folder.Run(run.path)).verdict == "holds"  # as docs/reliability.md says: these are believed
    assert faults(run, replay=True)[0].startswith(f"Round 3: {key} in rounds.jsonl should be ")


def test_figures_must_follow_from_the_records(run):
    edit(run, run_folder.SUMMARY, lambda told: told["figures"].update({"best-accuracy": 0.99}))
    assert faults(run)[0].startswith("The summary's best-accuracy is 0.99; by the records 0.")


def test_records_that_give_no_figures_are_a_finding(run, monkeypatch):
    monkeypatch.setattr(metrics, "summarise", lambda run: run["odd"])
    assert "The summary's figures cannot be computed from the records: TypeError" in faults(run)[0]


def test_forged_answers_are_found_by_a_replay(run):
    forged(run, 1, lambda e: e["asked"][0]["answers"]["values"].__setitem__(0, 1e-3))
    assert any("Round 1" in fault for fault in faults(run, replay=True))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (run_folder.MANIFEST, lambda m: m["audit"].update(seed=5), "not the one that the log committed to"),
        (run_folder.MANIFEST, lambda m: m["audit"].update(salt="00"), "not the one that the log committed to"),
        (run_folder.MANIFEST, lambda m: m.pop("audit"), "does not disclose seed and salt"),
        (run_folder.MANIFEST, lambda m: m.update(audit={"seed": 0, "salt": 7}), "does not disclose seed and salt"),
        (run_folder.SUMMARY, lambda m: m["audit"].update(final="0" * 64), "does not end with the hash"),
        (run_folder.SUMMARY, lambda m: m.pop("audit"), "lacks the hash"),
    ],
)
def test_manifest_and_summary_are_held_to_it(run, file, change, message):
    edit(run, file, change)
    assert message in faults(run)[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selector": "sortition.selectors.uniform:Uniform"}, "The header's selector"),
        ({"parameters": {"d": 7, "variant": "pow-d"}}, "The header's parameters"),
        ({"clients": 13}, "The header's clients"),
        ({"population": "0"}, "another digest than the run's clients"),
        ({"commitment": "0"}, "not the one that the log committed to"),
        ({"format": 99}, "format 99"),
        ({"guards": {"explore": 1}}, "The header's guards"),
    ],
)
def test_a_header_of_another_selection_is_found(run, change, message):
    forged(run, -1, lambda e: e.update(change))
    assert message in faults(run)[0]


def test_a_run_without_a_log_says_so(tmp_path):
    run = played(tmp_path, {"name": "uniform"}, audit=False, rounds=2)
    assert not (run.path / run_folder.AUDIT).exists()
    assert run.done
    found = examine(run)
    assert (found.verdict, found.faults) == ("no log", [])
    assert found.unchecked_because == "there is no audit log: it was made with audit = false"


def test_stopped_and_resumed_gives_the_same_log(whole, tmp_path):
    run = played(tmp_path, {"name": "power-of-choice", "d": 6}, stop=2)
    with (run.path / run_folder.AUDIT).open("ab") as file:  # what a crash may leave
        file.write(b'{"entry":3}\n{"ent')
    run = played(tmp_path, {"name": "power-of-choice", "d": 6})
    assert (run.path / run_folder.AUDIT).read_bytes() == (whole.path / run_folder.AUDIT).read_bytes()
    assert examine(run).faults == []


def test_a_run_that_was_begun_without_a_log_goes_on_without(tmp_path):
    run = played(tmp_path, {"name": "uniform"}, stop=2)
    (run.path / run_folder.AUDIT).unlink()
    edit(run, run_folder.MANIFEST, lambda told: told.pop("audit"))
    run = played(tmp_path, {"name": "uniform"})
    assert run.done
    assert not (run.path / run_folder.AUDIT).exists()
    assert "audit" not in run.manifest


@pytest.mark.parametrize("method", ["power-of-choice", "fedcor", "hics", "longfed", "fedss"])
def test_choices_amid_faults_lies_and_guards_are_made_again(tmp_path, method):
    faults = dict.fromkeys(("before", "after", "lost", "late", "damaged", "duplicated", "stale", "crash"), 0.1)
    faults |= {"newcomers": 0.3, "leaving": 0.1, "reused": 0.2}
    guards = {"norm": 100.0, "strikes": 1, "quarantine": 3, "winsorise": 3.0, "size_cap": 2.0, "explore": 0.3}
    attacks = {"kind": "loss", "share": 0.2, "strength": 10.0}
    run = played(tmp_path, {"name": method}, rounds=12, faults=faults, guards=guards, attacks=attacks)
    finding = examine(run)
    assert finding.faults == []
    assert (finding.n_recomputed, finding.unchecked_because) == (12, "")
    assert finding.replayed or examine(run, replay=True).faults == []
    entries = [json.loads(line) for line in lines(run)]
    assert any("joined" in entry for entry in entries)
    made, last = rehashed([{key: value for key, value in entry.items() if key != "joined"} for entry in entries])
    write(run, made)
    edit(run, run_folder.SUMMARY, lambda told: told["audit"].update(final=last))
    assert "the population should be" in examine(run_folder.Run(run.path)).faults[0]


def test_a_random_size_and_the_number_of_trainings_are_audited(tmp_path):
    run = played(tmp_path, {"name": "ocs"})
    assert examine(run, replay=True).faults == []
    figures = metrics.summarise(run)
    assert figures["trainings"] > figures["uploads"]
    forged(run, 0, lambda entry: entry.update(expected_size=1.5))
    assert "expected_size" in faults(run)[0]
    forged_run = played(tmp_path / "forged", {"name": "ocs"})
    recorded(forged_run, lambda records: [record.pop(key) for record in records for key in ("trainings", "uploads")])
    assert "trainings in rounds.jsonl should be" in examine(run_folder.Run(forged_run.path), replay=True).faults[0]


def test_weights_by_intervals_of_participation_are_recomputed(tmp_path):
    run = played(tmp_path, {"name": "uniform", "reweight": "fedau"}, devices={"dropout": 0.3})
    assert examine(run, replay=True).faults == []
    recorded(run, lambda told: told[3].update(weights=[0.5] * 3))
    forged(run, 3, lambda entry: entry.update(weights=[0.5] * 3))
    assert any("Round 3: the cohort's weights should be" in fault for fault in faults(run))
