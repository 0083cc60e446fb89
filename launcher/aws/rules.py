"""Event rules as EventBridge describes them."""

from collections.abc import Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.aws.session import Session, translate_errors


def describe(session: Session, name: str) -> Mapping[str, Any]:
    """A rule of the default bus with its `Targets`; its `EventPattern` is parsed."""
    client = session.client("events")
    with translate_errors(f"describe rule {name}"):
        description = client.describe_rule(Name=name)
        targets = client.list_targets_by_rule(Rule=name)["Targets"]
        pattern = safe_json.loads(description.get("EventPattern") or "{}")
    return {**description, "EventPattern": pattern, "Targets": targets}
