"""The quota that a plan's own stacks already use: a second launch does not need it again."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.aws import hyperpod, stacks
from launcher.aws.instances import RunningInstance, cluster_instances
from launcher.catalog.quotas import QuotaName, quota_of
from launcher.model.enums import PurchaseOption
from launcher.model.hyperpod import ml_name
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.quotas import network_needs, node_needs, storage_needs
from launcher.rendering.names import stack_name
from launcher.targets.registry import target_of
from launcher.workflow.doctor.examination import Subject

_OPTIONS = {"spot": PurchaseOption.SPOT, "capacity-block": PurchaseOption.CAPACITY_BLOCK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Running resources: EC2 instances, SageMaker instances by type, and whether network and cluster exist."""

    instances: tuple[RunningInstance, ...] = ()
    sagemaker_instances: Mapping[str, int] | None = None
    network: bool = False
    cluster: bool = False

    def in_reservation(self, identifier: str) -> int:
        """The number of instances in a capacity reservation."""
        return sum(instance.reservation == identifier for instance in self.instances)

    def quota_usage(
        self, plan: Plan, types: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]
    ) -> Mapping[str, int]:
        """The used amount of each quota that a plan needs, by the quota's name."""
        used: Counter[str] = Counter()
        for instance in self.instances:
            facts = types.get(instance.instance_type)
            option = _OPTIONS.get(instance.lifecycle, PurchaseOption.ON_DEMAND)
            key = quota_of(quotas, facts.family, option) if facts is not None else None
            if facts is not None and key is not None:
                used[quotas[key].name] += facts.vcpus
        spot = plan.place.option is PurchaseOption.SPOT
        for name, count in (self.sagemaker_instances or {}).items():
            is_spot = spot and name == ml_name(plan.place.instance_type)
            used[quotas["hyperpod/spot" if is_spot else "hyperpod/on-demand"].of(name)] += count
            used[quotas["hyperpod/instances"].name] += count
            if is_spot:
                used[quotas["hyperpod/spot-instances"].name] += count
        created = network_needs(plan, types, quotas) if self.network else ()
        if self.cluster:
            created = (*created, *storage_needs(plan, quotas))
            used.update({quotas[key].name: 1 for key in target_of(plan.place.target).quotas})
        used.update({need.name: need.amount for need in created})
        share = min(1.0, self._nodes_of(plan) / plan.place.nodes)
        used.update({need.name: math.ceil(need.amount * share) for need in node_needs(plan, types, quotas)})
        return used

    def _nodes_of(self, plan: Plan) -> int:
        """The running instances of the plan's type."""
        name = plan.place.instance_type
        own = sum(instance.instance_type == name for instance in self.instances)
        return own + (self.sagemaker_instances or {}).get(ml_name(name), 0)


def holdings_of_plan(subject: Subject, plan: Plan) -> Holdings:
    """The resources of a plan's stacks."""
    session = subject.session("cloudformation", "ec2", "sagemaker")
    network = stacks.find(session, stack_name(plan, "network")) is not None
    if stacks.find(session, stack_name(plan, "training")) is None:
        return Holdings(network=network)
    target = target_of(plan.place.target)
    if target.in_service_network:
        return Holdings(network=network)
    if target.instance_tags is None:
        counts = hyperpod.instance_counts(session, f"slipway-{plan.cluster_name}")
        return Holdings(sagemaker_instances=counts, network=network, cluster=True)
    tags = target.instance_tags
    instances = cluster_instances(session, tags.cluster, f"{tags.prefix}{plan.cluster_name}")
    return Holdings(instances=instances, network=network, cluster=True)
