"""On which hardware a run is played: what a paper says of it. No name of the machine."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from sortition.studies.types import TomlTable

CPUINFO = Path("/proc/cpuinfo")


def describe_hardware(device: str) -> TomlTable:
    """Return the processor, its cores, and the accelerator where the run uses one."""
    described: TomlTable = {"processor": _processor(), "cores": os.cpu_count() or 1}
    if device.startswith("cuda"):
        import torch

        described["accelerator"] = torch.cuda.get_device_name(device)
    elif device != "cpu":
        described["accelerator"] = device
    return described


def _processor() -> str:
    """Return the model of the processor; where the system does not say it, its kind."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()
