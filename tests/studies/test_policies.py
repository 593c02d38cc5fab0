"""A policy of a study: kept in every run, resumed to the bit, audited, explained, and priced."""

import json
import shutil

import numpy as np
import pytest
from tests.simulation.small import world
from tests.studies.audit.test_audit import forged, played, recorded
from tests.studies.tables import small

from sortition import Policy, simulate
from sortition.core import InputError, Population
from sortition.federation.pace import Pace
from sortition.report import write as write_report
from sortition.results import run_folder
from sortition.results.policy_costs import ALL_RULES, PolicyRun, rule_costs
from sortition.selectors import load
from sortition.simulation import Devices, FaultDraws, Faults, Habits, Setup, run, run_checkpoint, start
from sortition.simulation.batteries import DailyLife
from sortition.studies.audit.audit_run import examine
from sortition.studies.audit.why import why
from sortition.studies.config import RunConfig, validated
from sortition.studies.plan import plan
from sortition.studies.policy_cost_runs import with_policy_costs

TWICE = Policy(participations=1, window="2 rounds")
KEY = "participations=1/2 rounds"


def setup(policies, method="uniform", **options):
    own = world(seed=3, devices=Devices(speed=10.0))
    settings = {"cohort": 3, "horizon": 12, "seed": 3, **options}
    return Setup(own, load(method), policies=policies, **settings)


def cohorts(policies, **options):
    records = []
    run(setup(policies, **options), on_record=lambda _, record: records.append(record) and None)
    return records


