"""The spending limit at which a plan's guard ends its job: the guard's settings, and the stop object for the job."""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from aws_cdk import Aws, Fn
from aws_cdk import aws_iam as iam

from infra.parts.limits import Limits
from infra.parts.node_policy import StoreAccess
from launcher.model.budget_stop import ENDING_MINUTES, reserve_minutes, settle_minutes, stops_at
from launcher.model.endpoint import least_instances
from launcher.model.monitoring import BUDGET_FOLDER
from launcher.model.plan import Plan


class StopPlace(NamedTuple):
    """The S3 object that notifies a job to stop: its URI, and its ARN for a policy."""

    uri: str
    arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStop:
    """The guard's settings for the spending limit, in dollars; templates/guard/budget.py applies them."""

    # The limit.
    usd: Decimal
    # From the guard's notification of the job until it stops the nodes; those of all nodes that it reserves for it.
    settle_minutes: int
    reserve_minutes: int
    nodes: int
    other_usd_per_hour: Decimal
    # The stop object for the job; None for an endpoint.
    place: StopPlace | None
    # Scale the endpoint to no instance instead of deleting it, if its range allows zero.
    to_zero: bool
    # The instances below which the endpoint never scales.
    least_nodes: int

    @property
    def variables(self) -> dict[str, str]:
        """The settings as environment variables."""
        variables = {
            "STOP_AT_USD": plain_usd(self.usd),
            "STOP_SETTLE_MINUTES": str(self.settle_minutes),
            "STOP_RESERVE_MINUTES": str(self.reserve_minutes),
            "STOP_ENDING_MINUTES": str(ENDING_MINUTES),
            "NODES": str(self.nodes),
            "OTHER_USD_PER_HOUR": format(self.other_usd_per_hour, "f"),
        }
        if self.place is not None:
            variables["STOP_URI"] = self.place.uri
        if self.to_zero:
            variables["STOP_TO_ZERO"] = "true"
        if self.least_nodes:
            variables["LEAST_NODES"] = str(self.least_nodes)
        return variables

    @property
    def statements(self) -> tuple[iam.PolicyStatement, ...]:
        """The guard's permissions on the stop object; empty without one."""
        if self.place is None:
            return ()
        actions = ["s3:GetObject", "s3:PutObject"]
        return (iam.PolicyStatement(sid="WriteStopMessage", actions=actions, resources=[self.place.arn]),)


def plain_usd(usd: Decimal) -> str:
    """Dollars in a plan's notation, without trailing zeros.

    >>> plain_usd(Decimal("500.00")), plain_usd(Decimal("12.5"))
    ('500', '12.5')
    """
    return format(usd.normalize(), "f")


def stop_place(plan: Plan, store_uri: str, store: StoreAccess) -> StopPlace | None:
    """The stop object that a cluster's guard writes; None if the plan has no limit or no job.

    Neither a recreated stack of the same name nor a raised limit finds an earlier stop object: the key has the stack's
    unique id and the limit.
    """
    usd = stops_at(plan.request, plan.place.option)
    if usd is None or plan.request.workload.train is None:
        return None
    stack = Fn.select(2, Fn.split("/", Aws.STACK_ID))
    key = f"{BUDGET_FOLDER}/{stack}/{plain_usd(usd)}.json"
    return StopPlace(uri=f"{store_uri.rstrip('/')}/{key}", arn=store.objects(BUDGET_FOLDER))


def budget_stop(plan: Plan, limits: Limits, place: StopPlace | None) -> BudgetStop | None:
    """The guard's settings for a plan's spending limit; None if the plan has no limit.

    Raises:
        ValueError: the plan has a job but no stop object: the job would end without saving.
    """
    usd = stops_at(plan.request, plan.place.option)
    serve = plan.request.workload.serve
    if usd is None:
        return None
    if plan.request.workload.train is not None and place is None:
        message = f"nothing notifies the job of {plan.name} to save before its nodes end"
        raise ValueError(message)
    return BudgetStop(
        usd=usd,
        settle_minutes=settle_minutes(plan.request),
        reserve_minutes=reserve_minutes(plan.request),
        nodes=plan.place.nodes,
        other_usd_per_hour=limits.other_usd_per_hour,
        place=place,
        to_zero=serve is not None and serve.min_instances == 0,
        least_nodes=0 if serve is None else least_instances(serve),
    )
