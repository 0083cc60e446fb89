"""The next commands for a priced plan, with its options."""

import shlex

from launcher.model.quote import Quote
from launcher.pricing.gate import Changes
from launcher.pricing.priced import Priced
from launcher.pricing.training_candidate import TrainingCandidate

SET, ALL = "--set", "--all"
FLAGS = ("--region", "--prices-as-of", "--max-price-age", "--max-usd", SET, ALL)
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
    options = [word for flag in priced.context.flags if flag[0] in COMMAND_FLAGS[name] for word in flag]
    return shlex.join(["slipway", *name.split(), priced.path, *options, *arguments])


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
    """The command after the table of candidates; a current offer must be bought before Slipway can quote it."""
    first = priced.candidates[0]
    offered = isinstance(first, TrainingCandidate) and first.offered
    return command(priced, "capacity") if offered else command_for(priced, "quote", 1)
