"""The user's folder and command, looked at before anything is priced: that they are there, and go together."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from launcher.model.errors import ImpossibleError
from launcher.model.request import PlanRequest
from launcher.submit.work_archive import work_files

SCRIPTS = (".py", ".sh")
"""Ends of the names of what an interpreter is told to run."""
INTERPRETERS = ("accelerate", "bash", "deepspeed", "neuron_parallel_compile", "python", "sh", "torchrun")
"""Programs whose first argument with such an end is what they run."""


def refuse_missing_trainer(plan_file: Path, request: PlanRequest, environment: Mapping[str, str]) -> None:
    """Go on only where the folder of a training job can be shipped and its command's script is in it.

    A plan that prepares its folder on the node (`run.setup`) may make the script there.

    Args:
        plan_file: where the plan was read from; `run.workdir` is relative to its folder.
        request: the plan.
        environment: for git.

    Raises:
        ImpossibleError: there is no such folder or script, or it holds what cannot be shipped.
    """
    if request.workload.train is None:
        return
    run = request.run
    work = work_files(plan_file.resolve().parent / run.workdir, environment)
    script = script_of(run.command)
    if script is None or run.setup or script in work.names:
        return
    if (work.root / script).exists():
        message = f"{script} is in {work.root} and is not shipped"
        hint = f"a line !{script} in .slipwayignore ships it; .gitignore and .slipwayignore leave out what they name"
    else:
        message = f"{script} is not in {work.root}, the folder that is shipped with the job"
        hint = "put your trainer there, or name its folder in run.workdir and its script in run.command"
    raise ImpossibleError(f"run.command: {message}", hint=hint)


def script_of(command: Sequence[str]) -> str | None:
    """The script that a command runs, relative to its folder; None where it names none that can be told.

    >>> script_of(["torchrun", "--nnodes=2", "train.py", "--config", "a.yaml"]), script_of(["./run.sh"])
    ('train.py', 'run.sh')
    >>> script_of(["python", "-m", "trainer"]), script_of(["bash", "-c", "python train.py"]), script_of(["/opt/a.py"])
    (None, None, None)
    """
    program, *words = command
    if program.endswith(SCRIPTS) or program.startswith("./"):
        named: str | None = program
    elif PurePosixPath(program).name.rstrip("0123456789.") in INTERPRETERS:
        taken = [] if "-c" in words or "-m" in words else words
        named = next((word for word in taken if word.endswith(SCRIPTS) and not word.startswith("-")), None)
    else:
        named = None
    if named is None or named.startswith(("/", "~")) or "$" in named or ".." in PurePosixPath(named).parts:
        return None
    return PurePosixPath(named).as_posix()
