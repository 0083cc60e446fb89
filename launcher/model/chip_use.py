"""The use of a node's chips at a moment, from what nvidia-smi prints."""

from launcher.model.record import record

QUERY = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,memory.used,memory.total,power.draw",
    "--format=csv,noheader,nounits",
)
"""Percent of the last second in which a kernel ran, MiB, MiB, watts; one line a GPU."""
_FIELDS = 4
MIB_PER_GIB = 1024


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
    r"""The use from the lines of QUERY; None if there is no line of a chip.

    >>> parse_chip_use("98, 71680, 81920, 612.5\n94, 71680, 81920, [N/A]\n").utilization
    96.0
    >>> parse_chip_use("No devices were found\n") is None
    True
    """
    rows = [line.split(",") for line in printed.splitlines() if line.count(",") == _FIELDS - 1]
    if not rows:
        return None
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
