"""A submission: its key, and the job of a launcher that ended before it received the job's id."""

import secrets

from launcher.records.run_folder import RunFolder
from launcher.records.submission import Submission, read_submission
from launcher.submit.jobs import JobSource


def fresh_key(name: str, folder: RunFolder) -> str:
    """The key of a new submission: the plan's name, the run's time, and a token unique to this computer."""
    return f"{name}-{folder.path.name}-{secrets.token_hex(4)}".lower()


def find_submission(folder: RunFolder, source: JobSource) -> Submission | None:
    """The submission of a run folder with its job; finds the job if the launcher ended before the answer arrived.

    Returns:
        None if nothing was submitted from this folder, or the cluster never accepted it.
    """
    submission = read_submission(folder)
    if submission is None or submission.job is not None:
        return submission
    job = source.find(submission.key, submission.folder)
    if job is None:
        return None
    done = submission.with_job(job)
    done.write(folder)
    return done
