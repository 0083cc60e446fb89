# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard's settings, from the environment variables that infra/parts/guard_function.py sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from budget import Sum
from idleness import Reserved
from spot import JobBudget

SERVICES = ("EC2", "HYPERPOD", "HYPERPOD_EKS", "EKS", "PARALLELCLUSTER", "PCS")
"""The variables, one of which has the cluster's name in its service."""


@dataclass(frozen=True)
class Settings:
    """The guard's settings: names, limits (None: no limit), and the quoted rate in dollars per node-hour."""

    cluster: str
    # The cluster's name in its service.
    name: str
    stack: str
    topics: tuple[str, ...]
    region: str
    # It has the guard's state.
    parameter: str
    prepaid: bool
    ttl: timedelta | None
    # The allowed time without activity of nodes (0: unlimited).
    idle: timedelta
    # The allowed time without activity of a job (0: unlimited).
    hung: timedelta
    usd_per_node_hour: float | None
    # When the service reclaims the instances.
    ends: datetime | None
    sum: Sum | None = None
    # Where jobs leave messages for users; None without jobs.
    folder: str | None = None
    # Whether the plan names the store: jobs of other clusters may then write to the folder too.
    shared: bool = False
    reserved: Reserved | None = None
    # Nodes are spot instances of EC2, which shows their current price.
    spot: bool = False
    # The budget of the job whose next instance the service starts by itself.
    job: JobBudget | None = None

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Settings":
        """The settings in a mapping of environment variables."""
        ttl, rate = variables.get("TTL_HOURS"), variables.get("USD_PER_NODE_HOUR")
        ends = variables.get("ENDS_AT")
        return cls(
            cluster=variables["CLUSTER"],
            name=next(variables[service] for service in SERVICES if variables.get(service)),
            stack=variables["STACK"],
            topics=tuple(variables["TOPICS"].split()),
            region=variables["AWS_REGION"],
            parameter=variables["STATE"],
            prepaid=variables["PREPAID"] == "true",
            ttl=timedelta(hours=float(ttl)) if ttl else None,
            idle=timedelta(minutes=float(variables["IDLE_MINUTES"])),
            hung=timedelta(minutes=float(variables.get("HUNG_MINUTES", "0"))),
            usd_per_node_hour=float(rate) if rate else None,
            ends=datetime.fromisoformat(ends) if ends else None,
            sum=Sum.of(variables),
            folder=variables.get("FOLDER_URI"),
            shared=variables.get("SHARED_STORE") == "true",
            reserved=Reserved.of(variables),
            spot=variables.get("SPOT") == "true",
            job=JobBudget.of(variables),
        )
