"""Lambda functions as Lambda describes them."""

from collections.abc import Mapping
from dataclasses import dataclass

from botocore.exceptions import ClientError

from launcher.agent import safe_json
from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionState:
    """One function: its runtime, role and environment, and the ARNs of the rules that may call it."""

    arn: str
    runtime: str
    role_arn: str
    environment: Mapping[str, str]
    callers: frozenset[str]


def describe(session: Session, name: str) -> FunctionState:
    """The state of a function."""
    client = session.client("lambda")
    with translated(f"describe function {name}"):
        found = client.get_function_configuration(FunctionName=name)
        try:
            policy = safe_json.loads(client.get_policy(FunctionName=name)["Policy"])
        except ClientError as problem:
            if problem.response.get("Error", {}).get("Code") != "ResourceNotFoundException":
                raise
            policy = {"Statement": []}
    return FunctionState(
        arn=str(found["FunctionArn"]),
        runtime=str(found["Runtime"]),
        role_arn=str(found["Role"]),
        environment=dict(found.get("Environment", {}).get("Variables", {})),
        callers=frozenset(
            str(arn)
            for each in policy["Statement"]
            for by in each.get("Condition", {}).values()
            for key, arn in by.items()
            if key.lower() == "aws:sourcearn"
        ),
    )


def retries(session: Session, name: str) -> int | None:
    """How often Lambda repeats a failed asynchronous call; None where it is not set, which is 2."""
    with translated(f"read how often {name} is tried again"):
        try:
            found = session.client("lambda").get_function_event_invoke_config(FunctionName=name)
        except ClientError as problem:
            if problem.response.get("Error", {}).get("Code") != "ResourceNotFoundException":
                raise
            return None
    return int(found["MaximumRetryAttempts"])
