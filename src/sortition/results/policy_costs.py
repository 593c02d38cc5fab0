"""What each rule of a policy costs: runs with the whole policy beside the same runs without that rule.

Runs belong together where they differ in their setting's name and in their policy alone. ``sortition run
--policy-costs`` plays the runs without each rule (:mod:`sortition.studies.policy_cost_runs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.core.errors import InputError
from sortition.core.policy import RULES, Policy
from sortition.results.statistics import Centre, centre

Tables = Sequence[Mapping[str, Any]]  # the policies of a run, as its configuration has them
ALL_RULES = "all rules"
OF_POLICY = " of policy "  # between the name of a rule and the number of its policy


@dataclass(frozen=True)
class PolicyRun:
    """Holds what the cost of a rule is computed from, for one run.

    Attributes:
        method: the label of the run's method.
        seed: the run's seed.
        config: the run's configuration.
        accuracy: the test accuracy at the end, a share; None where the run has none.
        seconds: how many simulated seconds the whole run took.
        skipped: how many rounds had nobody eligible.
    """

    method: str
    seed: int
    config: Mapping[str, Any]
    accuracy: float | None
    seconds: float
    skipped: int


@dataclass(frozen=True)
class RuleCost:
    """What one rule costs one method, the same seeds compared.

    Attributes:
        setting: the setting with the whole policy.
        method: its label.
        rule: the name of the rule, with the number of its policy where several have one; ``all rules`` for the
            policies as a whole.
        seeds: how many seeds were played both ways.
        accuracy: accuracy without the rule less that with it, a share; None where too few seeds have one.
        seconds: simulated seconds with the rule less those without it.
        skipped: rounds that were skipped with the rule less those without it, a mean over seeds.
    """

    setting: str
    method: str
    rule: str
    seeds: int
    accuracy: Centre | None
    seconds: Centre | None
    skipped: float


def without_rule(policies: Tables, rule: str) -> list[dict[str, Any]]:
    """Return the policies without one rule of :func:`rules_of`, or without any."""
    if rule == ALL_RULES:
        return []
    shortened: list[Policy | None] = []
    for number, table in enumerate(policies, start=1):
        policy = Policy(**table)
        name, _, policy_number = rule.partition(OF_POLICY)
        if policy_number in ("", str(number)):
            shortened.append(policy.without(name))
        else:
            shortened.append(policy)
    return [policy.changed() for policy in shortened if policy is not None]


def rules_of(policies: Tables) -> list[str]:
    """Return the names of the rules in the order in which they are looked at; at the end all of them, of several.

    Where several policies have a rule of one name, its names are such as "separation of policy 2", counted from 1.
    """
    numbers_by_name: dict[str, list[int]] = {name: [] for name in RULES}
    for number, table in enumerate(policies, start=1):
        for rule in Policy(**table).rules:
            numbers_by_name[rule.name].append(number)
    names: list[str] = []
    for name, numbers in numbers_by_name.items():
        if len(numbers) > 1:
            names += [f"{name}{OF_POLICY}{number}" for number in numbers]
        elif numbers:
            names.append(name)
    if len(names) > 1:
        names.append(ALL_RULES)
    return names


def rule_costs(runs: Iterable[PolicyRun]) -> list[RuleCost]:
    """Return what each rule costs each method, where runs without it are there."""
    run_by_key: dict[str, PolicyRun] = {}
    for run in runs:
        run_by_key.setdefault(_key(run, _policies(run)), run)
    pairs: dict[tuple[str, str, str], list[tuple[PolicyRun, PolicyRun]]] = {}
    for run in run_by_key.values():
        policies = _policies(run)
        for rule in _known_rules(policies):
            run_without_rule = run_by_key.get(_key(run, without_rule(policies, rule)))
            if run_without_rule is not None:
                setting = str(run.config.get("setting", ""))
                pairs.setdefault((setting, run.method, rule), []).append((run, run_without_rule))
    return [
        _rule_cost(setting, method, rule, pairs_of_rule) for (setting, method, rule), pairs_of_rule in pairs.items()
    ]


def _rule_cost(setting: str, method: str, rule: str, pairs: Sequence[tuple[PolicyRun, PolicyRun]]) -> RuleCost:
    """Return what a rule costs a method, from the runs with it and without it, seed by seed."""
    lost_accuracy = [
        free_run.accuracy - run.accuracy
        for run, free_run in pairs
        if free_run.accuracy is not None and run.accuracy is not None
    ]
    return RuleCost(
        setting=setting,
        method=method,
        rule=rule,
        seeds=len(pairs),
        accuracy=_centre_of(lost_accuracy),
        seconds=_centre_of([run.seconds - free_run.seconds for run, free_run in pairs]),
        skipped=sum(run.skipped - free_run.skipped for run, free_run in pairs) / len(pairs),
    )


def _centre_of(values: Sequence[float]) -> Centre | None:
    if values:
        return centre(values)
    return None


def _policies(run: PolicyRun) -> list[dict[str, Any]]:
    policies = run.config.get("policy") or []
    if isinstance(policies, list):
        return [dict(policy) for policy in policies]
    return []


def _known_rules(policies: Tables) -> list[str]:
    """Return the rules of policies that can be read; none of those of a damaged configuration."""
    try:
        return rules_of(policies)
    except (InputError, TypeError):
        return []


def _key(run: PolicyRun, policies: Tables) -> str:
    """Return a key that is equal for runs which, with these policies, would differ in their setting's name alone."""
    shared = {key: value for key, value in run.config.items() if key not in ("setting", "policy")}
    tables = [dict(sorted(policy.items())) for policy in policies]
    return json.dumps([shared, tables], sort_keys=True, default=str)
