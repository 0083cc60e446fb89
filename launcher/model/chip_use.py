"""The use of a node's chips at a moment, from what nvidia-smi or neuron-monitor prints."""

import math
from collections.abc import Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.model.record import record

WITHOUT = "no nvidia-smi and no neuron-monitor"
_SCRIPT = f"""PATH="$PATH:/opt/aws/neuron/bin"
if command -v nvidia-smi >/dev/null; then
    exec nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total,power.draw --format=csv,noheader,nounits
fi
command -v neuron-monitor >/dev/null || {{ echo "{WITHOUT}" >&2; exit 127; }}
timeout 20 neuron-monitor | head -n 1"""
QUERY = ("sh", "-c", _SCRIPT)
"""GPUs: percent of the last second in which a kernel ran, MiB, MiB, watts; one line a GPU. Neuron: one report, which
comes after 5 seconds."""
_FIELDS = 4
MIB_PER_GIB = 1024
GIB = 1 << 30
_MAX_CORES = 4096


@record
class ChipUse:
    """All chips of a node: their mean utilization in percent, GiB in use and in all, and watts; None if not reported.

    `lowest` is the utilization of the least used chip.
    """

    chips: int
    utilization: float | None
    lowest: float | None
    memory_gib: float | None
    memory_total_gib: float | None
    power_w: float | None


def parse_chip_use(printed: str) -> ChipUse | None:
    r"""The use from what QUERY prints; None if it names no chip.

    >>> parse_chip_use("98, 71680, 81920, 612.5\n94, 71680, 81920, [N/A]\n").utilization
    96.0
    >>> parse_chip_use("No devices were found\n") is None
    True
    """
    rows = [line.split(",") for line in printed.splitlines() if line.count(",") == _FIELDS - 1]
    if not rows:
        return _neuron_use(printed)
    columns = [[_number(row[index]) for row in rows] for index in range(_FIELDS)]
    used, in_use, total, power = ([value for value in column if value is not None] for column in columns)
    return ChipUse(
        chips=len(rows),
        utilization=sum(used) / len(used) if used else None,
        lowest=min(used) if used else None,
        memory_gib=sum(in_use) / MIB_PER_GIB if in_use else None,
        memory_total_gib=sum(total) / MIB_PER_GIB if total else None,
        # A sum without one of the cards would be no sum.
        power_w=sum(power) if len(power) == len(rows) else None,
    )


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None


def _neuron_use(printed: str) -> ChipUse | None:
    """The use from a report of neuron-monitor (Neuron SDK 2.29, neuron-monitor user guide, "The JSON output format").

    The report omits NeuronCores that nothing uses: they count as idle. It has no power.
    """
    try:
        report = safe_json.loads(printed)
        hardware = report["neuron_hardware_info"]
        devices = int(hardware["neuron_device_count"])
        cores = int(hardware["neuroncore_per_device_count"]) // int(hardware.get("logical_neuroncore_config") or 1)
        if not 0 < devices * cores <= _MAX_CORES:
            return None
        runtimes = [runtime["report"] for runtime in report["neuron_runtime_data"] or ()]
        use = [0.0] * (devices * cores)
        for runtime in runtimes:
            for core, counters in (_group(runtime, "neuroncore_counters").get("neuroncores_in_use") or {}).items():
                use[int(core)] += float(counters["neuroncore_utilization"])
        used = [_group(runtime, "memory_used").get("neuron_runtime_used_bytes") or {} for runtime in runtimes]
        in_use = sum(float(memory.get("neuron_device") or 0) for memory in used)
        total = float(hardware.get("neuron_device_memory_size") or 0) * devices
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    chips = [sum(use[device * cores : (device + 1) * cores]) / cores for device in range(devices)]
    if not all(map(math.isfinite, (*chips, in_use, total))):
        return None
    return ChipUse(
        chips=devices,
        utilization=sum(chips) / devices,
        lowest=min(chips),
        memory_gib=in_use / GIB,
        memory_total_gib=total / GIB if total else None,
        power_w=None,
    )


def _group(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A metric group of a report; empty if it is missing."""
    return report.get(name) or {}
