"""Submitting a rendered job to a cluster: the way to its head node, its folder there, and the answer of Slurm."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.aws import compute_fleet
from launcher.aws.calls import forbidden
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.ssm import MachineCommands
from launcher.model.bundle import Bundle
from launcher.model.durations import spoken
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.stages import Tell, stage
from launcher.records.run_folder import RunFolder
from launcher.records.submission import SANDBOX, HeadNode, Submission, recorded
from launcher.rendering.hyperpod import SHARED_HOME
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.submit.jobs import GoneError, JobSource, UnreachableError
from launcher.submit.session import SessionShell
from launcher.submit.shell import LocalShell, Shell
from launcher.submit.slurm import Slurm
from launcher.submit.ssh import SshShell
from launcher.submit.ssm import SsmShell
from launcher.workflow.run.shipping import Shipment, job_archive

if TYPE_CHECKING:
    from launcher.sandbox.sandbox import Sandbox

FLEET_S, FLEET_LOOK_S = 900.0, 10.0
"""pcluster waits 180 s for the daemon to take up the wish and 600 s for the start (compute_fleet_status_manager.py)."""
FLEET_TRIES = 5
FOLDER = "slipway"
"""Below the user's home: one folder for each submission."""


def fresh_key(name: str, folder: RunFolder) -> str:
    """The key of a new submission: the plan's name, the run's time, and a token that another machine cannot have."""
    return f"{name}-{folder.path.name}-{secrets.token_hex(4)}".lower()


def connect(head_node: HeadNode, environment: Mapping[str, str], *, key: str, store: Objects | None) -> Shell:
    """The way to a head node.

    Args:
        head_node: where it is.
        environment: of ssh, of commands on this machine, or with AWS credentials.
        key: the submission's.
        store: the place in S3 through which files go where only commands do; None where none will go.

    Raises:
        SchedulerError: the way cannot be taken from here.
    """
    if head_node.via == SANDBOX:
        return sandbox_of(head_node, environment).head_node(str(head_node.host), environment)
    if head_node.via == "local":
        return LocalShell(environment)
    if head_node.via == "ssh":
        return SshShell(str(head_node.host), environment)
    session = Session(environment=environment, region=str(head_node.region))

    def stage(path: Path) -> str:
        if store is None:
            raise ImpossibleError("no place in S3 for the job folder")
        staged = f"{STAGED_FOLDER}/{key}.tar.gz"
        store.send(path, staged)
        return f"{store.uri}/{staged}"

    if head_node.via == "session":
        return SessionShell(
            name=f"session {head_node.instance}",
            target=str(head_node.instance),
            region=session.region,
            user=str(head_node.user),
            home=SHARED_HOME,
            environment=environment,
            stage=stage,
        )
    return SsmShell(
        name=f"ssm {head_node.instance}",
        commands=MachineCommands(session=session, instance=str(head_node.instance)),
        user=str(head_node.user),
        stage=stage,
    )


def sandbox_of(head_node: HeadNode, environment: Mapping[str, str]) -> "Sandbox":
    """The sandbox that a head node is in.

    Raises:
        GoneError: it has ended.
    """
    from launcher.workflow.deploy.in_sandbox import attached

    found = attached(environment, str(head_node.region))
    if found is None or found.stays is None or found.stays.mark != head_node.instance:
        message = f"the sandbox of {head_node.words()} has ended, and all that ran in it"
        raise GoneError(message, hint="slipway report NAME and slipway logs NAME tell what its run folder holds")
    return found


def start_fleet(
    session: Session,
    cluster: str,
    tell: Tell,
    *,
    sleep: Callable[[float], None] = time.sleep,
    patience_s: float = FLEET_S,
) -> None:
    """Start a compute fleet that was stopped, by its guard or by hand, and wait until it runs.

    Where it does not run in time the job is submitted all the same: it waits in the queue.

    Args:
        session: of the cluster's region.
        cluster: ParallelCluster's name for it.
        tell: told of what is done.
        sleep: waits some seconds.
        patience_s: how long to wait for it.

    Raises:
        AwsError: a call failed for another reason than that these credentials may not make it.
    """
    for _ in range(FLEET_TRIES):
        try:
            found = compute_fleet.status(session, cluster)
        except AwsError as problem:
            if not forbidden(problem):
                raise
            tell(f"whether the compute fleet of {cluster} runs cannot be seen with these credentials")
            return
        if found is None or found not in compute_fleet.STARTABLE:
            break
        tell(f"the compute fleet of {cluster} is {found}: starting it")
        if compute_fleet.request_start(session, cluster, found, datetime.now(UTC)):
            tell("its guard stops it again where guardrails.ttl_h is over; slipway deploy FILE begins that time anew")
            break
    waited = 0.0
    with stage(tell):
        while compute_fleet.status(session, cluster) in ("START_REQUESTED", "STARTING"):
            if waited >= patience_s:
                tell(f"the fleet does not run after {spoken(patience_s)}; the job will wait for it")
                return
            sleep(FLEET_LOOK_S)
            waited += FLEET_LOOK_S


def submit(
    slurm: Slurm, bundle: Bundle, shipment: Shipment, submission: Submission, *, folder: RunFolder, partition: str
) -> Submission:
    """Put the job folder on the head node and have Slurm take its batch script; the submission with its job.

    What is about to be done is written down before, and what was done after: a launcher that dies in between leaves a
    record that `look_again` completes.

    Raises:
        UnreachableError: it is not known whether the job was taken.
        SchedulerError: it was not.
    """
    with job_archive(bundle, shipment) as (archive, agent):
        place = _put(slurm.shell, archive, f"{FOLDER}/{submission.key}")
    folder.append_event("job-folder-put", where=submission.head_node.words(), folder=place, agent_sha256=agent)
    asked = replace(submission, folder=place)
    asked.write(folder)
    done = asked.taken(slurm.submit(asked.key, place, BATCH_FILE, partition=partition))
    done.write(folder)
    folder.append_event("submitted", job=done.job, key=done.key)
    return done


def _put(shell: Shell, archive: Path, folder: str) -> str:
    """Put a folder; once more where the connection was lost on the way: what is there whole stays."""
    try:
        return shell.put(archive, folder)
    except UnreachableError:
        return shell.put(archive, folder)


def look_again(folder: RunFolder, source: JobSource) -> Submission | None:
    """The submission of a run folder with its job, looked for where the launcher ended before the answer came.

    Returns:
        None where nothing was submitted from this folder, or it was never taken.

    Raises:
        SchedulerError: the cluster cannot be asked.
    """
    found = recorded(folder)
    if found is None or found.job is not None:
        return found
    job = source.find(found.key, found.folder)
    if job is None:
        return None
    done = found.taken(job)
    done.write(folder)
    return done
