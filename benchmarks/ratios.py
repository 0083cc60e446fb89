"""The command line of a benchmark whose commands each have a ratio to a base, and the most that it should be."""

import argparse
import json
from collections.abc import Callable
from typing import Any

Figures = dict[str, Any]
"""`base_s`, `runs`, and `commands`: what was measured of each, by name."""


def told(
    description: str | None,
    measure: Callable[[int], Figures],
    base: str,
    line: Callable[[Figures], str],
    met: Callable[[Figures], bool],
) -> int:
    """Measure and print; 0 when every aim is met.

    Args:
        description: for --help.
        measure: takes the runs of each.
        base: what the ratios are to.
        line: a command's figures in words, without its name.
        met: whether a command's aim is met.
    """
    reader = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--runs", type=int, default=9, help="runs of each; the fastest counts")
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = reader.parse_args()
    figures = measure(asked.runs)
    commands = figures["commands"]
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        print(f"{base}: {figures['base_s']} s")
        for command in commands:
            print(f"{command['name']}: {line(command)}")
    return 0 if all(map(met, commands)) else 1
