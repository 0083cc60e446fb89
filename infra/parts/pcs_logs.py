"""Logs that PCS writes to CloudWatch: of Slurm's controller, of jobs that end, and of nodes that come, fail or go."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from aws_cdk import aws_pcs as pcs
from constructs import Construct

from launcher.model.sizing import LOG_RETENTION_DAYS

LOG_TYPES = ("PCS_SCHEDULER_LOGS", "PCS_JOBCOMP_LOGS", "PCS_SCALING_LOGS")


class PcsLogs(Construct):
    """A delivery for each kind (aws-hpc-recipes 009a29a, recipes/pcs/cloudwatch; PCS user guide, "Scaling logs")."""

    def __init__(self, scope: Construct, id_: str, *, cluster: pcs.CfnCluster, name: str) -> None:
        """Make the deliveries of a cluster; `name` is the cluster's, which theirs begin with."""
        super().__init__(scope, id_)
        for kind in LOG_TYPES:
            part = kind.removeprefix("PCS_").removesuffix("_LOGS").capitalize()
            # Below this prefix CloudWatch lets the service write without a policy of the account.
            group = logs.CfnLogGroup(
                self,
                f"{part}Log",
                log_group_name=f"/aws/vendedlogs/pcs/cluster/{kind}/{name}",
                retention_in_days=LOG_RETENTION_DAYS,
            )
            group.apply_removal_policy(RemovalPolicy.DESTROY)
            source = logs.CfnDeliverySource(
                self, f"{part}Source", name=f"{name}-{part.lower()}", log_type=kind, resource_arn=cluster.attr_arn
            )
            destination = logs.CfnDeliveryDestination(
                self,
                f"{part}Destination",
                name=f"{name}-{part.lower()}",
                destination_resource_arn=group.attr_arn,
            )
            delivery = logs.CfnDelivery(
                self,
                f"{part}Delivery",
                delivery_source_name=source.name,
                delivery_destination_arn=destination.attr_arn,
            )
            delivery.add_resource_dependency(source)