class TestSimulator:
    def test_separation_and_participations_in_rounds(self):
        records = cohorts((Policy(separation="3 rounds"),))
        for t, record in enumerate(records):
            recent = {client for earlier in records[max(0, t - 2) : t] for client in earlier["cohort"]}
            assert not recent & set(record["cohort"])

    def test_separation_in_simulated_seconds(self):
        records = cohorts((Policy(separation="1 hour"),), horizon=40)
        last: dict[int, float] = {}
        clock = 0.0
        for record in records:
            for client in record["cohort"]:
                assert clock - last.get(client, -np.inf) >= 3600
                last[client] = clock
            clock = record["clock"]
        assert any(record["skipped"] for record in records)
        assert len(last) == 10

    def test_a_round_that_the_policy_leaves_empty_is_an_event_and_takes_time(self):
        records = cohorts((Policy(lifetime=1),), horizon=6)
        assert [len(record["cohort"]) for record in records] == [3, 3, 3, 1, 0, 0]
        assert records[-1]["skipped"]
        assert records[-1]["notes"]["skipped"] == "nobody eligible"
        assert records[-1]["excluded"] == {"lifetime=1": 10}
        assert records[-1]["clock"] - records[-2]["clock"] == 600

    def test_examples_and_owners(self):
        own = world(seed=3)
        people = Population(sizes=own.training_parts.sizes, label_counts=own.label_counts, groups=np.arange(10) // 5)
        owner = Policy(participations=1, window="1 round", per="owner")
        records = cohorts((Policy(examples=10), owner), population=people)
        for record in records:
            assert all(own.training_parts.sizes[client] >= 10 for client in record["cohort"])
            owners = [client // 5 for client in record["cohort"]]
            assert len(owners) == len(set(owners)) == 2

    @pytest.mark.parametrize("rule", ["battery", "charging", "idle", "hours", "server's hours"])
    def test_rules_on_the_habits_of_simulated_devices(self, rule):
        habits = Habits(zones=(-8.0, 0.0, 9.0))
        policies = {
            "battery": Policy(battery=0.6),
            "charging": Policy(charging=True),
            "idle": Policy(idle=True),
            "hours": Policy(hours="22-6", local_hours=True),
            "server's hours": Policy(hours="22-6"),
        }
        own = world(seed=3, devices=Devices(speed=0.002))  # a round takes hours
        rounds = 150 if rule == "server's hours" else 40  # a round that the policy leaves empty takes ten minutes
        made = Setup(own, load("uniform"), 2, rounds, policies=(policies[rule],), habits=habits, seed=5)
        life = DailyLife(habits, own.n_clients, own.seed)
        records = []
        run(made, on_record=lambda _, record: records.append(record) and None)
        clock = 0.0
        for record in records:
            facts = life.facts(clock)
            allowed = {
                "battery": facts["battery"] >= 0.6,
                "charging": facts["charging"],
                "idle": facts["idle"],
                "hours": ((clock / 3600 + facts["utc_offset"] - 22) % 24) < 8,
                "server's hours": np.full(own.n_clients, (clock / 3600 - 22) % 24 < 8),
            }[rule]
            assert all(allowed[client] for client in record["cohort"])
            assert sum((record.get("excluded") or {}).values()) == int((~allowed).sum())
            clock = record["clock"]
        assert clock > 86400
        assert any(record["cohort"] for record in records)
        assert any(record.get("excluded") for record in records)

    def test_habits_are_the_same_for_all_methods_and_after_a_restart(self, tmp_path):
        policies = (Policy(charging=True), Policy(battery=0.5))
        options = {"habits": Habits(), "devices": Devices(speed=0.01)}
        own = world(seed=3, devices=options["devices"])

        def made(method):
            return Setup(own, load(method), 3, 12, policies=policies, habits=options["habits"], seed=5)

        first = start(made("uniform"))
        whole = [first.play_round() for _ in range(12)]
        half = start(made("uniform"))
        records = [half.play_round() for _ in range(6)]
        run_checkpoint.save(tmp_path / "half.npz", half)
        again = run_checkpoint.load(tmp_path / "half.npz", made("uniform"))
        records += [again.play_round() for _ in range(6)]
        assert records == whole

    def test_facts_of_the_population_stand_before_habits(self):
        own = world(seed=3)
        battery = np.linspace(0.0, 0.9, own.n_clients)
        people = Population(sizes=own.training_parts.sizes, battery=battery)
        records = cohorts((Policy(battery=0.5),), population=people)
        assert all(battery[client] >= 0.5 for record in records for client in record["cohort"])

    def test_megabytes_with_questions(self):
        size = world(seed=3).initial.size
        limit = 4 * (2 * size + size + 1) / 1e6  # a question and a training
        policy = Policy(megabytes=limit, window="4 rounds")
        records = cohorts((policy,), method="power-of-choice", horizon=20)
        for t, record in enumerate(records):
            for client in record["cohort"]:
                earlier = [client in before["cohort"] for before in records[max(0, t - 3) : t]]
                assert not any(earlier)

    @pytest.mark.parametrize("pace", [Pace(kind="buffered", concurrency=4, buffer=2), Pace(overselect=1.5)])
    def test_with_every_pace(self, pace):
        records = cohorts((Policy(lifetime=2),), horizon=15, pace=pace)
        counts = np.bincount([client for record in records for client in record["cohort"]], minlength=10)
        assert counts.max() <= 2
        assert counts.sum() > 10

    def test_a_resumed_run_is_the_same_to_the_bit(self, tmp_path):
        policies = (Policy(separation="30 seconds"), Policy(participations=2, window="4 rounds", lifetime=9))
        whole = [json.dumps(record) for record in cohorts(policies)]
        simulation = start(setup(policies))
        lines = []
        for _ in range(12):
            lines.append(json.dumps(simulation.play_round()))
            run_checkpoint.save(tmp_path / "c.npz", simulation)
            simulation = run_checkpoint.load(tmp_path / "c.npz", setup(policies))
        assert lines == whole

    def test_a_crash_counts_nothing_twice(self):
        policies = (Policy(participations=2, window="4 rounds"),)
        without = cohorts(policies)
        crashing = cohorts(policies, faults=FaultDraws(Faults(crash=0.5), 10, 3))
        assert [record["cohort"] for record in crashing] == [record["cohort"] for record in without]
        assert [record.get("excluded") for record in crashing] == [record.get("excluded") for record in without]

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (Policy(lifetime=1, per="tag"), "Policy.per must be 'client' or 'owner' in a simulation"),
            (Policy(lifetime=1, per="owner"), "Policy.per must be 'client' where owners are unknown"),
        ],
    )
    def test_what_simulated_clients_do_not_have_is_refused(self, policy, message):
        with pytest.raises(InputError, match=message):
            setup((policy,))

    def test_a_policy_on_a_fact_that_is_not_known_is_refused(self):
        people = Population(label_counts=world(seed=3).label_counts)
        selector = load("uniform", weights="uniform")
        with pytest.raises(InputError, match=r"policy must be on facts that clients have .*; got 'sizes'"):
            Setup(world(seed=3), selector, 3, 3, population=people, policies=(Policy(examples=5),))


