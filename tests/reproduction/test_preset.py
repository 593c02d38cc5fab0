"""Every preset of the package, whoever wrote it: it loads, its runs resolve, its cells name runs that exist."""

import inspect

import numpy as np
import pytest

from sortition.core import stream
from sortition.core.errors import InputError
from sortition.data.partitions import split
from sortition.reproduction import preset
from sortition.results.metrics import metric


@pytest.mark.parametrize("name", preset.preset_names())
def test_presets_are_sound(name):
    loaded = preset.load_preset(name)
    plan = loaded.plan()
    assert loaded.paper.title
    assert plan.runs or loaded.figures
    for table in loaded.tables:
        assert not table.reference or table.reference in plan.labels
        accepted = inspect.signature(metric(table.metric)).parameters
        open_ended = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        unknown = set(table.model_extra or {}) - set(accepted)
        assert open_ended or not unknown, f"{table.metric} has no option {unknown}"
        cells = {label for published in table.paper.values() for label in published}
        assert not cells or cells & set(plan.labels)
    for figure in loaded.figures:
        assert callable(preset.import_hook(figure))


def write(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_what_is_wrong_with_a_preset(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'availability'"):
        preset.load_preset("availabilty")
    with pytest.raises(InputError, match=r"\[paper\]"):
        preset.load_preset(write(tmp_path, "rounds = 3"))
    with pytest.raises(InputError, match=r"table\.metric must be one of rounds-to-target"):
        preset.load_preset(write(tmp_path, '[paper]\ntitle = "T"\n[[table]]\ntitle = "A"\nmetric = "bset"'))
    with pytest.raises(InputError, match="Did you mean 'title'"):
        preset.load_preset(write(tmp_path, '[paper]\ntitel = "T"'))


@pytest.mark.parametrize(
    "name", ["hics-fmnist", "hics-fmnist-cnn", "hics-fallback", "hics-one-label", "hics-cifar10", "hics-availability"]
)
def test_no_setting_of_hics_leaves_clients_almost_without_data(name):
    labels = np.repeat(np.arange(10), 5000)
    partitions = {run.setting: run.data for run in preset.load_preset(name).plan().runs}
    for setting, data in partitions.items():
        rule = dict(data.partition)
        made = split(rule.pop("name"), labels, data.clients, stream(0, "split"), **rule)
        assert made.sizes.min() >= 0.19 * made.sizes.mean(), f"{setting}: {made.notes}"  # the paper redraws below 20 %
