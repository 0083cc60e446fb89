"""The environment of a run's calls to AWS: that of the account, or of the sandbox that the run uses."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.emulation import find_sandbox, runs_elsewhere
from launcher.model.emulator import MARK
from launcher.records.command_record import RUNNING, read_command
from launcher.records.run_folder import RunFolder, home_of, latest, names
from launcher.records.submission import (
    SANDBOX,
    HeadNode,
    Submission,
    in_own_sandbox,
    read_submission,
)
from launcher.submit.jobs import SchedulerEndedError

if TYPE_CHECKING:
    from launcher.emulation import Sandbox


class SandboxOutOfReachError(SchedulerEndedError):
    """The sandbox of a run goes on, and this command cannot reach it."""


def environment_of(submission: Submission, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment for a submission's AWS calls: a persistent sandbox's, else the given one.

    Raises:
        SchedulerEndedError: the sandbox has ended.
    """
    if submission.head_node.via != SANDBOX:
        return environment
    return sandbox_of(submission.head_node, environment).process_environment(environment)


def environment_of_run(folder: RunFolder, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment for a run's AWS calls: the account's, or that of the persistent sandbox.

    Raises:
        SchedulerEndedError: the run's sandbox has ended.
    """
    submission = read_submission(folder)
    if submission is not None:
        return environment_of(submission, environment)
    command = read_command(folder)
    if command is None or not command.sandbox:
        return environment
    region, own = environment.get("AWS_REGION", "us-east-1"), in_own_sandbox(folder)
    sandbox = None if own else find_sandbox(environment, region, folder=folder.root)
    if sandbox is None:
        name = folder.path.parent.name
        if command.state == RUNNING:
            # It ends with its launch, and has no address for others.
            raise SandboxOutOfReachError(
                f"{name} runs in the sandbox of its launch, which no other command reaches",
                hint=f"slipway status {name} reads its run folder, as top, logs and report do; Ctrl-C in its terminal"
                " ends it; a launch after slipway sandbox start runs where other commands reach it",
            )
        message = "the sandbox of this run has ended, with everything in it"
        hint = f"slipway report {name} and slipway logs {name} show what the run folder contains"
        raise SchedulerEndedError(message, hint=hint)
    return sandbox.process_environment(environment)


def environment_of_newest(name: str, root: Path, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment for the AWS calls of a plan's newest run; the account's if no run is known.

    Raises:
        SchedulerEndedError: the run's sandbox has ended.
    """
    known = name in names(home_of(name, root))
    return environment_of_run(latest(name, root), environment) if known else environment


def region_in_sandbox(cluster: str, environment: Mapping[str, str]) -> str | None:
    """The region of a cluster's or endpoint's stacks in the running sandbox; None if it has none of them."""
    sandbox = find_sandbox(environment, "us-east-1", mark=environment.get(MARK))
    stacks = sandbox.stacks() if sandbox is not None else ()
    return next((stack["region"] for stack in stacks if stack["name"].rpartition("-")[0] == f"slipway-{cluster}"), None)


def sandbox_of(head_node: HeadNode, environment: Mapping[str, str]) -> "Sandbox":
    """The sandbox that a head node belongs to.

    Raises:
        SandboxOutOfReachError: the sandbox was started with another HOME or XDG_CACHE_HOME.
        SchedulerEndedError: the sandbox has ended.
    """
    # A sandbox that ends with its launch has no mark here.
    sandbox = find_sandbox(environment, str(head_node.region), mark=head_node.instance) if head_node.instance else None
    if sandbox is None and head_node.instance and runs_elsewhere(environment, head_node.instance):
        message = f"the sandbox of {head_node.host} runs, but was started with another HOME or XDG_CACHE_HOME"
        hint = "run this command with the HOME and XDG_CACHE_HOME of slipway sandbox start"
        raise SandboxOutOfReachError(message, hint=hint)
    if sandbox is None:
        message = f"the sandbox of {head_node.host} has ended, with everything that ran in it"
        raise SchedulerEndedError(
            message, hint="slipway report NAME and slipway logs NAME show what the run folder contains"
        )
    return sandbox
