"""Event rules as EventBridge describes them."""

from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """One rule: whether it is enabled, its schedule or event pattern, and the ARNs that it calls."""

    arn: str
    enabled: bool
    schedule: str | None
    pattern: dict[str, Any]
    targets: frozenset[str]


def describe(session: Session, name: str) -> RuleState:
    """The state of a rule of the default bus."""
    client = session.client("events")
    with translate_errors(f"describe rule {name}"):
        description = client.describe_rule(Name=name)
        targets = client.list_targets_by_rule(Rule=name)["Targets"]
        pattern = safe_json.loads(description.get("EventPattern") or "{}")
    return RuleState(
        arn=str(description["Arn"]),
        enabled=description["State"] == "ENABLED",
        schedule=description.get("ScheduleExpression") or None,
        pattern=pattern,
        targets=frozenset(str(target["Arn"]) for target in targets),
    )
