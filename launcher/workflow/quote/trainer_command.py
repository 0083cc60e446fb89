"""What the command of a job starts, with the scripts of its folder read."""

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from launcher.catalog.regular_file import UnusableFileError, folder_of, mode_of, read_regular
from launcher.model.request import PlanRequest
from launcher.model.run_spec import RunSpec
from launcher.planning.job_command import JobCommand, Program, runs_a_script
from launcher.workflow.quote.started_programs import Started, started_programs
from launcher.workflow.quote.trainer_stack import SCRIPTS, UNREAD, packages_of, script_of

MAX_BYTES = 1_000_000
_ALL_NODES = r"init_process_group|SLIPWAY_(?:NODE|MASTER)|MASTER_ADDR|SLURM_|jax\.distributed|num_nodes"
"""Texts of a trainer that joins the other nodes by itself."""
_ALL_CHIPS = frozenset(
    [
        *("DataParallel", "composer", "fabric", "jax", "keras", "lightning", "lightning_fabric", "multiprocessing"),
        *("pytorch_lightning", "ray", "subprocess", "tensorflow", "torch.multiprocessing", "torch_xla.distributed"),
        *("transformers.Trainer", "trl", "unsloth"),
        *("levanter", "maxtext", "MaxText", "openrlhf", "verl"),
    ]
)
"""Packages with which one command may use every chip of a node: they start processes, or drive several chips from one
(transformers.Trainer by DataParallel, JAX). Of these, nothing is said."""
_JOINING = frozenset(["levanter", "lightning", "maxtext", "MaxText", "openrlhf", "pytorch_lightning", "ray", "verl"])
"""Packages that join the other nodes by themselves, or with the settings that docs/trainers.md gives."""
_LOADING = frozenset(["asyncio", "concurrent", "ctypes", "importlib", "runpy"])
"""Python's own modules that load a library or start a program which no import names."""
_SPAWNED = r"\b(?:xmp|mp)\.spawn\([^#]*?\bnprocs\s*=\s*(\d{1,3})\b"
_IN_TEXT = r"\b(DataParallel|xmp\.spawn|mp\.spawn|os\.(?:fork|exec\w+|spawn\w+|system)|Popen)\b"


def job_command(path: Path, request: PlanRequest) -> JobCommand:
    """The programs of a training job's command, and of the shell scripts that it runs; `path` is the plan file."""
    if request.workload.train is None:
        return JobCommand()
    root, run = folder_of(path) / request.run.workdir, request.run
    if run.command == RunSpec().command and not mode_of(root / run.command[-1]):
        return JobCommand()  # nothing is written yet
    programs = [
        _read(root, started)
        for started in started_programs(root, run.command, known=run.env, setup=run.setup)
        if started.script is None or not started.script.is_shell
    ]
    trainer = next((program for program in reversed(programs) if runs_a_script(program)), None)
    if trainer is None:
        return JobCommand(programs=tuple(programs))
    text = _text(root, script_of(trainer.words) or "")
    named = list(packages_of(root, trainer.words))
    packages = {name for name, _ in named}
    spawned = re.search(_SPAWNED, text)
    return JobCommand(
        programs=tuple(programs),
        all_chips=bool(_ALL_CHIPS & packages or re.search(_IN_TEXT, text)),
        all_nodes=bool(re.search(_ALL_NODES, text) or _JOINING & packages),
        spawned=None if spawned is None else int(spawned[1]),
        packages=_third_party(root, named),
    )


def _third_party(root: Path, named: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The packages beside Python's own and the folder's files that a trainer imports; none if others are possible."""
    tops = {name.partition(".")[0] for name, file in named if file.endswith(".py")}
    if UNREAD in tops or _LOADING & tops:
        return frozenset()
    return frozenset(top for top in tops - sys.stdlib_module_names if not mode_of(root / f"{top}.py"))


def _read(root: Path, started: Started) -> Program:
    """A program with the texts of the files that its words name; a script that Python runs, as Python's word."""
    program, words = started.program, started.program.words
    if started.script is not None and words[0] == started.script.word:
        words = ("python", *words)
    files: dict[str, str] = {}
    for word in program.words[1:]:
        name = word.partition("=")[2] or word
        if not name.startswith(("-", "/")) and not name.endswith(SCRIPTS):
            text = _text(root, str(started.folder / name))
            files |= {name: text} if text else {}
    return replace(program, words=words, files=tuple(files.items()))


def _text(root: Path, name: str) -> str:
    try:
        return read_regular(root / name, MAX_BYTES, within=root).decode("utf-8-sig", errors="replace")
    except (OSError, UnusableFileError, ValueError):
        return ""
