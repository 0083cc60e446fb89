"""The next commands for a priced plan, with its options."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from launcher.catalog.regular_file import is_stream
from launcher.model.quote import Quote
from launcher.pricing.gate import Changes
from launcher.pricing.priced import Priced
from launcher.pricing.standing import Standing
from launcher.pricing.training_candidate import TrainingCandidate

SET, ALL, AS_OF = "--set", "--all", "--prices-as-of"
FLAGS = ("--region", AS_OF, "--max-price-age", "--max-usd", SET, ALL)
"""Flags that change a plan's candidates, or the gate's decision on them."""
CHANGES = Changes(refresh="slipway prices refresh", max_age="--max-price-age", rank="--pick")
"""How the command line changes what the gate refuses."""
COMMAND_FLAGS = {
    "plan": FLAGS,
    "quote": FLAGS,
    "compare": (*FLAGS[:3], SET),
    "render": (*FLAGS[:2], SET),
    "spike": (FLAGS[0], *FLAGS[2:4], SET),
    "launch": (FLAGS[0], *FLAGS[2:4], SET),
    "capacity": (*FLAGS[:1], SET),
    "doctor": (*FLAGS[:1], SET),
    "commit": (SET,),
    "prices refresh": (SET,),
}
"""The flags that each command accepts."""


def command(priced: Priced, name: str, *arguments: str) -> str:
    """A command for the same plan."""
    return command_with(priced.path, name, priced.context.flags, *arguments)


def command_with(path: str, name: str, flags: Iterable[tuple[str, ...]], *arguments: str) -> str:
    """A command for a plan file with those of the flags that it accepts.

    A plan that came through a pipe has no name for another command: FILE stands for the file that it is saved in.
    """
    path = "FILE" if is_stream(Path(path)) else path
    options = [word for flag in flags if flag[0] in COMMAND_FLAGS[name] for word in flag]
    return shlex.join(["slipway", *name.split(), path, *options, *arguments])


def command_for(priced: Priced, name: str, rank: int, *arguments: str) -> str:
    """The same command for one candidate, by its short id."""
    return command(priced, name, "--pick", priced.short_id(rank), *arguments)


def spike_command(priced: Priced, quoted: Quote) -> str:
    """The command that measures the job on a candidate's type."""
    name = quoted.plan.place.instance_type
    return command(priced, "spike", *(["--type", name] if name else []))


def refresh_command(priced: Priced) -> str:
    """The command that reads the prices of the plan again."""
    return command(priced, "prices refresh")


def next_command(priced: Priced) -> str:
    """The command after the table of candidates.

    Without any price: current prices, or newly read ones. A current offer must be bought before Slipway can quote it.
    """
    first, flags = priced.candidates[0], priced.context.flags
    if priced.standing(1) is Standing.UNPRICED:
        present = tuple(flag for flag in flags if flag[0] != AS_OF)
        return refresh_command(priced) if present == tuple(flags) else command_with(priced.path, "plan", present)
    offered = isinstance(first, TrainingCandidate) and first.offered
    return command(priced, "capacity") if offered else command_for(priced, "quote", 1)
