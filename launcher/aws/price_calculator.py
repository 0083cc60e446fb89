"""AWS's price calculator: the cost of some usage for an account, after its discounts.

Slipway creates, fills, reads and deletes a workload estimate (AWS Billing and Cost Management API reference,
bcm-pricing-calculator, 2024-06-19). Whether the calculator accepts SageMaker's usage types is not confirmed.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors
from launcher.model.errors import AwsError
from launcher.model.money import Unpriced

HOME = "us-east-1"
"""The region of the endpoint for every region of the commercial partition (AWS General Reference)."""
RATE_TYPE = "AFTER_DISCOUNTS"
A_CALL = 25
"""Usages per request (botocore 1.44.5, the list's maximum)."""
WAIT_S, MAX_WAITS = 2.0, 60
"""Interval in seconds, and number, of polls of an unfinished estimate."""
UPDATING = "UPDATING"


class Usage(NamedTuple):
    """An amount of one usage type, with its region's prefix; `key` is at most ten letters and digits."""

    key: str
    service: str
    usage_type: str
    operation: str
    amount: Decimal


def estimate_usages(
    session: Session, account: str, name: str, usages: Sequence[Usage], wait: Callable[[float], None]
) -> Mapping[str, Decimal | Unpriced]:
    """AWS's costs of some usages, by their keys; for a refused usage, the reason.

    The session is for us-east-1; `name` (letters, digits, hyphens) is the name of the temporary estimate.

    Raises:
        AwsError: the credentials lack permission, a call failed, or the estimate is not finished in two minutes.
    """
    client = session.client("bcm-pricing-calculator")
    with translate_errors("make an estimate in AWS's pricing calculator"):
        identifier = client.create_workload_estimate(name=name[:64], rateType=RATE_TYPE)["id"]
    try:
        keys, estimates = _add_usages(client, identifier, account, usages)
        _wait_for_estimate(client, identifier, wait)
        listed = items(
            client.list_workload_estimate_usage,
            "read the estimate of AWS's pricing calculator",
            "items",
            workloadEstimateId=identifier,
        )
        estimates |= {keys[estimate["id"]]: _answer(estimate) for estimate in listed if estimate.get("id") in keys}
    finally:
        with translate_errors("delete the estimate in AWS's pricing calculator"):
            client.delete_workload_estimate(identifier=identifier)
    return {usage.key: estimates.get(usage.key, Unpriced(reason="AWS gave no answer for it")) for usage in usages}


def _add_usages(
    client: Any, identifier: str, account: str, usages: Sequence[Usage]
) -> tuple[dict[str, str], dict[str, Decimal | Unpriced]]:
    keys: dict[str, str] = {}
    refused: dict[str, Decimal | Unpriced] = {}
    for start in range(0, len(usages), A_CALL):
        with translate_errors("fill the estimate in AWS's pricing calculator"):
            answer = client.batch_create_workload_estimate_usage(
                workloadEstimateId=identifier,
                usage=[_usage_entry(usage, account) for usage in usages[start : start + A_CALL]],
            )
        keys |= {item["id"]: item["key"] for item in answer.get("items", ()) if "id" in item and "key" in item}
        for error in answer.get("errors", ()):
            reason = f"{error.get('errorCode', 'refused')}: {error.get('errorMessage', 'no reason given')}"
            refused[str(error.get("key"))] = Unpriced(reason=reason)
    return keys, refused


def _usage_entry(usage: Usage, account: str) -> dict[str, Any]:
    return {
        "serviceCode": usage.service,
        "usageType": usage.usage_type,
        "operation": usage.operation,
        "key": usage.key,
        "usageAccountId": account,
        "amount": float(usage.amount),
    }


def _wait_for_estimate(client: Any, identifier: str, wait: Callable[[float], None]) -> None:
    subject = "look at the estimate of AWS's pricing calculator"
    for _ in range(MAX_WAITS):
        with translate_errors(subject):
            state = client.get_workload_estimate(identifier=identifier)
        if state.get("status") != UPDATING:
            if state.get("failureMessage"):
                raise AwsError(f"{subject}: {state['failureMessage']}")
            return
        wait(WAIT_S)
    raise AwsError(f"{subject}: it is still being worked out after {WAIT_S * MAX_WAITS:g} s", hint="run it again")


def _answer(item: Mapping[str, Any]) -> Decimal | Unpriced:
    status = item.get("status")
    if status != "VALID" or item.get("cost") is None:
        return Unpriced(reason=f"AWS calls it {str(status or 'unpriced').lower()}")
    if item.get("currency", "USD") != "USD":
        return Unpriced(reason=f"AWS's answer is in {item['currency']}")
    return Decimal(repr(item["cost"]))
