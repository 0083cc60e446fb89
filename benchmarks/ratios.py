"""The command line of a benchmark whose commands each have a ratio to a base, and a maximum for that ratio."""

import argparse
import json
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
"""`base_s`, `runs`, and `commands`: the measured figures of each command, with its name."""


def told(
    description: str | None,
    measure: Callable[[int], Figures],
    base: str,
    line: Callable[[Figures], str],
    met: Callable[[Figures], bool],
) -> int:
    """Measure and print the figures; return 0 if every aim is met.

    Args:
        description: the text for --help.
        measure: returns the figures for a number of runs of each command.
        base: the name of the ratios' base.
        line: returns a command's figures as text, without its name.
        met: returns whether a command's aim is met.
    """
    reader = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--runs", type=int, default=9, help="runs of each; the fastest counts")
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = reader.parse_args()
    figures = measure(options.runs)
    commands = figures["commands"]
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"{base}: {figures['base_s']} s")
        for command in commands:
            print(f"{command['name']}: {line(command)}")
    return 0 if all(map(met, commands)) else 1
