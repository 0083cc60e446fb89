# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The sum at which a guard ends a job: what it counts, when it acts, and how the job hears of it.

What was spent is a CloudWatch metric added up since the stack was made: the running nodes at the quoted rate, and what
costs by the hour beside them. A new deployment, at another rate or with a higher sum, goes on counting. The word to the
job is an object in the store that its agent looks for; its key holds the sum, so that a higher one finds none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from trouble import THERE

DOLLARS = "DollarsPerLook"
"""What the cluster has cost since the last look, at the quoted rates."""
DOLLARS_BEFORE = "Dollars"
"""The metric of guards before 0.2, whose values were added up: a running job's sum goes on from its average."""
GO_ON = "To continue: raise budget.stop_at_usd in the plan file and launch it again"


@dataclass(frozen=True)
class Sum:
    """A sum and how it is kept to (infra/parts/budget_stop.py).

    `usd` is the sum as the plan has it, in words that are exact; `uri` where the job looks for the word, None where no
    job runs. `settle` is the time that a job gets to save, `reserve` what is kept back of the sum as a time of `nodes`
    nodes; `beside` dollars an hour of everything else. `to_zero` has an endpoint that may be at none go there.
    """

    usd: str
    uri: str | None
    settle: timedelta
    reserve: timedelta
    ending: timedelta
    nodes: int
    beside: float
    to_zero: bool

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Sum | None":
        """The sum of a mapping of environment variables; None where there is none."""
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
            beside=float(variables["USD_PER_HOUR_BESIDE"]),
            to_zero=variables.get("STOP_TO_ZERO") == "true",
        )

    def reached(self, spent: float, usd_per_node_hour: float, count: int, *, late: bool = False) -> bool:
        """Whether what is left is no more than it takes to end in good order; `late`, than to end at all."""
        hours = (self.ending if late else self.reserve) / timedelta(hours=1)
        # Nodes that are not there yet may come before the next look.
        an_hour = max(count, self.nodes) * usd_per_node_hour + self.beside
        return spent + hours * an_hour >= float(self.usd)

    def words(self, spent: float) -> str:
        """How it stands."""
        return f"${spent:,.2f} of the ${self.usd} of budget.stop_at_usd are spent at the quoted rates"


def said_at(s3: Any, limit: Sum, spent: float, now: datetime) -> tuple[datetime, bool]:
    """Tell the job, once; when that was, and whether it was now.

    Raises:
        ClientError: the store does not take it.
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
    return moment_of(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), now - limit.settle), False


def moment_of(body: bytes, otherwise: datetime) -> datetime:
    """When the word was given; `otherwise` where the object is not the guard's own."""
    try:
        moment = datetime.fromisoformat(json.loads(body)["at"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return otherwise
    return moment if moment.tzinfo is not None else otherwise
