"""Resources that a Kubernetes cluster's controllers created in the account, and that remain after the cluster.

Slipway identifies each by its tags: load balancers of Services (cloud-provider-aws) and of the AWS Load Balancer
Controller, volumes of the EBS CSI driver, free interfaces of the VPC CNI, and security groups of load balancers.
"""

from collections.abc import Iterator

from launcher.aws.calls import items
from launcher.aws.load_balancers import OWNED, load_balancers
from launcher.aws.session import Session, translate_errors
from launcher.model.removal import Created, RetainedKind

INTERFACES = "cluster.k8s.amazonaws.com/name"
"""The tag of the VPC CNI, whose value is the cluster's name."""
_OF_EKS = "eks-cluster-sg-"
"""Prefix of the security group that EKS creates and deletes itself."""


def created_by_cluster(session: Session, cluster: str) -> tuple[Created, ...]:
    """All existing resources, load balancers first, because they own the security groups and interfaces."""
    subject = f"look for what {cluster} has made in the account"
    with translate_errors(subject):
        return (*load_balancers(session, cluster, subject), *_in_ec2(session, cluster, subject))


def _in_ec2(session: Session, cluster: str, subject: str) -> Iterator[Created]:
    client, owned = session.client("ec2"), [{"Name": "tag-key", "Values": [OWNED.format(cluster)]}]
    for volume in items(client.describe_volumes, subject, "Volumes", Filters=owned):
        name = volume["VolumeId"]
        command = f"aws ec2 delete-volume --volume-id {name}"
        gib, kind = float(volume["Size"]), volume["VolumeType"]
        yield Created(kind=RetainedKind.VOLUME, name=name, command=command, gib=gib, volume_type=kind)
    free = [{"Name": f"tag:{INTERFACES}", "Values": [cluster]}, {"Name": "status", "Values": ["available"]}]
    for interface in items(client.describe_network_interfaces, subject, "NetworkInterfaces", Filters=free):
        name = interface["NetworkInterfaceId"]
        command = f"aws ec2 delete-network-interface --network-interface-id {name}"
        yield Created(kind=RetainedKind.INTERFACE, name=name, command=command)
    for group in items(client.describe_security_groups, subject, "SecurityGroups", Filters=owned):
        if not group["GroupName"].startswith(_OF_EKS):
            name = group["GroupId"]
            command = f"aws ec2 delete-security-group --group-id {name}"
            yield Created(kind=RetainedKind.GROUP, name=name, command=command)
