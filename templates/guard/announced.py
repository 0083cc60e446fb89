# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The events of AWS that the guard forwards to users, as text."""

import re
from collections.abc import Mapping
from typing import Any

NOTICES = {
    "EC2 Spot Instance Interruption Warning": "AWS reclaims {instance} in 2 minutes",
    "EC2 Instance Rebalance Recommendation": "{instance} has a higher risk of interruption",
}
_FIELD = re.compile(r"\{([^}]+)\}")
_BLOCK_ENDS = (
    "Capacity Block ends",
    "{capacity-reservation-id} ends at {end-date}; AWS takes its nodes back from 30 minutes before",
)
ANNOUNCED = {
    "CloudWatch Alarm State Change": ("head node in trouble", "the head node is in trouble: {state.reason}"),
    # AWS's own documentation has both names for the event 40 minutes before a Capacity Block ends.
    "Capacity Block Expiration Warning": _BLOCK_ENDS,
    "Capacity Block Reservation Expiration Warning": _BLOCK_ENDS,
    "SageMaker HyperPod Cluster Node Health Event": (
        "faulty instance",
        "{InstanceId} is {HealthSummary.HealthStatus}: {HealthSummary.HealthStatusReason}"  # noqa: ISC004 - one text
        " Repair: {HealthSummary.RepairAction}",
    ),
    "SageMaker HyperPod Cluster State Change": ("cluster fails", "HyperPod says {ClusterStatus}"),
    "SageMaker Training Job State Change": ("training job failed", "{TrainingJobName} failed: {FailureReason}"),
    "SageMaker Endpoint State Change": ("endpoint in trouble", "SageMaker says {EndpointStatus}"),
}
"""Subject and text for each kind of event, with fields filled in from its detail; the rules in
infra/parts/guardrails.py match only this cluster's events."""


def event_text(kind: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    """Subject and text of an event; its missing fields are shown as unknown."""
    subject, text = ANNOUNCED[kind]
    return subject, _FIELD.sub(lambda field: _found_at(detail, field[1]), text)


def _found_at(detail: Mapping[str, Any], path: str) -> str:
    """The value at a path of keys in an event's detail."""
    value: Any = detail
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return "unknown" if value is None else str(value)
