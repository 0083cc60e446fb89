# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The spending limit at which a guard ends a job: how spend is counted, when the guard acts, how the job is notified.

The spend is in the guard's state (state.py), summed since the stack's creation: the running nodes at the quoted rate,
or at the current spot price if that is higher (spot.py), plus the other hourly costs. A new deployment, at another rate
or with a higher limit, continues the sum. The job's agent polls the stop object in the store. Its key contains the
limit, so a higher limit finds no stop object.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from job_messages import LONGEST, THERE

DOLLARS = "DollarsPerLook"
"""The cluster's cost since the last check."""
CENT = 0.01
GO_ON = "To continue: raise budget.stop_at_usd in the plan file and launch it again"


@dataclass(frozen=True)
class Sum:
    """A spending limit and its settings (infra/parts/budget_stop.py)."""

    # The limit in the plan's exact notation.
    usd: str
    # The stop object that the job polls, None without a job.
    uri: str | None
    # The job's time to save.
    settle: timedelta
    # The part of the limit that is kept back, as a time of `nodes` nodes.
    reserve: timedelta
    ending: timedelta
    nodes: int
    # Dollars per hour of everything else.
    other_usd_per_hour: float
    # An endpoint whose range allows zero is scaled to zero.
    to_zero: bool
    # The number of instances below which an endpoint never scales.
    least: int

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Sum | None":
        """The limit in a mapping of environment variables; None without one."""
        if "STOP_AT_USD" not in variables:
            return None
        settle, reserve, ending = (
            timedelta(minutes=float(variables[f"STOP_{name}_MINUTES"])) for name in ("SETTLE", "RESERVE", "ENDING")
        )
        return cls(
            usd=variables["STOP_AT_USD"],
            uri=variables.get("STOP_URI"),
            settle=settle,
            reserve=reserve,
            ending=ending,
            nodes=int(variables["NODES"]),
            other_usd_per_hour=float(variables["OTHER_USD_PER_HOUR"]),
            to_zero=variables.get("STOP_TO_ZERO") == "true",
            least=int(variables.get("LEAST_NODES", "0")),
        )

    def is_reached(self, spent: float, usd_per_node_hour: float, count: int, *, late: bool = False) -> bool:
        """Whether the rest of the limit only suffices to end in good order; with `late`, only to end at all."""
        hours = (self.ending if late else self.reserve) / timedelta(hours=1)
        # Starting nodes may join before the next check.
        an_hour = max(count, self.nodes) * usd_per_node_hour + self.other_usd_per_hour
        return spent + hours * an_hour >= float(self.usd)

    def first_words(self, created: datetime, cluster: str) -> str:
        """The message about a cluster that is older than the count of its cost."""
        return (
            f"budget.stop_at_usd (${self.usd}) counts from now, without what the cluster has cost since"
            f" {created:%Y-%m-%d %H:%M} UTC: guards of an earlier version kept their count where nodes could change it,"
            f" and it is not continued. Lower budget.stop_at_usd by it (slipway cost {cluster}) and deploy again."
        )

    def words(self, spent: float, above: float) -> str:
        """The spend and the limit, as text; `above` is what spot nodes have cost above the quoted rate."""
        total = f"${spent:,.2f} of the ${self.usd} of budget.stop_at_usd are spent"
        return f"{total} at the quoted rates" if above < CENT else f"{total}, ${above:,.2f} above the quoted spot price"


def usd_at_least(settings: Any, nodes: Iterable[Mapping[str, Any]], began: datetime | None, now: datetime) -> float:
    """The least that a cluster has cost: its running nodes since their start, and the rest since its deployment.

    Args:
        settings: the guard's `Settings`.
        nodes: the running nodes; one without `LaunchTime` started at an unknown time and counts nothing.
        began: the last deployment; None if it could not be read.
        now: the time of the check.
    """
    limit, hour = settings.sum, timedelta(hours=1)
    launched = (node["LaunchTime"] for node in nodes if "LaunchTime" in node)
    node_hours = sum(max(0.0, (now - at) / hour) for at in launched)
    hours = 0.0 if began is None else max(0.0, (now - began) / hour)
    return node_hours * (settings.usd_per_node_hour or 0.0) + hours * (
        0.0 if limit is None else limit.other_usd_per_hour
    )


def request_stop(s3: Any, limit: Sum, spent: float, now: datetime) -> tuple[datetime, bool]:
    """Write the stop object once; return when it was written, and whether this call wrote it.

    Raises:
        ClientError: the store rejects the object.
    """
    bucket, _, key = str(limit.uri).removeprefix("s3://").partition("/")
    document = {
        "schema": "slipway.stop/1",
        "at": now.isoformat(),
        "spent_usd": f"{spent:.2f}",
        "stop_at_usd": limit.usd,
    }
    try:
        s3.put_object(
            Bucket=bucket,
            Key=key,
            Body=json.dumps(document).encode(),
            ContentType="application/json",
            IfNoneMatch="*",
        )
    except ClientError as refusal:
        if refusal.response["Error"]["Code"] not in THERE:
            raise
    else:
        return now, True
    there = s3.get_object(Bucket=bucket, Key=key)
    # S3's own time: an object that names a later one does not keep the nodes.
    return min(moment_of(there["Body"].read(LONGEST), now - limit.settle), there["LastModified"]), False


def moment_of(body: bytes, otherwise: datetime) -> datetime:
    """When the stop object was written; `otherwise` if the object is not the guard's own."""
    try:
        moment = datetime.fromisoformat(json.loads(body)["at"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return otherwise
    return moment if moment.tzinfo is not None else otherwise
