"""A HyperPod cluster with EKS: its facts, and its rules for a new cluster and for jobs on an existing one."""

import re
from collections.abc import Iterator, Mapping

from launcher.catalog.facts import load_regions
from launcher.catalog.registry import missing_types, regions_with
from launcher.model.eks import PRIORITIES, priority_class
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.hyperpod import GOVERNANCE_TYPES, ml_name
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import team_queue
from launcher.model.monitoring import CHART_MEMORY_MB
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import SAGEMAKER, Guard, Locations, RoleUse
from launcher.targets.bases import CONTROL_PLANE, PODS, HyperPodTarget, PodTarget

_TEAM = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
"""A team's name: as in the registry (ComputeQuotaTarget), and short enough for its queue's name as a label."""
HEALTH_MONITOR_REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-south-2", "eu-west-1", "eu-west-2"),
    *("ap-northeast-1", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4"),
)
"""Regions with a health monitor image (sagemaker-hyperpod-cli@011ca92, health-monitoring-agent, _helpers.tpl)."""


class HyperPodEks(PodTarget, HyperPodTarget):
    """A HyperPod cluster with EKS: pods on nodes that HyperPod owns."""

    kind = TargetKind.HYPERPOD_EKS
    title = "a HyperPod cluster with EKS"
    short = "HPE"
    example = "hyperpod-eks/p5en-spot.yaml"
    guard = Guard(
        module="hyperpod_eks",
        variable="HYPERPOD_EKS",
        events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
        # EC2 does not list its instances: a function in the cluster's network counts the pods' requests.
        idle="workers without a pod that asks for chips",
        alone=True,
        trial_hours=(1.0, 2.0),
        # It writes the count and reads it back.
        metrics_per_call=2,
        own_metrics=1,
        counter_mb=CHART_MEMORY_MB,
    )
    spot_like_ec2 = True
    own_outputs = ("ClusterId", "AccessRoleArn")
    policies = ("network", "eks", "hyperpod")
    person = ("hyperpod-jobs", "nodes")
    roles = (
        RoleUse(
            key="nodes", service=SAGEMAKER, needs=("nodes-of-hyperpod", "pods-of-hyperpod", "images"), entered=True
        ),
        CONTROL_PLANE,
        PODS,
    )

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """The locations to try: SageMaker has one price per region, but spot one per zone, as EC2's."""
        return known if option is PurchaseOption.SPOT else super().locations(request, option, known)

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place accepts no job; empty if it accepts jobs."""
        rules = (
            _unused_keys(request),
            self._new_cluster(request, place, instances) if request.target.cluster is None else (),
            self.type_refusals(place, instances),
            self.capacity_refusals(request, place),
        )
        return tuple(finding for rule in rules for finding in rule)

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Unconfirmed behavior of a place, and costs that the user did not request."""
        cluster_findings = (
            () if request.target.cluster is not None else self._own_cluster_remarks(request, place, instances)
        )
        return (*_spot_remarks(place), *self.unknown_end(request, place), *cluster_findings)

    def _own_cluster_remarks(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> Iterator[Finding]:
        """Health checks of a new cluster before jobs, and its unconfirmed task governance."""
        yield from self.health_checks(place, instances)
        if request.target.queue is not None:
            message = (
                "Slipway has not yet set up task governance in an account: it is not confirmed that a quota of "
                "whole instances admits pods that request EFA interfaces and huge pages"
            )
            yield warning(
                "task-governance-unconfirmed",
                "target.queue",
                message,
                "without target.queue, jobs do not wait in a queue",
            )

    def _new_cluster(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> Iterator[Finding]:
        """Keys that a new cluster does not support, and keys that it requires."""
        from launcher.catalog.hyperpod_chart import chart_pins

        target, storage = request.target, request.storage
        given = (
            ("target.placement_group", target.placement_group, "HyperPod chooses the placement of its instances"),
            (
                "storage.lustre_gib",
                storage.lustre_gib,
                f"keep data in S3, or set target.kind to {TargetKind.HYPERPOD_SLURM}",
            ),
            ("storage.login_nodes", storage.login_nodes, "Slipway reaches its API from this computer"),
            ("storage.login_pool", storage.login_pool, "Slipway reaches its API from this computer"),
        )
        for path, value, hint in given:
            if value:
                yield error("eks-unused", path, f"pods in HyperPod do not use this key, got {value}", hint)
        yield from self._governance(request, place)
        if instances[place.instance_type].neuron and place.instance_type not in chart_pins().neuron_types:
            message = f"the Neuron device plugin of HyperPod's chart does not run on ml.{place.instance_type}"
            hint = f"use trn2.48xlarge, or target.kind {TargetKind.EKS}"
            yield error("no-device-plugin", "target.instance_type", message, hint)
        yield from self.head_refusals(request, place, instances, "the cluster's own pods")
        # No region: none sells the type.
        if place.region and place.region not in HEALTH_MONITOR_REGIONS:
            message = f"HyperPod's Helm chart has no health monitor for {place.region}"
            yield error("no-health-monitor", "target.region", message, f"one of {', '.join(HEALTH_MONITOR_REGIONS)}")
        yield from self.zone_refusals(request, place)

    def _governance(self, request: PlanRequest, place: Place) -> Iterator[Finding]:
        target, classes = request.target, tuple(priority_class(name) for name, _ in PRIORITIES)
        if target.queue is None:
            return
        team = team_queue(target.queue)
        if team is None or not _TEAM.fullmatch(team.team):
            message = f"the cluster that Slipway creates for the job has the queue of 1 team, got {target.queue}"
            hint = (
                "hyperpod-ns-TEAM-localqueue, TEAM of up to 40 lower-case letters, digits and hyphens; or set "
                "target.cluster to the cluster that has the queue"
            )
            yield error("no-team-queue", "target.queue", message, hint)
        if missing := missing_types(GOVERNANCE_TYPES, place.region):
            message = f"CloudFormation has no {missing[0]} in {place.region}, so it cannot set up task governance there"
            having = regions_with((*GOVERNANCE_TYPES, *self.registry_types), load_regions())
            hint = (
                f"one of {', '.join(having)}; or create the cluster without target.queue, set up task "
                "governance manually, and set target.cluster and target.queue in the next plan"
            )
            yield error("no-task-governance", "target.region", message, hint)
        if target.priority is not None and target.priority not in classes:
            message = f"the cluster that Slipway creates for the job has other priority classes, got {target.priority}"
            yield error("no-such-priority", "target.priority", message, f"one of {', '.join(classes)}")


def _spot_remarks(place: Place) -> tuple[Finding, ...]:
    if place.option is not PurchaseOption.SPOT:
        return ()
    message = (
        "AWS publishes no spot rate for HyperPod: the estimate scales EC2's spot rate of the zone by the "
        "ratio of the on-demand rates; the interruption notice is best effort"
    )
    key = f"{ml_name(place.instance_type)}/{place.option.value}/{place.target.value}"
    hint = f'purchase.price_overrides {{"{key}": "..."}} after the first bill'
    return (warning("hyperpod-spot-derived", "purchase.option", message, hint),)


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    """Keys that neither a new nor an existing cluster uses."""
    if request.target.ssh_host is not None:
        message = f"a Kubernetes cluster has no head node, got {request.target.ssh_host}"
        yield error("eks-unused", "target.ssh_host", message, "remove it and set target.context instead")
    if request.target.fallback_types:
        message = "a job uses one type of node"
        hint = "list the types in target.instance_type: each is a candidate"
        yield error("eks-unused", "target.fallback_types", message, hint)
