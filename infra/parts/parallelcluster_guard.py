"""What the guardrails of a ParallelCluster have of their own: stopping its fleet, its head node, its Capacity Block."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name

_BLOCK_ENDS = ("Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning")
"""AWS's own documentation has both names for the event 40 minutes before a Capacity Block ends."""


def rights(plan: Plan, scope: Construct) -> Rights:
    """What the guard may do: look at the machines, and write the row of a table that the fleet's state is."""
    table = f"table/parallelcluster-{cluster_name(plan)}"
    stop = iam.PolicyStatement(
        sid="StopFleet",
        actions=["dynamodb:GetItem", "dynamodb:UpdateItem"],
        resources=[f"arn:{Aws.PARTITION}:dynamodb:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:{table}"],
        conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["COMPUTE_FLEET"]}},
    )
    return Rights(look=("cloudwatch:GetMetricData", "ec2:DescribeInstances"), stop=(stop,))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """What ParallelCluster and EC2 announce."""
    _head_node(plan, guardrails)
    reservation = plan.request.purchase.reservation
    if plan.place.option is PurchaseOption.CAPACITY_BLOCK and reservation is not None:
        _block(guardrails, reservation.id)


def _head_node(plan: Plan, guardrails: Guardrails) -> None:
    """ParallelCluster's alarm about its head node (health, CPU, memory, disk, its daemon), which tells nobody."""
    pattern = {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "detail": {"alarmName": [f"{cluster_name(plan)}-HeadNode"], "state": {"value": ["ALARM"]}},
    }
    guardrails.tell("HeadNode", "trouble on the head node", pattern)


def _block(guardrails: Guardrails, reservation_id: str) -> None:
    """The end of the Capacity Block, 40 minutes ahead; its nodes begin to go ten minutes later."""
    pattern = {
        "source": ["aws.ec2"],
        "detail-type": list(_BLOCK_ENDS),
        "detail": {"capacity-reservation-id": [reservation_id]},
    }
    guardrails.tell("BlockEnds", "the Capacity Block ends", pattern)
