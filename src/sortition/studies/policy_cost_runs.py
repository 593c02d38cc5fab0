"""Plans the runs that tell what each rule of a study's policy costs: every setting once more without each rule."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sortition.core.errors import InputError
from sortition.core.policy import Policy
from sortition.core.validation import translate_error
from sortition.results.policy_costs import rules_of, without_rule
from sortition.studies.types import ReadOnlyTable, TomlTable

WITH_ALL = "with all rules"  # the setting of a study that has none


def with_policy_costs(table: ReadOnlyTable) -> TomlTable:
    """Return a study's table with further settings: each one without one rule of its policy, and without any."""
    settings = [dict(setting) for setting in table.get("setting") or [{"name": WITH_ALL}]]
    policies_by_setting = [_policies(table, setting) for setting in settings]
    if not any(policies_by_setting):
        raise InputError("policy must be given where its costs are to be measured; got nothing. Write [policy].")
    further = []
    for setting, policies in zip(settings, policies_by_setting, strict=True):
        for rule in rules_of(policies):
            name = f"without {rule}"
            if table.get("setting"):
                name = f"{setting.get('name')}, {name}"
            further.append({**setting, "name": name, "policy": without_rule(policies, rule)})
    return {**table, "setting": [*settings, *further]}


def _policies(table: ReadOnlyTable, setting: ReadOnlyTable) -> list[dict[str, Any]]:
    """Return the policies of a setting, checked, as the configuration of its runs has them."""
    shared = table.get("policy") or []
    value = setting.get("policy", shared)
    if isinstance(value, dict) and isinstance(shared, dict):
        value = {**shared, **value}
    tables = [value] if isinstance(value, dict | Policy) else value
    adapter = TypeAdapter(list[Policy])
    try:
        return [policy.changed() for policy in adapter.validate_python(tables)]
    except ValidationError as error:
        raise translate_error(error, "policy", [field.name for field in fields(Policy)]) from None
