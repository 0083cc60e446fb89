"""Systems Manager's Run Command: a shell script on one instance, and its result."""

from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.aws_results import Invocation
from launcher.model.errors import AwsError

DOCUMENT = "AWS-RunShellScript"
DELIVERY_S = 120
"""How long a command may wait for the instance's agent; the API's minimum is 30 s."""


def document(session: Session, name: str) -> dict[str, Any]:
    """The content of a document."""
    with translate_errors(f"read the document {name}"):
        answer = session.client("ssm").get_document(Name=name, DocumentFormat="JSON")
        return dict(safe_json.loads(answer["Content"]))


def parameter(session: Session, name: str) -> str:
    """The value of a parameter."""
    with translate_errors(f"read the parameter {name}"):
        return str(session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"])


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCommands:
    """Run Command for one instance."""

    session: Session
    instance: str

    def send(self, lines: list[str], timeout_s: int) -> str:
        """Send a shell script, which root runs; return the command's id.

        `timeout_s` counts from the start of the script.
        """
        try:
            with translate_errors(f"send a command to {self.instance}"):
                answer = self.session.client("ssm").send_command(
                    InstanceIds=[self.instance],
                    DocumentName=DOCUMENT,
                    Comment="slipway",
                    TimeoutSeconds=DELIVERY_S,
                    Parameters={"commands": lines, "executionTimeout": [str(timeout_s)]},
                )
        except AwsError as problem:
            if error_code(problem) == "InvalidInstanceId":
                hint = "the instance is terminated, or its agent is not online: aws ssm describe-instance-information"
                raise AwsError(problem.message, hint=hint) from problem
            raise
        return str(answer["Command"]["CommandId"])

    def outcome(self, command: str) -> Invocation | None:
        """The state of a command; None in the first moments, before its record for the instance is visible."""
        call, absent = self.session.client("ssm").get_command_invocation, {"InvocationDoesNotExist"}
        answer = unless_absent(call, f"read command {command}", absent, CommandId=command, InstanceId=self.instance)
        if answer is None:
            return None
        return Invocation(
            status=str(answer["Status"]),
            details=str(answer["StatusDetails"]).replace(" ", ""),
            code=int(answer.get("ResponseCode", -1)),
            out=str(answer.get("StandardOutputContent", "")),
            err=str(answer.get("StandardErrorContent", "")),
        )
