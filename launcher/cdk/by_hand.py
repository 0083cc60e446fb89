"""The CDK CLI called by the user: the user's arguments, with Slipway's app and folders."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from launcher.catalog.assets import root
from launcher.cdk import toolchain
from launcher.model.errors import ImpossibleError, UnreadableInputError

SYNTHESISING = ("deploy", "destroy", "diff", "list", "ls", "synth", "synthesize")
"""Commands that run the app (cdk --help, CDK CLI 2.1148.1)."""
_APP, _OUTPUT = ("-a", "--app"), ("-o", "--output")


def complete_words(arguments: Sequence[str], folder: Path) -> list[str]:
    """The words for the CLI, run in the folder of cdk.json: with app and output, and absolute paths of plan and output.

    Raises:
        UnreadableInputError: the command synthesises, but names no plan.

    >>> complete_words(["diff", "-c", "plan=job.yaml", "--app", "x"], Path("/home/ada"))
    ['diff', '-c', 'plan=/home/ada/job.yaml', '--app', 'x', '--output', '/home/ada/cdk.out']
    >>> complete_words(["synth", "-c", "plan=/srv/job.yaml", "-o", "out", "--app", "x"], Path("/home/ada"))
    ['synth', '-c', 'plan=/srv/job.yaml', '-o', '/home/ada/out', '--app', 'x']
    >>> complete_words(["bootstrap", "aws://123456789012/us-east-1"], Path("/home/ada"))
    ['bootstrap', 'aws://123456789012/us-east-1']
    """
    completed_words, plan = [], False
    for before, word in zip(["", *arguments], arguments, strict=False):
        name, _, path = _value(before, word, ("-c", "--context")).partition("=")
        if name != "plan":
            path = _value(before, word, _OUTPUT)
        plan = plan or (name == "plan" and path != "")
        completed_words.append(f"{word.removesuffix(path)}{folder / path}" if path else word)
    if not any(word in SYNTHESISING for word in arguments):
        return completed_words
    if not plan:
        raise UnreadableInputError(
            f"cdk {arguments[0]} synthesises, and no plan is named",
            hint=f"slipway cdk -- {arguments[0]} -c plan=plan.yaml",
        )
    if not _has(arguments, _APP):
        completed_words += ["--app", toolchain.app_command()]
    if not _has(arguments, _OUTPUT):
        completed_words += ["--output", str(folder / "cdk.out")]
    return completed_words


def _value(before: str, word: str, names: Sequence[str]) -> str:
    """The value that a word gives for an option, alone or after the option's name; empty for any other word."""
    option, _, value = word.partition("=")
    return word if before in names else value if option in names else ""


def _has(arguments: Sequence[str], names: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in names for word in arguments)


def become(arguments: Sequence[str], folder: Path) -> NoReturn:
    """Replace this process by the CLI, so that the CLI receives signals directly and sets the exit code.

    Raises:
        UnreadableInputError: the command names no plan.
        ImpossibleError: Node is missing, or the CLI cannot be started.
        SlipwayError: the CLI could not be downloaded.
    """
    whole = [*toolchain.cdk_command(), *complete_words(arguments, folder)]
    environment = {**os.environ, **toolchain.variables(os.environ)}
    os.chdir(root() if any(word in SYNTHESISING for word in arguments) else folder)
    try:
        os.execve(whole[0], whole, environment)  # noqa: S606 - it is the command that was asked for
    except OSError as problem:
        raise ImpossibleError(f"{whole[0]} cannot be started: {problem.strerror}") from problem
