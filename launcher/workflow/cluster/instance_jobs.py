"""Jobs on plain EC2 instances as a source of jobs: their state, their files and logs, and how to stop them."""

import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from launcher.agent import safe_json
from launcher.agent.attempt_state import STATE_FILE, AttemptState, parse_attempt_state
from launcher.agent.exits import OUT_OF_TIME
from launcher.aws import auto_scaling, instances, log_groups
from launcher.aws.auto_scaling import AutoScalingGroup
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.ssm import InstanceCommands
from launcher.model.ec2 import FAILED_BOOTS, ROOT, SESSION_FILE
from launcher.model.errors import ImpossibleError
from launcher.model.job import JobFacts, JobState, SchedulerAttempt, Submitted
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.tags import RUN_TAG
from launcher.model.units import number_of
from launcher.records.submission import SANDBOX, Submission
from launcher.rendering.names import FRESH_FOLDER, journal_uri
from launcher.submit.jobs import Chunk, SchedulerError
from launcher.submit.kubernetes import journal
from launcher.submit.kubernetes.jobs import exit_code_reason
from launcher.submit.nodes import EXEC_S, open_tunnel, run_attended, running_on
from launcher.submit.session import Sessions, UserSession
from launcher.submit.ssm import SsmShell
from launcher.workflow.cluster.api_jobs import nothing_open, reachable, stop_job
from launcher.workflow.cluster.deployed import JobConnection
from launcher.workflow.cluster.guard_stop import REPORT_BYTES
from launcher.workflow.cluster.run_environment import sandbox_of

LOG = "log.txt"
FILES, ENDED, BOOTS = "files", "ended", "boots"
"""Below a job's folder in the store: what instances fetch, how each of them ended, and the ends of failed boots."""
FAILED_START, LINES = "the start of the job failed with exit code", 5
"""What the last lines of a failed start contain (templates/ec2/user_data.sh.j2), and how many lines a reason has."""
POLL_S, POLL_HERE_S = 10.0, 1.0
USER = "root"
"""The owner of a job's processes: the instance exists for the job alone."""
_CHUNK = 4_000_000
_IN_JOB_FOLDER = f'if [ -r "${{SLIPWAY_ROOT:={ROOT}}}/{SESSION_FILE}" ]; then . "$SLIPWAY_ROOT/{SESSION_FILE}"; fi; '
"""Gives a command the folder and the programs of the job: root's login shell has neither."""


def group_of(cluster: str) -> str:
    """The name of the Auto Scaling group of a plan's cluster name.

    >>> group_of("tiny")
    'slipway-tiny'
    """
    return f"slipway-{cluster}"


def channel_at(session: Session, store_uri: str, job: str) -> Objects:
    """A job's folder in the store, which its instances fetch and write to."""
    return Objects.at(session, f"{store_uri}/{STAGED_FOLDER}/{job}")


def reach_instances(submission: Submission, environment: Mapping[str, str]) -> JobConnection:
    """The API that runs a job's instances, and the places in the store where they save their files."""
    session = Session(environment=environment, region=str(submission.head_node.region))
    first = submission.checkpoint_uri.partition(f"/{FRESH_FOLDER}/")[0]
    emulated = submission.head_node.via == SANDBOX

    def sessions(instance: str) -> Sessions:
        if emulated:
            return sandbox_of(submission.head_node, environment).sessions(instance)
        return UserSession(target=instance, region=session.region, environment=environment)

    source = InstanceJobs(
        session=session,
        group=group_of(submission.cluster),
        job_files=Objects.at(session, journal_uri(first, submission.key)),
        channel=channel_at(session, submission.store_uri, submission.folder),
        environment=environment,
        sessions=sessions,
    )
    return JobConnection(source=source, poll_s=POLL_HERE_S if emulated else POLL_S, close=nothing_open)


