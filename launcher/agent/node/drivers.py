"""The drivers of a node's accelerators, from the files in which their kernel modules report their versions.

The agent knows nothing about a trainer's Python packages: the agent runs in another environment, and outside the image
if the job has one. The kernel, and with it the driver, is the same for both.
"""

import re
from pathlib import Path

from launcher.agent.metrics import versions_of

NVIDIA, NEURON = "nvidia-driver", "neuron-driver"
_NVIDIA_FILE, _NEURON_FILE = "proc/driver/nvidia/version", "sys/module/neuron/version"
_NVRM = re.compile(r"NVRM version:.*?\s(\d+(?:\.\d+){1,3})\s")
_MAX_BYTES = 4096


def drivers(root: Path = Path("/")) -> dict[str, str]:
    """The versions of the loaded drivers, by name; empty if none is loaded.

    NVIDIA reports a line like `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build`
    or `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023`.
    """
    line = _NVRM.search(_text(root / _NVIDIA_FILE) + "\n")
    versions = {NVIDIA: line.group(1) if line is not None else None, NEURON: _text(root / _NEURON_FILE).strip() or None}
    return versions_of(versions)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""  # that driver is not loaded
