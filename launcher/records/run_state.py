"""The observed state of a run."""

from collections.abc import Mapping

from launcher.model.job import JobFacts
from launcher.model.meter import Meter
from launcher.model.record import record
from launcher.model.report import Attempt, Report
from launcher.model.straggler import Straggler
from launcher.records.command_record import CommandRecord
from launcher.records.submission import Submission


@record
class RunState:
    """The state of a run."""

    name: str
    run: str
    # pending, running, succeeded, failed, cancelled, unknown or not-submitted.
    status: str
    # None for a sandbox run, and for one that Slurm never accepted; `facts` also if Slurm has deleted the job's
    # record.
    submission: Submission | None
    facts: JobFacts | None
    report: Report | None
    attempts: tuple[Attempt, ...]
    # The trainer's last report.
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    saved_step: int | None = None
    # `saved_step` counts saves: nothing tells the trainer's step.
    saved_is_count: bool = False
    # Those of a run that submitted nothing, and their states from CloudFormation; None if it could not be queried:
    # they exist unless a user has removed them.
    stacks: tuple[str, ...] = ()
    stack_states: Mapping[str, str] | None = None
    # Of a job that has begun and is not over.
    meter: Meter | None = None
    # The command that created the run, None if not recorded.
    command: CommandRecord | None = None
    # Whether its job is in the sandbox of its launch, which no other command reaches.
    own_sandbox: bool = False
    # The chips that the newest attempt did not use.
    idle_chips: str = ""
    # The nodes that slow the running attempt down.
    stragglers: tuple[Straggler, ...] = ()
    # The end of the output of a failed job's newest attempt.
    last_output: tuple[str, ...] = ()
