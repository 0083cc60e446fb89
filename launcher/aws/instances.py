"""The instances of a cluster as EC2 describes them."""

from collections import Counter
from collections.abc import Mapping

from launcher.aws.session import Session, translated

CLUSTER_TAG = "parallelcluster:cluster-name"


def running(session: Session, cluster: str) -> Mapping[str, int]:
    """How many instances of each type a ParallelCluster runs or starts now, head and login nodes among them.

    Args:
        session: AWS.
        cluster: ParallelCluster's name of the cluster.

    Raises:
        AwsError: the call failed.
    """
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    with translated(f"describe the instances of {cluster}"):
        pages = session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return Counter(
            str(each["InstanceType"])
            for page in pages
            for reservation in page["Reservations"]
            for each in reservation["Instances"]
        )
