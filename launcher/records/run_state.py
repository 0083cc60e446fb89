"""The observed state of a run."""

from collections.abc import Mapping

from launcher.model.job import JobFacts
from launcher.model.meter import Meter
from launcher.model.record import record
from launcher.model.report import Attempt, Report
from launcher.records.command_record import CommandRecord
from launcher.records.submission import Submission


@record
class RunState:
    """The state of a run. `status` is pending, running, succeeded, failed, cancelled, unknown or not-submitted.

    `submission` and `facts` are None for a run of the sandbox, and for one that Slurm never took; `facts` also where
    Slurm has forgotten the job. `step` of `steps` is what the trainer reported last. `stacks` are those of a run that
    submitted nothing: what CloudFormation has of them by name and status in `stack_states`; where it could not be asked
    that is None, and they exist unless somebody has removed them. `meter` is that of a job that has begun and is not
    over. `command` is the one that made the run, None for one that has not noted itself.
    """

    name: str
    run: str
    status: str
    submission: Submission | None
    facts: JobFacts | None
    report: Report | None
    attempts: tuple[Attempt, ...]
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    saved_step: int | None = None
    stacks: tuple[str, ...] = ()
    stack_states: Mapping[str, str] | None = None
    meter: Meter | None = None
    command: CommandRecord | None = None
