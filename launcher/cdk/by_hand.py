"""The CDK CLI by hand: the user's arguments, with Slipway's app and folders."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from launcher.catalog.assets import root
from launcher.cdk import toolchain
from launcher.model.errors import ImpossibleError, UnreadableInputError

SYNTHESISING = ("deploy", "destroy", "diff", "list", "ls", "synth", "synthesize")
"""Commands that run the app (cdk --help, CDK CLI 2.1148.1)."""
_CONTEXT = ("-c", "--context")
_APP, _OUTPUT = ("-a", "--app"), ("-o", "--output")


def completed(words: Sequence[str], folder: Path) -> list[str]:
    """The words for the CLI, which runs where cdk.json is: app and output named, paths of plan and output absolute.

    Raises:
        UnreadableInputError: the command synthesises, and nothing names a plan.

    >>> completed(["diff", "-c", "plan=job.yaml", "--app", "x"], Path("/home/ada"))
    ['diff', '-c', 'plan=/home/ada/job.yaml', '--app', 'x', '--output', '/home/ada/cdk.out']
    >>> completed(["synth", "-c", "plan=/srv/job.yaml", "-o", "out", "--app", "x"], Path("/home/ada"))
    ['synth', '-c', 'plan=/srv/job.yaml', '-o', '/home/ada/out', '--app', 'x']
    >>> completed(["bootstrap", "aws://123456789012/us-east-1"], Path("/home/ada"))
    ['bootstrap', 'aws://123456789012/us-east-1']
    """
    completed_words, plan = [], False
    for before, word in zip(["", *words], words, strict=False):
        name, _, path = _value(before, word, _CONTEXT).partition("=")
        if name != "plan":
            path = _value(before, word, _OUTPUT)
        plan = plan or (name == "plan" and path != "")
        completed_words.append(f"{word.removesuffix(path)}{folder / path}" if path else word)
    if not any(word in SYNTHESISING for word in words):
        return completed_words
    if not plan:
        raise UnreadableInputError(
            f"cdk {words[0]} synthesises, and no plan is named", hint=f"slipway cdk -- {words[0]} -c plan=plan.yaml"
        )
    if not _has(words, _APP):
        completed_words += ["--app", toolchain.app_command()]
    if not _has(words, _OUTPUT):
        completed_words += ["--output", str(folder / "cdk.out")]
    return completed_words


def _value(before: str, word: str, names: Sequence[str]) -> str:
    """What a word gives for an option, alone or behind its name; nothing where it is no word of that option."""
    option, _, value = word.partition("=")
    return word if before in names else value if option in names else ""


def _has(words: Sequence[str], names: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in names for word in words)


def become(words: Sequence[str], folder: Path) -> NoReturn:
    """Replace this process by the CLI, so that signals and its exit code are its own.

    Raises:
        UnreadableInputError: nothing names a plan.
        ImpossibleError: there is no Node, or the CLI cannot be started.
        SlipwayError: the CLI could not be fetched.
    """
    whole = [*toolchain.cdk_command(), *completed(words, folder)]
    environment = {**os.environ, **toolchain.variables(os.environ)}
    os.chdir(root() if any(word in SYNTHESISING for word in words) else folder)
    try:
        os.execve(whole[0], whole, environment)  # noqa: S606 - it is the command that was asked for
    except OSError as problem:
        raise ImpossibleError(f"{whole[0]} cannot be started: {problem.strerror}") from problem
