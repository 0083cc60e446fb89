"""Run Command of Systems Manager on the instances of Auto Scaling groups: moto records a command and runs nothing.

Emulated: SendCommand with AWS-RunShellScript and its time limit, GetCommandInvocation with the limits of its output
(API reference). Not emulated: sessions, other documents, instances without a group.
"""

import secrets
import subprocess
import threading
from typing import Any

from moto.autoscaling.exceptions import ValidationError
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ssm.responses import SimpleSystemManagerResponse

from launcher.sandbox.aws.auto_scaling import Groups
from launcher.sandbox.instances.machine import Machine

DOCUMENT = "AWS-RunShellScript"


class Commands:
    """The commands of a sandbox, by command and instance."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._outcomes: dict[tuple[str, str], dict[str, Any]] = {}

    def send(self, instance_ids: list[str], lines: list[str], seconds: float) -> str:
        """Run a script on instances; return the command's id.

        Raises:
            ServiceException: an instance does not run.
        """
        try:
            machines = [self._groups.member(instance_id)[1].machine for instance_id in instance_ids]
        except ValidationError as problem:
            raise ServiceException("InvalidInstanceId", "Instances not in a valid state for account") from problem
        id_ = "-".join(secrets.token_hex(size) for size in (4, 2, 2, 2, 6))
        for machine in machines:
            self._outcomes[id_, machine.id] = {"Status": "InProgress", "StatusDetails": "InProgress"}
            arguments = ((id_, machine.id), machine, "\n".join(lines), seconds)
            threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return id_

    def _run(self, key: tuple[str, str], machine: Machine, script: str, seconds: float) -> None:
        try:
            done = machine.run(script, seconds)
        except subprocess.TimeoutExpired:
            self._outcomes[key] = {"Status": "TimedOut", "StatusDetails": "Execution Timed Out", "ResponseCode": -1}
            return
        status = "Success" if done.returncode == 0 else "Failed"
        self._outcomes[key] = {
            "Status": status,
            "StatusDetails": status,
            "ResponseCode": done.returncode,
            "StandardOutputContent": done.stdout[:24_000],
            "StandardErrorContent": done.stderr[:8_000],
        }

    def outcome(self, command: str, instance_id: str) -> dict[str, Any]:
        """The result of a command on an instance.

        Raises:
            ServiceException: it was not sent there.
        """
        outcome = self._outcomes.get((command, instance_id))
        if outcome is None:
            raise ServiceException("InvocationDoesNotExist", f"no invocation of {command} on {instance_id}")
        return {"CommandId": command, "InstanceId": instance_id, **outcome}


def install(commands: Commands) -> None:
    """Add the calls to moto's Systems Manager."""

    def send_command(response: Any) -> ActionResult:
        read = response._get_param  # noqa: SLF001  the way moto's own responses read
        if read("DocumentName") != DOCUMENT:
            raise ServiceException("InvalidDocument", f"no document {read('DocumentName')}")
        parameters = read("Parameters", {})
        seconds = float(next(iter(parameters.get("executionTimeout", ["3600"]))))
        id_ = commands.send(read("InstanceIds", []), parameters["commands"], seconds)
        return ActionResult({"Command": {"CommandId": id_, "Status": "Pending"}})

    def get_command_invocation(response: Any) -> ActionResult:
        read = response._get_param  # noqa: SLF001
        return ActionResult(commands.outcome(read("CommandId"), read("InstanceId")))

    for call in (send_command, get_command_invocation):
        setattr(SimpleSystemManagerResponse, call.__name__, call)
