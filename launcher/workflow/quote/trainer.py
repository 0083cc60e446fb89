"""Checks the user's folder and command before pricing: whether they exist and fit together."""

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from launcher.catalog.regular_file import folder_of, mode_of
from launcher.model.enums import Level
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, warning
from launcher.model.request import PlanRequest
from launcher.workflow.quote.trainer_scripts import PATH, missing_script, missing_submodules, script_problems
from launcher.workflow.quote.trainer_stack import script_of

REFUSED = ": a launch is refused"
"""The end of a warning in a screen that launches nothing."""


def missing_trainer(plan_file: Path, request: PlanRequest) -> tuple[Finding, ...]:
    """What a launch would refuse: a missing job folder, a missing script of its command, or one that cannot run.

    A quote is possible before the trainer exists; git is not asked.
    """
    run = request.run
    root = folder_of(plan_file) / run.workdir
    script = script_of(run.command)
    if request.workload.train is None or not run.command:
        return ()
    if not stat.S_ISDIR(mode_of(root)):
        return (
            warning(
                "no-workdir", "run.workdir", f"no folder {run.workdir} next to the plan: a launch would be refused"
            ),
        )
    problems = (*script_problems(root, run), *missing_submodules(root))
    findings = tuple(
        problem
        if problem.level is Level.WARNING
        else replace(problem, level=Level.WARNING, message=f"{problem.message}{REFUSED}")
        for problem in problems
    )
    if run.setup:
        return findings
    where = PATH
    if script is None or run.before or mode_of(root / script):
        where, script = missing_script(root, run)
    if not script:
        return findings
    message = f"{script} is not in {'this folder' if run.workdir == '.' else run.workdir}{REFUSED}"
    hint = "put your trainer there, or set run.workdir to its folder"
    return (*findings, warning("no-script", where, message, hint))


def refuse_missing_trainer(plan_file: Path, request: PlanRequest, environment: Mapping[str, str]) -> None:
    """Refuse unless the folder of a training job can be shipped and contains its command's script.

    A plan that prepares its folder on the node (`run.setup`) may create the script there.

    Raises:
        ImpossibleError: the folder or script is missing, a script cannot run as it is, or the folder contains files
            that cannot be shipped.
    """
    if request.workload.train is None:
        return
    from launcher.submit.work_archive import work_files  # noqa: PLC0415 - a quote ships nothing

    run = request.run
    work = work_files(folder_of(plan_file) / run.workdir, environment)
    if problems := tuple(problem for problem in script_problems(work.root, run) if problem.level is Level.ERROR):
        raise ImpossibleError("a script of the job cannot run on a node", findings=problems)
    script, where = script_of(run.command), PATH
    if run.setup:
        return
    if script is None or run.before or script in work.names:
        where, script = missing_script(work.root, run)
    if not script:
        return
    if mode_of(work.root / script):
        message = f"{script} is in {work.root} but is not shipped"
        hint = (
            f"add the line !{script} to .slipwayignore to ship it; files in .gitignore and .slipwayignore are "
            "not shipped"
        )
    else:
        message = f"{script} is not in {work.root}, the folder shipped with the job"
        hint = "put your trainer there, or set run.workdir to its folder and run.command to its script"
    raise ImpossibleError(f"{where}: {message}", hint=hint)
