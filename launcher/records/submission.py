"""The destination of a job in its run folder: enough to find it from a new terminal, without secrets."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from launcher.agent.shape import moment, read
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.job import GitState, Submitted
from launcher.model.record import record
from launcher.model.stages import Notify
from launcher.records.command_record import goes_on
from launcher.records.run_folder import STAMP, RunFolder, latest, reported_runs, with_report
from launcher.targets.registry import target_of, training_targets

FILE = "submission.json"
SCHEMA = "slipway.submission/1"
SANDBOX, EKS, CONTEXT, API = "sandbox", "eks", "context", "api"
"""Access to a head node that exists as long as its sandbox: the launch, or a permanent one; to an EKS API, with an AWS
token or a context of the user's kubeconfig; to an AWS service that accepts jobs itself."""
_NODE = ("via", "host", "instance", "region", "user", "role", "kind")


@record
class HeadNode:
    """The receiver of a cluster's jobs and its access: a head node, or a Kubernetes API."""

    # "ssh", "ssm", "session", "local" or "sandbox"; of an API "eks", "sandbox", "context" or "api".
    via: str
    # The name for ssh, or of a sandbox's cluster; of an API the EKS cluster, the context or the service.
    host: str | None = None
    # The EC2 id, for a session its Systems Manager target, for a permanent sandbox its mark.
    instance: str | None = None
    region: str | None = None
    # The owner of the jobs if commands arrive as root.
    user: str | None = None
    # The role to assume for access to an API.
    role: str | None = None
    # The kind of the job's object, for an API.
    kind: str | None = None

    def text(self) -> str:
        """The access in words."""
        connections = {"ssh": f"{self.host} over ssh", "ssm": f"{self.instance} over Systems Manager"}
        connections |= {
            "session": f"{self.instance} over a session",
            EKS: f"EKS cluster {self.host}",
            CONTEXT: f"context {self.host}",
            API: str(self.host),
        }
        connections |= {SANDBOX: f"{self.host} in the sandbox"}
        return connections.get(self.via, "this computer")


@record
class Submission:
    """One submission."""

    key: str
    # The kind of the target that runs the job.
    target: TargetKind
    head_node: HeadNode
    cluster: str
    # The job's folder on the head node, on Kubernetes its `namespace/name`.
    folder: str
    store_uri: str
    checkpoint_uri: str
    # The shipped files.
    work: dict[str, Any]
    asked_at: datetime
    # None until Slipway knows that the job was accepted.
    job: str | None = None
    # Cancelled permanently, which a Kubernetes API does not record.
    cancelled: bool = False

    @property
    def scheduler(self) -> str:
        """The scheduler, as named in reports."""
        return target_of(self.target).scheduler

    @property
    def submitted_job(self) -> Submitted:
        """The job.

        Raises:
            ImpossibleError: it is unknown whether the job exists.
        """
        if self.job is None:
            raise ImpossibleError(
                f"whether {self.key} was submitted is not known", hint="slipway status NAME looks again"
            )
        return Submitted(job=self.job, key=self.key, folder=self.folder)

    def with_job(self, job: Submitted) -> "Submission":
        """The submission with its job."""
        return replace(self, job=job.job)

    def write(self, folder: RunFolder) -> None:
        """Write the submission to the run folder."""
        node = self.head_node
        folder.write_json(
            FILE,
            {
                "schema": SCHEMA,
                "key": self.key,
                "job": self.job,
                "target": self.target.value,
                "scheduler": self.scheduler,
                "cluster": self.cluster,
                "head_node": {name: getattr(node, name) for name in _NODE},
                "folder": self.folder,
                "store_uri": self.store_uri,
                "checkpoint_uri": self.checkpoint_uri,
                "work": self.work,
                "asked_at": self.asked_at.isoformat(),
                "cancelled": self.cancelled,
            },
        )


class _Work(NamedTuple):
    """The keys of a submission's `work` that the screens show."""

    files: int
    git: GitState | None


def with_job(name: str, root: Path, notify: Notify, *, going_on: bool = False) -> RunFolder:
    """The newest run of a plan with a job or an endpoint; without one, the newest run with a report.

    `notify` names a newer launch that ended before it submitted a job: an older job may still run. With `going_on` the
    job must be unfinished by its report, or have ended after the newer launch began, which was refused for it; else the
    newest of all runs is returned.
    """
    newest = latest(name, root)
    chosen = next((run for run in reported_runs(name, root) if not _ended_without_job(run)), None)
    if chosen is None:
        return with_report(name, root)
    if chosen.path != newest.path:
        if going_on and not _ended_after(newest, chosen.read_json("report.json")):
            return newest
        if _ended_without_job(newest):
            notify(
                f"launch {newest.path.name} submitted no job (slipway report {name}); this is run {chosen.path.name}"
            )
    return chosen


def _ended_after(launch: RunFolder, report: Mapping[str, Any]) -> bool:
    """Whether the job of a report runs, or ended after a launch began."""
    if report.get("status") == "running":
        return True
    ends = [attempt.get("ended_at") for attempt in report.get("attempts") or ()]
    began = datetime.strptime(launch.path.name, STAMP).replace(tzinfo=UTC)
    return any(end is not None and moment(end) > began for end in ends)


def _ended_without_job(run: RunFolder) -> bool:
    if not (run.path / "report.json").is_file() or (run.path / FILE).is_file() or goes_on(run):
        return False
    report = run.read_json("report.json")
    return report.get("endpoint") is None and not report.get("attempts")


def read_submission(folder: RunFolder) -> Submission | None:
    """The submission of a run folder that can still be queried; None if it no longer exists."""
    if not (folder.path / FILE).is_file():
        return None
    document = folder.read_json(FILE)
    if document.get("schema") != SCHEMA:
        raise UnreadableInputError(f"{folder.path / FILE}: schema {document.get('schema')!r}, expected {SCHEMA!r}")
    try:
        node = read(HeadNode, document.get("head_node"), "head_node")
        if node.via == SANDBOX and node.instance is None:
            return None
        read(_Work, document.get("work"), "work")
        return read(Submission, {**document, "target": document.get("target") or _target(node)})
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path / FILE} is not a submission record: {problem}") from problem


def in_own_sandbox(folder: RunFolder) -> bool:
    """Whether the job of a run is in the sandbox of its launch, which ends with the launch."""
    if not (folder.path / FILE).is_file():
        return False
    node = folder.read_json(FILE).get("head_node")
    return isinstance(node, dict) and node.get("via") == SANDBOX and node.get("instance") is None


def _target(head_node: HeadNode) -> str:
    """The target kind of an older record, which has none: the first kind whose jobs are queried the same way."""
    return next(kind.value for kind in training_targets() if target_of(kind).pods == (head_node.kind is not None))
