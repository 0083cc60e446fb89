"""An EKS cluster and its node groups against the plan."""

from launcher.aws import node_groups
from launcher.model import eks
from launcher.model.hyperpod import is_prepaid
from launcher.workflow.deploy.readback.reading import Reading

ACTIVE = "ACTIVE"


def cluster(reading: Reading) -> None:
    """The control plane: its state, its version, and who reaches it."""
    checks, plan = reading.checks, reading.plan
    state = node_groups.describe_cluster(reading.session, reading.main.outputs["ClusterName"])
    checks.equal("EKS cluster", ACTIVE, state.status)
    checks.equal("Kubernetes", eks.VERSION, state.version)
    checks.equal("its API is public", bool(plan.request.network.api_cidrs), state.public)


def groups(reading: Reading) -> None:
    """The node groups: how many nodes, bought how, with which image; a guard may have set the jobs' to none."""
    checks, plan, name = reading.checks, reading.plan, reading.main.outputs["ClusterName"]
    system = node_groups.describe_group(reading.session, name, eks.SYSTEM)
    checks.equal("system node group", (ACTIVE, 1, 1), (system.status, system.minimum, system.maximum))
    state = node_groups.describe_group(reading.session, name, eks.WORKERS)
    least = plan.place.nodes if is_prepaid(plan.place.option) else 0
    checks.equal("node group", ACTIVE, state.status)
    checks.equal("nodes", (least, plan.place.nodes), (state.minimum, state.maximum))
    checks.equal("bought as", eks.CAPACITY_TYPES[plan.place.option], state.capacity_type)