class TestStudy:
    def test_a_table_a_list_and_objects_mean_the_same(self):
        table = {"participations": 2, "window": "1 day"}
        expected = (Policy(**table),)
        for value in (table, [table], Policy(**table), [Policy(**table)]):
            (config,) = plan(small(seeds=1, method=[{"name": "uniform"}], policy=value)).runs
            assert config.policy == expected
            assert config.table()["policy"] == [table]
            assert validated(RunConfig, config.table(), "run").policy == expected

    def test_a_run_without_a_policy_does_not_mention_one(self):
        (config,) = plan(small(seeds=1, method=[{"name": "uniform"}])).runs
        assert "policy" not in config.table()
        assert "owners" not in config.table()

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            ({"participation": 2}, "participations"),
            ({"participations": 2}, "Policy.window must be given"),
            ({"participations": "2", "window": "1 day"}, "whole number"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, policy, message):
        with pytest.raises(InputError, match=message):
            plan(small(seeds=1, method=[{"name": "uniform"}], policy=policy))

    def test_simulate_takes_it(self):
        options = {"data": "digits", "clients": 6, "rounds": 3, "cohort": 2, "policy": Policy(lifetime=1)}
        records = [step.record for step in simulate("uniform", **options)]
        assert sorted(client for record in records for client in record["cohort"]) == list(range(6))

    def test_owners_share_a_limit(self):
        policy = Policy(participations=1, window="1 round", per="owner")
        options = {"data": "digits", "clients": 6, "rounds": 4, "cohort": 4, "policy": policy, "owners": 3}
        for step in simulate("uniform", **options):
            assert sorted(client % 3 for client in step.record["cohort"]) == [0, 1, 2]
            assert step.record["excluded"] == {"participations=1/1 round per owner": 3}

    def test_more_owners_than_clients_are_refused(self):
        with pytest.raises(InputError, match=r"owners must be at most the number of clients, 6; got 7"):
            next(simulate("uniform", data="digits", clients=6, rounds=1, cohort=2, owners=7))


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    return played(
        tmp_path_factory.mktemp("limited"), {"name": "uniform"}, policy=TWICE.changed(), availability="always"
    )


class TestAudit:
    def test_a_run_holds_with_and_without_a_replay(self, limited):
        for replay in (False, True):
            finding = examine(limited, replay=replay)
            assert not finding.faults
            assert finding.n_recomputed == len(limited.records)

    def test_a_run_with_owners_holds(self, tmp_path):
        policy = {"participations": 1, "window": "2 rounds", "per": "owner"}
        folder = played(tmp_path, {"name": "uniform"}, policy=policy, owners=2, availability="always")
        finding = examine(folder, replay=True)
        assert not finding.faults
        assert finding.n_recomputed == len(folder.records)

    def test_an_exclusion_that_is_made_up_is_found(self, limited, tmp_path):
        shutil.copytree(limited.path, tmp_path / "run")
        run = run_folder.Run(tmp_path / "run")

        def rename(table):
            table["excluded"] = {"lifetime=1": table["excluded"][KEY]}

        forged(run, 1, rename)
        (fault,) = examine(run_folder.Run(run.path)).faults
        assert "Round 1: clients that the policy left out: the log has {'lifetime=1': 3}" in fault
        recorded(run, lambda records: rename(records[1]))
        assert not examine(run_folder.Run(run.path)).faults
        (fault,) = examine(run_folder.Run(run.path), replay=True).faults
        assert "excluded in rounds.jsonl should be" in fault

    def test_why_says_that_a_client_was_not_eligible(self, limited):
        first = limited.records[0]["cohort"][0]
        sentences = " ".join(why(limited.path, 1, str(first)))
        assert "It was not eligible: chosen 1 of 1 times within 2 rounds; so Uniform could not choose it." in sentences
        assert "It was not chosen" not in sentences
        whole = " ".join(why(limited.path, 1))
        assert "The policy left out 3 (chosen 1 of 1 times within 2 rounds): " in whole


