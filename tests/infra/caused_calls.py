"""What services demand of the caller of one of their calls, on the resources of a plan's stack.

Sources: the PCS user guide (minimum permissions of UpdateComputeNodeGroup), the SageMaker developer guide (deletion of
a scaled endpoint) and the Application Auto Scaling user guide (permissions to SageMaker).
"""

from tests.infra.iam import ACCOUNT

PCS = {"CalledVia": ["pcs.amazonaws.com"]}


def caused(method, place, name, stack):
    """What a service demands of the caller of one of its calls."""
    if method == "update_compute_node_group":
        for action in (
            *("ec2:DescribeCapacityBlockStatus", "ec2:DescribeCapacityBlocks", "ec2:DescribeCapacityReservations"),
            *("ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings"),
            *("ec2:DescribeLaunchTemplates", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSecurityGroups"),
            *("ec2:DescribeSubnets", "ec2:DescribeVpcs"),
        ):
            yield action, "*", PCS
        yield "ec2:RunInstances", f"arn:aws:ec2:{place}:instance/*", PCS
        yield "ec2:CreateFleet", f"arn:aws:ec2:{place}:fleet/*", PCS
        yield "ec2:CreateTags", f"arn:aws:ec2:{place}:instance/*", {**PCS, "CreateAction": "RunInstances"}
        yield "iam:GetInstanceProfile", f"arn:aws:iam::{ACCOUNT}:instance-profile/aws-pcs/{name}-x", PCS
        (role,) = [key for key in stack.resources if key.startswith("ProfileRole")]
        yield "iam:PassRole", stack.arn(role), {"PassedToService": "ec2.amazonaws.com"}
    if method == "delete_endpoint":
        target = f"arn:aws:application-autoscaling:{place}:scalable-target/0ec5"
        yield "application-autoscaling:DeregisterScalableTarget", target, {"service-namespace": "sagemaker"}
    if method == "register_scalable_target":
        yield "sagemaker:DescribeEndpoint", f"arn:aws:sagemaker:{place}:endpoint/{name}", {}
        component = f"arn:aws:sagemaker:{place}:inference-component/{name}"
        yield "sagemaker:DescribeInferenceComponent", component, {}
        yield "sagemaker:UpdateInferenceComponentRuntimeConfig", component, {}
