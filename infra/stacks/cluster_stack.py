"""The common base of all cluster stacks: their inputs, their network, and their guardrails."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from constructs import Construct

from infra.cluster_network import ClusterNetwork, cluster_network
from infra.parts.block_end import announce_block
from infra.parts.budget_stop import stop_place
from infra.parts.dashboard import cluster_dashboard
from infra.parts.guard_folder import guard_folder
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails, guardrail_text
from infra.parts.limits import Limits
from infra.parts.outputs import add_output
from infra.parts.session_log import SessionLog
from infra.stacks.plan_stack import PlanStack
from launcher.catalog.load import Catalog
from launcher.model.plan import Plan


class ClusterStack(PlanStack):
    """A cluster and the resources that belong to it alone; network and checkpoints come from outside.

    Attributes:
        KIND: the cluster's name in the console.
        session_log: the log of shells on the cluster's nodes; None if the plan retains no log.
    """

    KIND: ClassVar[str]
    session_log: SessionLog | None

    def __init__(
        self,
        scope: Construct,
        *,
        plan: Plan,
        account: str | None,
        tags: Mapping[str, str],
        catalog: Catalog,
        network: ClusterNetwork,
        limits: Limits,
    ) -> None:
        """Create a plan's cluster."""
        about = f"Slipway: {self.KIND} {plan.cluster_name}, {plan.place.nodes} x {plan.place.instance_type}"
        super().__init__(scope, "training", plan=plan, account=account, tags=tags, description=about)
        self._plan, self._plan_tags, self._limits = plan, tags, limits
        self._catalog, self._network = catalog, network
        self._make()

    def _make(self) -> None:
        raise NotImplementedError

    def _watch(
        self,
        rights: Rights,
        widgets: Sequence[Mapping[str, Any]],
        announce: Callable[[Plan, Guardrails], None] = announce_block,
    ) -> None:
        plan, network = self._plan, self._network
        guardrails = Guardrails(
            self,
            "Guardrails",
            plan=plan,
            limits=self._limits,
            rights=rights,
            announce=announce,
            stop=stop_place(plan, network.store_uri, network.store),
            folder=guard_folder(network.store_uri, network.store),
        )
        url = cluster_dashboard(self, "Overview", plan=plan, limits=self._limits, target_widgets=widgets)
        add_output(self, "NotifyTopicArn", guardrails.topic.ref)
        add_output(self, "DashboardUrl", url)
        add_output(self, "GuardrailSummary", "; ".join(guardrail_text(plan, self._limits)))


def add_cluster(
    kind: type[ClusterStack],
    scope: Construct,
    *,
    plan: Plan,
    catalog: Catalog,
    account: str | None,
    tags: Mapping[str, str],
    limits: Limits,
) -> None:
    """Add a plan's network, its checkpoints and its cluster, of one kind of stack, to an app or another construct."""
    network = cluster_network(scope, plan=plan, catalog=catalog, account=account, tags=tags)
    stack = kind(scope, plan=plan, account=account, tags=tags, catalog=catalog, network=network, limits=limits)
    if network.stack is not None:
        stack.add_stack_dependency(network.stack)
