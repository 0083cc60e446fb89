"""Sizes that Slipway chooses when the plan leaves them open; the bill and the templates both use these."""

HEAD_NODES = ((16, "m6i.xlarge"), (64, "m6i.2xlarge"), (10_000, "m6i.4xlarge"))
"""Head node by the largest number of compute nodes it schedules. ParallelCluster's guidance is a type that grows with
the number of nodes and has network bandwidth for their shared home folder; the steps are this project's choice."""
SMALL_CLUSTER = 4
"""The largest number of nodes for which a target's own `smallest_head` is enough."""
LOGIN_NODE = "m6i.large"
NAT_INSTANCE = "m6i.large"
NAT_ROOT_GIB = 8
HEAD_ROOT_GIB = 100
"""Root volume of the head node, GiB; it holds the shared home folder and the job folders."""
COMPUTE_ROOT_GIB = 100
"""Root volume of a compute node, GiB: the ParallelCluster image and a container or two; checkpoints go to NVMe.
HyperPod's is as large, and the caller cannot choose its size (aws-samples/awsome-distributed-training#187)."""
IMAGE_GIB = 30.0
"""A container image for training or serving, unpacked."""
SYSTEM_GIB = 45
"""GiB of the root volume that an image with drivers uses, assumed for every target: ParallelCluster's image size."""
LOGIN_ROOT_GIB = 45
"""Root volume of a login node, GiB, for which the configuration has no setting: that of ParallelCluster's own image
(aws-parallelcluster 3.16.1, constants.EBS_ROOT_VOLUME_SIZE_DEFAULT)."""
LOG_RETENTION_DAYS = 30


def head_node(nodes: int, chosen: str | None, smallest: str | None = None) -> str:
    """The head node's instance type for a number of compute nodes, or the one that the plan names.

    `smallest` is the type for a small cluster, None for targets that have none.

    >>> head_node(1, None), head_node(64, None), head_node(65, None), head_node(1, "c6i.large")
    ('m6i.xlarge', 'm6i.2xlarge', 'm6i.4xlarge', 'c6i.large')
    >>> head_node(4, None, "m6i.large"), head_node(5, None, "m6i.large")
    ('m6i.large', 'm6i.xlarge')
    """
    if chosen is not None:
        return chosen
    if smallest is not None and nodes <= SMALL_CLUSTER:
        return smallest
    return next(name for most, name in HEAD_NODES if nodes <= most)