@dataclass(slots=True, kw_only=True)
class InstanceJobs:
    """The jobs of one Auto Scaling group."""

    session: Session
    group: str
    # What the agents of a job stored.
    job_files: Objects
    # What its instances did.
    channel: Objects
    # That of the AWS CLI.
    environment: Mapping[str, str]
    # Those of a user with an instance.
    sessions: Callable[[str], Sessions]
    sleep: Callable[[float], None] = field(default=time.sleep)
    clock: Callable[[], float] = field(default=time.monotonic)

    def facts(self, job: Submitted) -> JobFacts | None:
        """The state of a job; None if its group no longer exists and the job has left no record.

        Raises:
            UnreachableError: AWS does not answer.
        """
        with reachable():
            return self._facts(job)

    def _facts(self, job: Submitted) -> JobFacts | None:
        group, (life, changed) = auto_scaling.describe(self.session, self.group), self._life()
        if group is None and life is None:
            return None
        # The group may run the next job of the plan already.
        own = group if group is not None and group.job == job.job else None
        active = own is not None and own.desired > 0
        restarts = 0 if life is None else life.number - 1
        nodes = self._by_rank(own) if own is not None else ()
        if own is not None and (active or own.states) and not (life is not None and life.completed and not active):
            ended = self._have_ended(own.desired) if life is not None and life.completed else False
            if not ended:
                state, word, reason = self._running(own, active=active)
                return JobFacts(state=state, word=word, reason=reason, restarts=restarts, nodes=nodes, attempt=None)
        state, word, reason, code = self._final(job, life)
        attempt = None
        if code is not None:
            attempt = SchedulerAttempt(
                number=restarts + 1, started_at=changed, ended_at=changed, exit_code=code, signal=0, nodes=nodes
            )
        return JobFacts(state=state, word=word, reason=reason, restarts=restarts, nodes=(), attempt=attempt)

    def _by_rank(self, group: AutoScalingGroup) -> tuple[str, ...]:
        """The running instances in the order in which they rank themselves (templates/ec2/instance.py)."""
        if len(group.running) <= 1:
            return group.running
        known = instances.cluster_instances(self.session, RUN_TAG, group.job)
        return instances.oldest_first(group.running, {each.id: each.launched_at for each in known})

    def _running(self, group: AutoScalingGroup, *, active: bool) -> tuple[JobState, str, str]:
        if not active:
            return JobState.RUNNING, "stopping", ""
        if len(group.running) >= group.desired:
            return JobState.RUNNING, "running", ""
        refusal = auto_scaling.refusal(self.session, self.group)
        came = f"{len(group.running)} of {group.desired} instances run"
        rest = "it" if group.desired == 1 else "the others"
        return JobState.PENDING, "waiting", f"{came}: {refusal}" if refusal else f"{came}: EC2 starts {rest}"

    def _life(self) -> tuple[AttemptState | None, datetime]:
        """The newest attempt as the agents record it, and when the record changed."""
        found = self.job_files.find(STATE_FILE)
        if found is None:
            return None, datetime.now(UTC)
        return parse_attempt_state(self.job_files.read(STATE_FILE).decode(errors="replace")), found.modified

    def _have_ended(self, nodes: int) -> bool:
        """Whether all instances have stored their last files."""
        return len(self.channel.list_objects(below=f"{ENDED}/")) >= nodes

    def _final(self, job: Submitted, life: AttemptState | None) -> tuple[JobState, str, str, int | None]:
        """How a job ended whose instances end: its state, a word, the reason, and the exit code if it is known."""
        if life is not None and life.completed and life.failed is None:
            return JobState.COMPLETED, "stopped at its budget" if life.stopped else "completed", "", 0
        ends = [safe_json.loads(self.channel.read(each.key)) for each in self.channel.list_objects(below=f"{ENDED}/")]
        said = next((str(end["reason"]) for end in ends if end.get("reason")), "")
        if life is not None and life.failed is not None:
            cause = "" if life.failed == OUT_OF_TIME else exit_code_reason(life.failed, stuck=life.stuck)
            reason = ": ".join(filter(None, (cause, said)))
            return JobState.FAILED, "failed", reason, life.failed
        if ends:
            return JobState.FAILED, "failed", said, int(ends[0]["code"]) or 1
        boots = self.channel.list_objects(below=f"{BOOTS}/")
        if len(boots) >= FAILED_BOOTS:
            lines = self.channel.read(boots[-1].key, REPORT_BYTES).decode(errors="replace").strip()
            return (
                JobState.FAILED,
                "failed",
                f"{number_of(len(boots), 'instance')} could not start the job; the last:\n{lines}",
                1,
            )
        logged = () if life is not None else self._unstored_start(job)
        if logged:
            reason = "\n".join(
                ("an instance could not start the job, and did not reach the store; its lines:", *logged)
            )
            return JobState.FAILED, "failed", reason, 1
        return JobState.CANCELLED, "stopped", "", None

    def _unstored_start(self, job: Submitted) -> tuple[str, ...]:
        """The last lines in the log group of an instance whose start failed; empty if none reports a failed start."""
        lines = log_groups.newest_lines(self.session, f"{self.group}-instances", LINES, streams=f"{job.job}/")
        return lines if any(FAILED_START in line for line in lines) else ()

    def find(self, key: str, folder: str) -> Submitted | None:
        """The job that an earlier submission started, by its name; None if the submission started none."""
        group = auto_scaling.describe(self.session, self.group)
        started = (group is not None and group.job == folder) or self._life()[0] is not None
        return Submitted(job=folder, key=key, folder=folder) if started else None

    def read(self, job: Submitted, offsets: Mapping[str, int]) -> Mapping[str, Chunk | None]:
        """The contents of a job's files from their offsets, as its instances stored them."""
        del job
        with reachable():
            return {name: journal.read(self.job_files, name, offset, _CHUNK) for name, offset in offsets.items()}

    def log_name(self, job: Submitted) -> str:
        """The name of the first instance's output file."""
        del job
        return LOG

    def release(self, job: Submitted) -> None:
        """Do nothing: EC2 Auto Scaling replaces an instance immediately."""

    def nodes(self, job: Submitted) -> "InstanceNodes":
        """The instances of a running job, which Systems Manager reaches."""
        names = running_on(self.facts(job), job.job)
        return InstanceNodes(names=names, session=self.session, environment=self.environment, sessions=self.sessions)

    def cancel(self, job: Submitted, *, only_pending: bool = False) -> bool:
        """End a job's instances, which save first; with `only_pending` only while not all of them run.

        Raises:
            UnreachableError: AWS does not answer.
        """

        def stop() -> bool:
            if not only_pending:
                journal.mark_cancelled(self.job_files)
            auto_scaling.stop(self.session, self.group)
            return True

        return stop_job(lambda: self.facts(job), stop, only_pending=only_pending, sleep=self.sleep, clock=self.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNodes:
    """Access to the instances of a job over Systems Manager: no key, no open port."""

    names: tuple[str, ...]
    session: Session
    environment: Mapping[str, str]
    sessions: Callable[[str], Sessions]

    def shell(self, node: str) -> int:
        """Open a session on an instance, on this terminal."""
        return run_attended(self._shell(node).terminal(f"{_IN_JOB_FOLDER}exec bash"), self.environment)

    def run(self, node: str, command: Sequence[str]) -> int:
        """Run a command on an instance; its output comes when the command has ended."""
        answer = self._shell(node).run(_IN_JOB_FOLDER + shlex.join(command), timeout_s=EXEC_S)
        sys.stdout.write(answer.out)
        sys.stderr.write(answer.err)
        return answer.code

    def read(self, node: str, command: Sequence[str]) -> str:
        """The output of a short command on an instance."""
        answer = self._shell(node).run(_IN_JOB_FOLDER + shlex.join(command))
        if answer.code != 0:
            raise SchedulerError(f"{node}: {command[0]}: {answer.err.strip() or f'exit {answer.code}'}")
        return answer.out

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Forward a local port to a port of an instance."""
        command = self._shell(node).forwarding("localhost", port, local_port)
        return open_tunnel(command, self.environment, port=port, local_port=local_port, ready=ready)

    def _shell(self, node: str) -> SsmShell:
        return SsmShell(
            name=f"ssm {node}",
            commands=InstanceCommands(session=self.session, instance=node),
            user=USER,
            stage=_no_files,
            sessions=self.sessions(node),
            environment=self.environment,
        )


def _no_files(_path: Path) -> str:
    """Refuse: a command on an instance sends no file."""
    raise ImpossibleError("no S3 location for files to an instance")
