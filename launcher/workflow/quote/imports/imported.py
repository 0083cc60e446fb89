"""What is read from another tool's file: the keys of a plan, what the plan has no key for, and what it assumes."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from launcher.catalog.load import Catalog
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.workflow.quote.command_plan import plain_name

ASSUMED_HOURS = 1.0


@record
class Imported:
    """The keys of a plan, and in words what was lost and what was assumed; filled in place by a reader."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    def put(self, key: str, value: Any) -> None:
        """Set a dotted key."""
        *parents, last = key.split(".")
        section = self.data
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value

    def get(self, key: str) -> Any:
        """The value of a dotted key; None where it is not set."""
        section: Any = self.data
        for part in key.split("."):
            section = section.get(part) if isinstance(section, Mapping) else None
        return section

    def drop(self, key: str) -> Any:
        """Take a dotted key out, with the sections that it leaves empty; its value, None where it is not set."""
        parent, _, last = key.rpartition(".")
        section = self.get(parent) if parent else self.data
        value = section.pop(last, None) if isinstance(section, dict) else None
        if parent and section == {}:
            self.drop(parent)
        return value

    def lose(self, what: str, why: str) -> None:
        """Name a setting that the plan cannot have, once."""
        if f"{what}: {why}" not in self.lost:
            self.lost.append(f"{what}: {why}")

    def lose_unread(self, parent: str, given: Mapping[str, Any], read: Collection[str], why: Mapping[str, str]) -> None:
        """Name each key that is given and was not read."""
        for key, value in given.items():
            if key not in read and value not in (None, [], {}, ""):
                self.lose(f"{parent}{key}", why.get(key, "no key of a plan"))

    def assume(self, what: str, why: str) -> None:
        """Name a value that the file does not give."""
        self.assumed.append(f"{what}: {why}")

    def name(self, text: str) -> None:
        """The plan's name from another tool's."""
        self.put("name", plain_name(text))


def by_accelerator(imported: Imported, catalog: Catalog, name: str, count: int) -> None:
    """The instance type with a number of accelerators, the smallest of several; the others are named."""
    accelerator = accelerator_named(name, catalog.accelerators)
    types = [
        row
        for row in catalog.instance_types.values()
        if row.accelerator is not None and row.accelerator == accelerator and row.accelerators == count and trains(row)
    ]
    if not types:
        same = [row for row in catalog.instance_types.values() if row.accelerator == accelerator and trains(row)]
        smallest = {row.accelerators: row.name for row in sorted(same, key=lambda row: -row.vcpus)}
        counts = ", ".join(f"{number} ({smallest[number]})" for number in sorted(smallest))
        if accelerator is not None and counts:
            imported.lose(
                f"{name}:{count}", f"AWS has no type with {count} of them, but with {counts}: set target.instance_type"
            )
        else:
            offered = ", ".join(sorted(catalog.accelerators))
            imported.lose(
                f"{name}:{count}", f"AWS does not have it; set target.instance_type; its accelerators: {offered}"
            )
        return
    types.sort(key=lambda row: (row.vcpus, row.memory_gib, row.name))
    imported.put("target.instance_type", types[0].name)
    if len(types) > 1:
        others = ", ".join(row.name for row in types[1:])
        imported.assume(
            "target.instance_type", f"{types[0].name}, the smallest with {count} × {accelerator}; also {others}"
        )


def accelerator_named(name: str, known: Iterable[str]) -> str | None:
    """The catalog's accelerator of another tool's name: without the form of its socket, the first generation or memory.

    >>> chips = ["Q7", "Q75", "Z9-20GB", "Z9-40GB", "Chip1", "Chip2"]
    >>> [accelerator_named(name, chips) for name in ("q7", "Z9", "NVIDIA-Z9-SXM4-40GB", "chip", "Chip2", "Y1")]
    ['Q7', 'Z9-20GB', 'Z9-40GB', 'Chip1', 'Chip2', None]
    """
    names = {accelerator.upper(): accelerator for accelerator in sorted(known)}
    word = re.sub(r"-(?:SXM|PCIE)\d*", "", re.sub(r"^NVIDIA[- ]", "", name.strip().upper()).replace("_", "-"))
    further = r"-.*" if not word or word[-1].isdigit() else r"\d"
    first = (accelerator for full, accelerator in names.items() if re.fullmatch(re.escape(word) + further, full))
    return names.get(word) or next(first, None)


def trains(row: InstanceType) -> bool:
    """Whether a job can run on a type."""
    return row.chip is not None and row.chip.trains and bool(row.targets)


def hours_of(text: str) -> float | None:
    """Hours of a duration as 24h, 90m, 2d, 1:30:00 or 2-00:00:00 (Slurm); None for what is no duration.

    >>> hours_of("1-12:00:00"), hours_of("90"), hours_of("02:30:00"), hours_of("2d"), hours_of("1w")
    (36.0, 1.5, 2.5, 48.0, 168.0)
    """
    text = str(text).strip()
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text):
        return float(found[1]) * {"s": 1 / 3600, "m": 1 / 60, "h": 1, "d": 24, "w": 168}[found[2]]
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts) or not (days == "" or days.isdecimal()):
        return None
    numbers = [int(part) for part in parts]
    if days:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 1:
        hours, minutes, seconds = 0, numbers[0], 0
    elif len(numbers) == 2:  # noqa: PLR2004 - minutes:seconds
        hours, (minutes, seconds) = 0, numbers
    else:
        hours, minutes, seconds = numbers[:3]
    return int(days or 0) * 24 + hours + minutes / 60 + seconds / 3600
