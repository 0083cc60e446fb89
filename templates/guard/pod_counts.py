# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard's request to the function in its cluster's network that counts pods (templates/chart/pods.py)."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from failures import RefusedError

if TYPE_CHECKING:
    from guard import Guard

MOST = 50
"""Maximum number of pods that notifications name: the guard's state remembers 100 notifications."""


def pods_of(guard: "Guard", function: str, **question: Any) -> Mapping[str, Any]:
    """The counts of a cluster's pods. Users are notified of pods that cannot start, which do not count.

    Raises:
        ClientError: the call of the function is denied.
        RefusedError: the function failed.
    """
    question_sent = {"hung_minutes": guard.settings.hung / timedelta(minutes=1), **question}
    answer = guard.client("lambda").invoke(FunctionName=function, Payload=json.dumps(question_sent).encode())
    payload = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise RefusedError(f"the function that counts pods failed: {payload}")
    counts: Mapping[str, Any] = json.loads(payload)
    if counts["stuck"]:
        notify_of_stuck(guard, counts["stuck"])
    return counts


def notify_of_stuck(guard: "Guard", stuck: list[str]) -> None:
    """Notify users of pods that cannot start, once a day for each pod; of many pods, the first by name."""
    new = [pod for pod in sorted(stuck)[:MOST] if guard.first(pod.partition(": ")[0])]
    if new:
        minutes = f"{guard.settings.hung / timedelta(minutes=1):g}"
        if len(stuck) > MOST:
            new.append(f"and {len(stuck) - MOST} more pods")
        guard.notify(
            "pods cannot start",
            f"for {minutes} minutes and longer, and count as idle:\n"
            + "\n".join(new)
            + "\nFix them, or cancel their job: slipway cancel NAME",
        )
