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

    `submission` and `facts` are None for a sandbox run, and for one that Slurm never accepted; `facts` also if
    Slurm has deleted the job's record. `step` of `steps` is the trainer's last report. `stacks` are those of a run
    that submitted nothing: `stack_states` has their names and status from CloudFormation; None if CloudFormation could
    not be queried, and they exist unless a user has removed them. `meter` is that of a job that has begun and is not
    over. `command` is the command that created the run, None if not recorded. `idle_chips` names the chips that the
    newest attempt did not use. `failed_boots` is the guard's reason for stopping nodes that do not boot, for a job that
    waits for them.
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
    idle_chips: str = ""
    failed_boots: str = ""
