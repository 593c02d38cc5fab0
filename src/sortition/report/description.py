"""What was run: data, clients, availability, cohort, local work, model and seeds of a setting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sortition.core.cost import Until
from sortition.report.gather import Setting
from sortition.results.equal_cost import devices_differ
from sortition.results.object_names import shown_name
from sortition.results.summary import inputs_of
from sortition.results.sweeps import flattened, value_text

Config = Mapping[str, Any]  # of a run, or a table of it


def describe_setting(setting: Setting) -> str:
    """Write one sentence on what was run, then on its inputs and its target."""
    config = setting.first.config
    data = config.get("data") or {}
    local = config.get("local") or {}
    sizes = setting.federation.get("sizes")
    clients = "?" if sizes is None else f"{sizes.size:,}"
    if isinstance(data, dict):
        partition = shown_name((data.get("partition") or {}).get("name", "as given"))
    else:
        partition = "as given"
    if "steps" in local:
        work = count_text(local["steps"], "step")
    else:
        work = count_text(local.get("epochs", 1), "epoch")
    text = (
        f"{_name(data)} over {clients} clients ({partition}), {_reachable_text(setting)}; "
        f"{config.get('cohort', '?')} train {_length_text(config)}, {work} of {local.get('batch', '?')} at rate "
        f"{local.get('lr', '?')}, {_model_text(config)}; {count_text(len(setting.seeds), 'seed')}."
    )
    text += f" {_devices_sentence(config)} {_pace_sentence(config)}"
    inputs = inputs_of(setting.first.manifest)
    if inputs:
        text += f" Inputs: {inputs}"
    if setting.target is not None:
        text += f" Target: {setting.metric} {setting.target:g}."
    return text


def _length_text(config: Config) -> str:
    """Say how long a run is: its rounds, or the cost that ends it."""
    rounds = config.get("rounds", "?")
    limits = config.get("until")
    if not limits:
        return f"in each of {rounds} rounds"
    if rounds == "?":
        return f"in a round, until {Until(**limits)}"
    return f"in each of at most {rounds} rounds, until {Until(**limits)}"


def _devices_sentence(config: Config) -> str:
    """Say how fast the clients' devices are, and how often they fall silent."""
    alike = "" if devices_differ(config) else "equally fast"
    parts = [part for part in (alike, stated_devices_text(config)) if part]
    return f"Devices: {', '.join(parts)}."


def stated_devices_text(config: Config) -> str:
    """Write what a configuration says of devices: ``speed 100, speed spread 1``; speed only where devices differ."""
    devices = config.get("devices") or {}
    stated = {key: value for key, value in devices.items() if value and value != math.inf}
    if not devices_differ(config):
        stated.pop("speed", None)
        stated.pop("bandwidth", None)
    return _options_text(stated)


def _pace_sentence(config: Config) -> str:
    """Say how many are at work, how long the server waits, and what becomes of late updates."""
    pace = flattened(config.get("pace") or {})
    kind = str(pace.pop("kind", "rounds"))
    if not pace:
        return "Pace: rounds that wait for their whole cohort."
    return f"Pace: {kind}, {_options_text(pace)}."


def _options_text(values: Config) -> str:
    """Write keys and values of a table in a sentence: ``speed 100, speed spread 1``."""
    return ", ".join(f"{key.replace('_', ' ').replace('.', ' ')} {value_text(value)}" for key, value in values.items())


def _name(part: Any) -> str:
    """Return the name of data or a model, which a configuration gives as a table or as a text."""
    if isinstance(part, dict):
        return shown_name(part.get("name", "?"))
    return str(part)


def _model_text(config: Config) -> str:
    """Write ``model softmax``, or ``own model`` where Python gave it."""
    name = _name(config.get("model") or {})
    if name.startswith("own "):
        return name
    return f"model {name}"


def _reachable_text(setting: Setting) -> str:
    """Say how many of the clients are reachable on average."""
    mask = setting.availability
    if mask is None or mask.all():
        return "all of them always reachable"
    return f"{100 * mask.mean():.0f} % of them reachable on average"


def count_text(number: float, noun: str) -> str:
    """Write a number with its noun: ``1 seed``, ``1,000 seeds``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"
