"""Lambda functions as Lambda describes them."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.agent import safe_json
from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, translate_errors

_ABSENT = {"ResourceNotFoundException"}


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
    with translate_errors(f"describe function {name}"):
        configuration = client.get_function_configuration(FunctionName=name)
        answer = unless_absent(client.get_policy, f"read the policy of function {name}", _ABSENT, FunctionName=name)
        statements = () if answer is None else safe_json.loads(answer["Policy"])["Statement"]
    return FunctionState(
        arn=str(configuration["FunctionArn"]),
        runtime=str(configuration["Runtime"]),
        role_arn=str(configuration["Role"]),
        environment=dict(configuration.get("Environment", {}).get("Variables", {})),
        callers=frozenset(
            str(arn)
            for statement in statements
            for by in statement.get("Condition", {}).values()
            for key, arn in by.items()
            if key.lower() == "aws:sourcearn"
        ),
    )


def retries(session: Session, name: str) -> int | None:
    """The number of retries of a failed asynchronous call; None if it is not set: Lambda's default is 2."""
    call = session.client("lambda").get_function_event_invoke_config
    configuration = unless_absent(call, f"read how often {name} is tried again", _ABSENT, FunctionName=name)
    return None if configuration is None else int(configuration["MaximumRetryAttempts"])
