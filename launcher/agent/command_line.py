"""The command of a plan: the variables that the agent fills in, and those that a shell fills in itself."""

import re
from collections.abc import Iterator, Mapping, Sequence

from launcher.agent.errors import JobSpecError

VARIABLES = (
    "SLIPWAY_RUN",
    "SLIPWAY_ATTEMPT",
    "SLIPWAY_CHECKPOINT_DIR",
    "SLIPWAY_CHECKPOINT_INTERVAL_FILE",
    "SLIPWAY_CHECKPOINT_INTERVAL_S",
    "SLIPWAY_CHECKPOINT_URI",
    "SLIPWAY_MASTER_ADDR",
    "SLIPWAY_MASTER_PORT",
    "SLIPWAY_METRICS",
    "SLIPWAY_NODES",
    "SLIPWAY_NODE_METRICS",
    "SLIPWAY_NODE_RANK",
    "SLIPWAY_RESUME_DIR",
    "SLIPWAY_RESUME_FILE",
    "SLIPWAY_WORKERS_PER_NODE",
)
"""The variables that the agent sets for the command, and fills in if a list contains them as `${NAME}`."""

_BASH = ("bash", "-eo", "pipefail", "-c")
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_RUNS_TEXT = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_TAKES_A_WORD = frozenset({"-o", "+o", "-O", "+O", "-eo", "-euo", "-exo", "-euxo", "--rcfile", "--init-file"})
"""Options of a shell with a word of their own (bash(1), Options)."""
_VARIABLE = re.compile(r"\$\{(SLIPWAY_[A-Z0-9_]*)\}")


def run_by_bash(line: str) -> tuple[str, ...]:
    """The words of a command that is written as one string; a program that fails in it ends the command.

    >>> run_by_bash("python a.py && python b.py")[-1]
    'python a.py && python b.py'
    """
    return (*_BASH, line)


def script_of_shell(arguments: Sequence[str]) -> str | None:
    """The text that a shell runs (`bash -c TEXT`), or None.

    >>> script_of_shell(("/bin/bash", "-c", "echo $HOME")), script_of_shell(("python", "-c", "pass"))
    ('echo $HOME', None)
    >>> script_of_shell(("bash", "-eo", "pipefail", "-lc", "a")), script_of_shell(("bash", "run.sh", "-c", "a.yaml"))
    ('a', None)
    """
    at = _text_index(arguments)
    return None if at is None else arguments[at]


def arguments_of_shell(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words that the text of `bash -c TEXT` gets as `$1` and so on; the one before them is `$0`.

    >>> arguments_of_shell(["bash", "-c", "torchrun $1", "_", "a.py"]), arguments_of_shell(["bash", "a.sh", "b"])
    (('a.py',), ())
    """
    at = _text_index(arguments)
    return () if at is None else tuple(arguments[at + 2 :])


def _text_index(arguments: Sequence[str]) -> int | None:
    if not arguments or arguments[0].rpartition("/")[2] not in _SHELLS:
        return None
    before = ""
    for at, word in enumerate(arguments[1:-1], start=1):
        if before not in _TAKES_A_WORD:
            if _RUNS_TEXT.fullmatch(word):
                return at + 1
            if not word.startswith(("-", "+")):
                return None
        before = word if before not in _TAKES_A_WORD else ""
    return None


def names_in(arguments: Sequence[str]) -> frozenset[str]:
    """The SLIPWAY_ variables that the agent must fill in.

    >>> sorted(names_in(("a", "--rank=${SLIPWAY_NODE_RANK}", "${HOME}", "bash", "-c", "echo ${SLIPWAY_RUN}")))
    ['SLIPWAY_NODE_RANK']
    """
    return frozenset(name for word, filled in _mark_expandable(arguments) if filled for name in _VARIABLE.findall(word))


def filled_in(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words with every `${SLIPWAY_...}` replaced, except in the text of a shell, which replaces them itself.

    Raises:
        JobSpecError: the agent sets no such variable in this job.

    >>> filled_in(("x", "${SLIPWAY_NODES}", "$HOME"), {"SLIPWAY_NODES": "2"})
    ('x', '2', '$HOME')
    """
    unset = sorted(names_in(arguments) - environment.keys())
    if unset:
        raise JobSpecError([f"run.command: {', '.join(unset)} is not set in this job"])

    def value(match: "re.Match[str]") -> str:
        return environment[match.group(1)]

    return tuple(_VARIABLE.sub(value, word) if filled else word for word, filled in _mark_expandable(arguments))


def _mark_expandable(arguments: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each word, and whether the agent fills in its variables; a shell's text may follow set-up or container words."""
    shell = text = False
    for word in arguments:
        yield word, not text
        text = shell and word == "-c"
        shell = (shell and not text) or word.rpartition("/")[2] in _SHELLS
