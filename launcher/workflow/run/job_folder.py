"""The job folder: the rendered files, the agent and a copy of the user's own, as the scheduler starts them."""

import shutil
from pathlib import Path

from launcher.agent.build import build
from launcher.model.bundle import Bundle
from launcher.model.errors import ImpossibleError
from launcher.records.run_folder import write_bundle
from launcher.rendering.batch import AGENT_FILE, WORK_FOLDER

NEVER_SHIPPED = shutil.ignore_patterns(".git", ".slipway", ".venv", "__pycache__", "cdk.out", "node_modules")


def make_job_folder(folder: Path, bundle: Bundle, work: Path) -> str:
    """Lay out a job folder; the hash of the agent in it.

    Args:
        folder: where; it must not exist yet.
        bundle: the rendered files.
        work: the user's folder (`run.workdir`).

    Raises:
        ImpossibleError: the user's folder is not there or cannot be copied.
    """
    if not work.is_dir():
        raise ImpossibleError(
            f"run.workdir: no folder {work}", hint="the path is taken from the plan file's own folder"
        )
    folder.mkdir(parents=True)
    write_bundle(bundle, folder)
    try:
        shutil.copytree(work, folder / WORK_FOLDER, ignore=NEVER_SHIPPED, symlinks=True)
    except (OSError, shutil.Error) as problem:
        raise ImpossibleError(f"run.workdir: cannot copy {work}: {problem}") from problem
    return build(folder / AGENT_FILE)
