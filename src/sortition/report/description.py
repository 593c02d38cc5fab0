"""What was run: data, clients, availability, cohort, local work, model and seeds of a setting."""

from __future__ import annotations

from typing import Any

from sortition.report.gather import Setting
from sortition.results.summary import inputs_of


def description(setting: Setting) -> str:
    """Write one sentence on what was run, then on its inputs and its target."""
    config = setting.first.config
    data = config.get("data") or {}
    local = config.get("local") or {}
    sizes = setting.federation.get("sizes")
    clients = "?" if sizes is None else f"{sizes.size:,}"
    partition = (data.get("partition") or {}).get("name", "as given") if isinstance(data, dict) else "as given"
    work = _counted(local["steps"], "step") if "steps" in local else _counted(local.get("epochs", 1), "epoch")
    text = (
        f"{_name(data)} over {clients} clients ({partition}), {_reachable(setting)}; {config.get('cohort', '?')} train "
        f"in each of {config.get('rounds', '?')} rounds, {work} of {local.get('batch', '?')} at rate "
        f"{local.get('lr', '?')}, model {_name(config.get('model') or {})}; {_counted(len(setting.seeds), 'seed')}."
    )
    inputs = inputs_of(setting.first.manifest)
    if inputs:
        text += f" Inputs: {inputs}"
    if setting.target is not None:
        text += f" Target: {setting.metric} {setting.target:g}."
    return text


def _name(part: Any) -> str:
    """Return the name of data or a model, which a configuration gives as a table or as a text."""
    return str(part.get("name", "?")) if isinstance(part, dict) else str(part)


def _reachable(setting: Setting) -> str:
    mask = setting.availability
    if mask is None or mask.all():
        return "all of them always reachable"
    return f"{100 * mask.mean():.0f} % of them reachable on average"


def _counted(number: float, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"
