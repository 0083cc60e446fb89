"""The training stack of a job, recognised from its command and the imports of its files."""

import ast
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePosixPath

from launcher.agent.command_line import script_of_shell
from launcher.catalog.regular_file import folder_of, mode_of, read_regular
from launcher.model.enums import Stack
from launcher.model.finding import Finding, info
from launcher.model.request import PlanRequest

SCRIPTS = (".py", ".sh")
"""Suffixes of scripts that an interpreter runs."""
_NOT_ONE_PROGRAM = frozenset(";|&<>()`\n#'\"\\")
"""Characters of a shell line that may run several programs, or that is not split at blanks alone."""
INTERPRETERS = ("accelerate", "bash", "deepspeed", "neuron_parallel_compile", "python", "sh", "torchrun")
"""Programs that run their first argument with such a suffix."""
STACKS: tuple[tuple[Stack, frozenset[str]], ...] = (
    (Stack.TUNED, frozenset({"megatron", "nemo", "nemo_automodel", "nemo_run"})),
    (
        Stack.HUGGINGFACE,
        frozenset(
            [
                "accelerate",
                "axolotl",
                "instructlab",
                "llamafactory",
                "peft",
                "swift",
                "training_hub",
                "transformers.Trainer",
                "trl",
                "unsloth",
            ]
        ),
    ),
    (
        Stack.FRAMEWORK,
        frozenset(
            [
                "composer",
                "deepspeed",
                "lightning",
                "litgpt",
                "llmfoundry",
                "neuronx_distributed",
                "pytorch_lightning",
                "torch.distributed.fsdp",
                "torchtitan",
                "torchtune",
                "xtuner",
            ]
        ),
    ),
)
"""Packages that identify a stack, the first match wins.

Unsloth, whose kernels a Hugging Face trainer runs, has that trainer's stack: its published rows take 1.9 and 2.9 times
the hours with it, one of them in the range, and 5.2 and 3.3 times those of a framework, outside of it. Reports of its
users differ: no gain over Trainer (unsloth issues 22 and 3085), or 1.6 to 1.9 times the rate (Hugging Face's blog).
"""
PROGRAMS = {
    "automodel": "nemo_automodel",
    "ilab": "instructlab",
    "llamafactory-cli": "llamafactory",
    "tune": "torchtune",
}
"""Programs with another name than their package."""
BEFORE_A_PROGRAM = frozenset({"env", "exec", "nohup", "srun", "time", "uv", "run"})
"""Words of a command line that precede its program."""
MAX_FILES = 40
MAX_BYTES = 1_000_000
UNREAD = "?"
"""Stands for the packages of a file that was not read."""


def with_trainer(path: Path, request: PlanRequest) -> tuple[PlanRequest, tuple[Finding, ...]]:
    """The request with its stack, if it must be derived from the job's files, and the finding about it."""
    train = request.workload.train
    if train is None or train.stack is not None:
        return request, ()
    named = dict(packages_of(folder_of(path) / request.run.workdir, request.run.command))
    for stack, packages in STACKS:
        known = sorted(packages & named.keys())
        if known:
            where = ", ".join(f"{name} ({named[name]})" for name in known)
            message = f"auto is {stack} here: the job uses {where}"
            workload = replace(request.workload, train=replace(train, stack=stack))
            finding = info("stack-inferred", "workload.train.stack", message, "set another stack if the job uses one")
            return replace(request, workload=workload), (finding,)
    return request, ()


def packages_of(root: Path, command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The packages that a command and the files that it reaches name, each with the file.

    `UNREAD` is one of them where a file has others: it is missing, irregular, too large, of invalid syntax, imports
    relative to a package, or comes after MAX_FILES others.
    """
    scripts: list[str] = []
    text = script_of_shell(command)
    for arguments in [command] if text is None else _lines(text):
        yield from _argument_packages(arguments, "run.command")
        scripts += filter(None, [script_of(arguments)])
    read_files: set[str] = set()
    while scripts and len(read_files) < MAX_FILES:
        name = scripts.pop()
        if name in read_files:
            continue
        read_files.add(name)
        text = _text(root, name)
        if text is None:
            yield UNREAD, name
            continue
        if name.endswith(".py"):
            for module in _imports(text):
                yield module, name
                top = module.split(".")[0]
                scripts += [file for file in (f"{top}.py", f"{top}/__init__.py") if mode_of(root / file)]
            continue
        for arguments in _lines(text):
            yield from _argument_packages(arguments, name)
            scripts += filter(None, [script_of(arguments)])
    for name in set(scripts) - read_files:
        yield UNREAD, name


def _argument_packages(arguments: Sequence[str], where: str) -> Iterator[tuple[str, str]]:
    """The packages that a command line names: its program, and the module that Python runs."""
    program = next((word for word in arguments if word not in BEFORE_A_PROGRAM and "=" not in word), "")
    program = PurePosixPath(program).name
    yield PROGRAMS.get(program, program), where
    for flag, module in pairwise(arguments):
        if flag in {"-m", "--module"}:
            yield module.split(".")[0], where


def _lines(text: str) -> Iterator[list[str]]:
    """The lines of a shell text as words, with continued lines joined; lines with invalid syntax are omitted."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            yield shlex.split(line, comments=True)
        except ValueError:
            continue


def _text(root: Path, name: str) -> str | None:
    """The text of a file in the job's folder; None if it is missing, unreadable, too large, or a link out of it."""
    try:
        return read_regular(root / name, MAX_BYTES, within=root).decode("utf-8-sig")
    except (OSError, ValueError):
        return None


def _imports(text: str) -> Iterable[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield UNREAD
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module]
            names = [name.name for name in node.names]
            if node.module.startswith("transformers") and any(name.endswith("Trainer") for name in names):
                modules.append("transformers.Trainer")
        elif isinstance(node, ast.ImportFrom):
            modules = [UNREAD]
        else:
            continue
        for module in modules:
            yield module
            yield module.split(".")[0]


def script_of(command: Sequence[str]) -> str | None:
    """The script that a command runs, relative to its folder; None if the command names none that can be identified.

    >>> script_of(["torchrun", "--nnodes=2", "train.py", "--config", "a.yaml"]), script_of(["./run.sh"])
    ('train.py', 'run.sh')
    >>> script_of(["python", "-m", "trainer"]), script_of(["bash", "-c", "python a.py; b"]), script_of(["/opt/a.py"])
    (None, None, None)
    >>> script_of(["bash", "-c", "accelerate launch --num_machines $SLIPWAY_NODES train.py"])
    'train.py'
    """
    line = script_of_shell(command)
    if line is not None and not _NOT_ONE_PROGRAM.intersection(line):
        command = line.split()
    program, *arguments = command or [""]
    if program.endswith(SCRIPTS) or program.startswith("./"):
        named: str | None = program
    elif PurePosixPath(program).name.rstrip("0123456789.") in INTERPRETERS:
        taken = [] if "-c" in arguments or "-m" in arguments else arguments
        named = next((word for word in taken if word.endswith(SCRIPTS) and not word.startswith("-")), None)
    else:
        named = None
    if named is None or named.startswith(("/", "~")) or "$" in named or ".." in PurePosixPath(named).parts:
        return None
    return PurePosixPath(named).as_posix()
