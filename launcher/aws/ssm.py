"""Systems Manager's Run Command: a shell script on one machine, and what came of it."""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from launcher.agent import safe_json
from launcher.aws.session import Session, translated
from launcher.model.errors import AwsError

DOCUMENT = "AWS-RunShellScript"
DELIVERY_S = 120
"""How long a command may wait for the machine's agent; the API takes 30 s at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A command's outcome on one machine; `out` and `err` are cut at 24,000 and 8,000 characters by the service."""

    status: str
    details: str
    code: int
    out: str
    err: str


def document(session: Session, name: str) -> dict[str, Any]:
    """The content of a document."""
    with translated(f"read the document {name}"):
        answer = session.client("ssm").get_document(Name=name, DocumentFormat="JSON")
        return dict(safe_json.loads(answer["Content"]))


def parameter(session: Session, name: str) -> str:
    """The value of a parameter."""
    with translated(f"read the parameter {name}"):
        return str(session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCommands:
    """Run Command for one machine."""

    session: Session
    instance: str

    def send(self, lines: list[str], timeout_s: int) -> str:
        """Send a shell script, which root runs; the command's id.

        Args:
            lines: the script's lines.
            timeout_s: what the script is given, from its begin.
        """
        try:
            with translated(f"send a command to {self.instance}"):
                answer = self.session.client("ssm").send_command(
                    InstanceIds=[self.instance],
                    DocumentName=DOCUMENT,
                    Comment="slipway",
                    TimeoutSeconds=DELIVERY_S,
                    Parameters={"commands": lines, "executionTimeout": [str(timeout_s)]},
                )
        except AwsError as problem:
            if _code(problem) == "InvalidInstanceId":
                hint = "the machine is gone, or its agent is not online: aws ssm describe-instance-information"
                raise AwsError(problem.message, hint=hint) from problem
            raise
        return str(answer["Command"]["CommandId"])

    def outcome(self, command: str) -> Invocation | None:
        """The state of a command; None in the first moments, when the machine's record does not show it yet."""
        try:
            with translated(f"ask for command {command}"):
                answer = self.session.client("ssm").get_command_invocation(CommandId=command, InstanceId=self.instance)
        except AwsError as problem:
            if _code(problem) == "InvocationDoesNotExist":
                return None
            raise
        return Invocation(
            status=str(answer["Status"]),
            details=str(answer["StatusDetails"]).replace(" ", ""),
            code=int(answer.get("ResponseCode", -1)),
            out=str(answer.get("StandardOutputContent", "")),
            err=str(answer.get("StandardErrorContent", "")),
        )


def _code(problem: AwsError) -> str:
    cause = problem.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""
