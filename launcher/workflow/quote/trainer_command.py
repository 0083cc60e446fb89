"""What the command of a job starts, with the scripts of its folder read."""

import re
from dataclasses import replace
from pathlib import Path

from launcher.catalog.regular_file import UnusableFileError, read_regular
from launcher.model.request import PlanRequest, RunSpec
from launcher.planning.idle_chips import JobCommand, runs_a_script
from launcher.planning.job_command import Program, exported_by, programs_in, programs_of
from launcher.workflow.quote.trainer_scripts import SHELLS
from launcher.workflow.quote.trainer_stack import packages_of, script_of

MAX_BYTES = 1_000_000
_ALL_NODES = re.compile(r"init_process_group|SLIPWAY_(?:NODE|MASTER)|MASTER_ADDR|SLURM_|jax\.distributed|num_nodes")
"""Texts of a trainer that joins the other nodes by itself."""
_ALL_CHIPS = frozenset(
    [
        *("DataParallel", "composer", "fabric", "jax", "keras", "lightning", "lightning_fabric", "multiprocessing"),
        *("pytorch_lightning", "ray", "subprocess", "tensorflow", "torch.multiprocessing", "torch_xla.distributed"),
        *("transformers.Trainer", "trl", "unsloth"),
    ]
)
"""Packages with which one command may use every chip of a node: they start processes, or drive several chips from one
(transformers.Trainer by DataParallel, JAX). Of these, nothing is said."""
_IN_TEXT = re.compile(r"\b(DataParallel|xmp\.spawn|mp\.spawn|os\.(?:fork|exec\w+|spawn\w+|system)|Popen)\b")


def job_command(path: Path, request: PlanRequest) -> JobCommand:
    """The programs of a training job's command, and of the shell scripts that it runs; `path` is the plan file."""
    if request.workload.train is None:
        return JobCommand()
    root = path.resolve().parent / request.run.workdir
    if request.run.command == RunSpec().command and not (root / request.run.command[-1]).exists():
        return JobCommand()  # nothing is written yet
    programs: list[Program] = []
    exported: dict[str, str] = {}
    setup = (one for index, line in enumerate(request.run.setup) for one in programs_in(line, f"run.setup[{index}]"))
    for program in setup:
        exported |= exported_by(program)
    for program in programs_of(request.run.command):
        programs += _with_script(root, replace(program, variables={**exported, **program.variables}))
    trainer = next((program for program in reversed(programs) if runs_a_script(program)), None)
    if trainer is None:
        return JobCommand(programs=tuple(programs))
    text = _text(root, script_of(trainer.words) or "")
    packages = {name for name, _ in packages_of(root, trainer.words)}
    return JobCommand(
        programs=tuple(programs),
        all_chips=bool(_ALL_CHIPS & packages or _IN_TEXT.search(text)),
        all_nodes=bool(_ALL_NODES.search(text) or {"lightning", "pytorch_lightning", "ray"} & packages),
    )


def _with_script(root: Path, program: Program) -> tuple[Program, ...]:
    """A program, or what the shell script that it is or runs starts."""
    words = program.words if program.name in SHELLS else ("bash", *program.words)
    script = script_of(("bash", *words[1:]))
    inner = programs_in(_text(root, script), script) if script is not None and script.endswith(".sh") else ()
    if inner:
        return tuple(replace(one, variables={**program.variables, **one.variables}) for one in inner)
    # The kernel runs a script by its first line; a trainer's names Python.
    return (replace(program, words=("python", *program.words)) if program.name.endswith(".py") else program,)


def _text(root: Path, name: str) -> str:
    try:
        return read_regular(root / name, MAX_BYTES, within=root).decode("utf-8-sig", errors="replace")
    except (OSError, UnusableFileError):
        return ""
