"""Tags of resources on AWS, and the keys of those that Slipway gives them."""

from launcher.model.record import record

CLUSTER_TAG = "slipway:cluster"
"""On everything a cluster's stacks deploy; it survives changes of the plan."""
NETWORK_TAG = "slipway:network"
"""On everything of a network that clusters share, in place of the cluster's tag."""
PLAN_TAG, DIGEST_TAG = "slipway:plan", "slipway:digest"
"""The plan that deployed a resource: its name and its digest."""
RUN_TAG = "slipway:run"
"""On a SageMaker training job: its submission; on an EC2 instance of one job: the name of the job."""
PURPOSE_TAG = "slipway:machine"
"""On an instance of PCS or of one job: "node" or "login"; the guard stops only nodes (templates/guard/pcs.py)."""


@record(described=False)
class Tag:
    """A tag."""

    key: str
    value: str