class TestCosts:
    def test_each_rule_is_left_out_once(self):
        table = small(seeds=2, method=[{"name": "uniform"}], policy={"lifetime": 3, "separation": "2 rounds"})
        made = plan(with_policy_costs(table))
        policies = {run.setting: [policy.changed() for policy in run.policy] for run in made.runs}
        assert policies == {
            "with all rules": [{"separation": "2 rounds", "lifetime": 3}],
            "without separation": [{"lifetime": 3}],
            "without lifetime": [{"separation": "2 rounds"}],
            "without all rules": [],
        }

    def test_settings_of_the_study_stay(self):
        settings = [{"name": "a"}, {"name": "b", "policy": {"lifetime": 5}}]
        made = plan(with_policy_costs(small(seeds=1, policy={"lifetime": 3}, setting=settings)))
        policies = {run.setting: [policy.changed() for policy in run.policy] for run in made.runs}
        assert policies == {
            "a": [{"lifetime": 3}],
            "b": [{"lifetime": 5}],
            "a, without lifetime": [],
            "b, without lifetime": [],
        }

    def test_rules_of_one_name_in_several_policies_are_left_out_one_by_one(self):
        policies = [
            {"participations": 2, "window": "5 rounds"},
            {"participations": 3, "window": "9 rounds", "only": ["1"]},
        ]
        made = plan(with_policy_costs(small(seeds=1, method=[{"name": "uniform"}], policy=policies)))
        left = {run.setting: [policy.changed() for policy in run.policy] for run in made.runs}
        assert left == {
            "with all rules": policies,
            "without participations of policy 1": policies[1:],
            "without participations of policy 2": policies[:1],
            "without all rules": [],
        }
        runs = [one("all", policies, 0, 0.5, 1.0, 0), one("some", policies[:1], 0, 0.6, 1.0, 0)]
        (cost,) = rule_costs(runs)
        assert (cost.setting, cost.rule) == ("all", "participations of policy 2")

    def test_a_study_without_a_policy_is_refused(self):
        with pytest.raises(InputError, match="policy must be given where its costs are to be measured"):
            with_policy_costs(small())

    def test_differences_are_paired_by_seed(self):
        whole = [{"lifetime": 3, "separation": "2 rounds"}]
        runs = [
            *(one("with", whole, seed, accuracy, 100.0, 4) for seed, accuracy in ((0, 0.5), (1, 0.7))),
            *(
                one("less", [{"separation": "2 rounds"}], seed, accuracy, 70.0, 0)
                for seed, accuracy in ((0, 0.6), (1, 0.9))
            ),
            one("none", [], 0, 0.8, 50.0, 0),
        ]
        costs = {(cost.setting, cost.rule): cost for cost in rule_costs(runs)}
        assert set(costs) == {("with", "lifetime"), ("with", ALL_RULES), ("less", "separation")}
        lifetime = costs["with", "lifetime"]
        assert (lifetime.setting, lifetime.method, lifetime.seeds, lifetime.skipped) == ("with", "uniform", 2, 4)
        assert lifetime.accuracy.mean == pytest.approx(0.15)
        assert lifetime.seconds.mean == 30
        assert costs["with", ALL_RULES].accuracy.mean == pytest.approx(0.3)

    def test_the_report_has_both_tables(self, tmp_path):
        from sortition.studies.from_python import study

        table = with_policy_costs(small(seeds=2, rounds=4, method=[{"name": "uniform"}], policy=TWICE.changed()))
        study(table, out=tmp_path / "runs", jobs=1, progress=False)
        page = write_report([tmp_path / "runs"], tmp_path / "report.html")
        text = page.read_text()
        assert "Client-rounds that the policy left out" in text
        assert KEY in text
        assert "What each rule costs" in text
        assert "participations = 1, window = 2 rounds</td>" in text


def one(setting, policies, seed, accuracy, seconds, skipped):
    config = {"setting": setting, "seed": seed, "rounds": 9, **({"policy": policies} if policies else {})}
    return PolicyRun("uniform", seed, config, accuracy, seconds, skipped)
