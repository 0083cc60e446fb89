"""Topics as SNS describes them."""

from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic: its display name, its policy's statements, and its subscriptions as (protocol, endpoint)."""

    arn: str
    display_name: str
    statements: tuple[dict[str, Any], ...]
    subscribers: frozenset[tuple[str, str]]


def describe(session: Session, arn: str) -> TopicState:
    """The state of a topic."""
    client, subject = session.client("sns"), f"describe topic {arn}"
    with translate_errors(subject):
        attributes = client.get_topic_attributes(TopicArn=arn)["Attributes"]
        subscriptions = items(client.list_subscriptions_by_topic, subject, "Subscriptions", TopicArn=arn)
        statements = tuple(safe_json.loads(attributes.get("Policy") or "{}").get("Statement", []))
    return TopicState(
        arn=arn,
        display_name=str(attributes.get("DisplayName", "")),
        statements=statements,
        subscribers=frozenset(
            (str(subscription["Protocol"]), str(subscription["Endpoint"])) for subscription in subscriptions
        ),
    )
