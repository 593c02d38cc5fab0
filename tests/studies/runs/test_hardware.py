"""What a manifest says of the machine: its processor, and not its name."""

from __future__ import annotations

import platform

from sortition.studies.runs import hardware as module
from sortition.studies.runs.hardware import describe_hardware


def test_the_model_of_the_processor_is_named(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor : 0\nmodel name : Processor X @ 2 GHz\n\nprocessor : 1\nmodel name : Processor X\n")
    monkeypatch.setattr(module, "CPUINFO", cpuinfo)
    described = describe_hardware("cpu")
    assert described["processor"] == "Processor X @ 2 GHz"
    assert described["cores"] >= 1
    assert set(described) == {"processor", "cores"}


def test_where_the_system_does_not_say_it_the_kind_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CPUINFO", tmp_path / "nothing")
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert describe_hardware("cpu")["processor"] == platform.machine()


def test_an_accelerator_is_named(monkeypatch):
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU of {device}")
    assert describe_hardware("cuda:1")["accelerator"] == "GPU of cuda:1"
    assert describe_hardware("mps")["accelerator"] == "mps"
