"""Topics as SNS describes them."""

from collections.abc import Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors


def describe(session: Session, arn: str) -> Mapping[str, Any]:
    """The attributes of a topic with its `Subscriptions`; its `Policy` is parsed."""
    client, subject = session.client("sns"), f"describe topic {arn}"
    with translate_errors(subject):
        attributes = client.get_topic_attributes(TopicArn=arn)["Attributes"]
        subscriptions = list(items(client.list_subscriptions_by_topic, subject, "Subscriptions", TopicArn=arn))
        policy = safe_json.loads(attributes.get("Policy") or "{}")
    return {**attributes, "Policy": policy, "Subscriptions": subscriptions}
