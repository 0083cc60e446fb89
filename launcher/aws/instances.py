"""The instances of a cluster as EC2 describes them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from launcher.aws.session import Session, translated

CLUSTER_TAG = "parallelcluster:cluster-name"


NODE_TAG = "parallelcluster:node-type"


def running(session: Session, cluster: str, kinds: Sequence[str] = ()) -> Mapping[str, int]:
    """How many instances of each type a ParallelCluster runs or starts now, head and login nodes among them.

    Args:
        session: AWS.
        cluster: ParallelCluster's name of the cluster.
        kinds: of "Compute", "HeadNode", "LoginNode"; none: all of them.

    Raises:
        AwsError: the call failed.
    """
    filters = [
        {"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    if kinds:
        filters.append({"Name": f"tag:{NODE_TAG}", "Values": list(kinds)})
    with translated(f"describe the instances of {cluster}"):
        pages = session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return Counter(
            str(each["InstanceType"])
            for page in pages
            for reservation in page["Reservations"]
            for each in reservation["Instances"]
        )
