"""EKS: versions, names and sizes that the templates, the checks and the bill share."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from launcher.model.enums import EfaLayout, PurchaseOption
from launcher.model.instance_type import InstanceType

VERSION = "1.35"
"""Version of Kubernetes: in standard support, and supported by every HyperPod add-on (1.31 to 1.36)."""
ADDONS = (
    ("vpc-cni", "v1.21.1-eksbuild.8"),
    ("kube-proxy", "v1.35.3-eksbuild.5"),
    ("eks-pod-identity-agent", "v1.3.10-eksbuild.3"),
    ("eks-node-monitoring-agent", "v1.6.4-eksbuild.1"),
    ("coredns", "v1.14.2-eksbuild.4"),
)
"""Add-ons with the versions seen on one cluster of 1.35, in 2026-08; the last one needs nodes to run on."""
CERTIFICATES, OPERATOR, GOVERNANCE = (
    ("cert-manager", "v1.20.2-eksbuild.3"),
    ("amazon-sagemaker-hyperpod-training-operator", "v1.3.0-eksbuild.1"),
    ("amazon-sagemaker-hyperpod-taskgovernance", "v1.6.1-eksbuild.1"),
)
"""Additional add-ons of HyperPod's clusters: the operator needs certificates; Kueue is part of task governance.

Seen in one account in 2026-10, for 1.31 to 1.36, and certificates with the versions above.
"""
ONE_REPLICA: Mapping[str, Mapping[str, Any]] = {
    "coredns": {"replicaCount": 1},
    CERTIFICATES[0]: {"replicaCount": 1, "webhook": {"replicaCount": 1}, "cainjector": {"replicaCount": 1}},
}
"""Add-on settings if one HyperPod instance holds a cluster's own pods (as awsome-distributed-ai@95b939c sets those of
certificates, hyperpod_cluster/cert_manager.tf): a replica without room leaves its add-on DEGRADED."""
PODS_PER_NODE = {"m6i.xlarge": 14, "m6i.2xlarge": 14, "m6i.4xlarge": 29}
"""Maximum pods of HyperPod's kubelet on a system instance: the addresses of one interface minus its own (EC2 user
guide, addresses per interface; HyperPod uses one, awslabs/ai-on-sagemaker-hyperpod#142, 2026-09)."""
SYSTEM_PODS = {
    "vpc-cni": 1,
    "kube-proxy": 1,
    "eks-pod-identity-agent": 1,
    "coredns": 1,
    CERTIFICATES[0]: 3,
    OPERATOR[0]: 1,
    GOVERNANCE[0]: 1,
}
"""Pods of each add-on on HyperPod's system instance, with ONE_REPLICA."""
CHART_PODS = 1
"""Pods of HyperPod's chart (sagemaker-hyperpod-cli@011ca92): Kubeflow's training operator."""
NODE_MONITOR = "eks-node-monitoring-agent"
NEEDS_NODES = frozenset({"coredns", NODE_MONITOR, CERTIFICATES[0], OPERATOR[0], GOVERNANCE[0]})
OPERATOR_NAMESPACE, OPERATOR_ACCOUNT = "aws-hyperpod", "hp-training-operator-controller-manager"
"""Namespace and service account of HyperPod's training operator (developer guide, training operator)."""
SYSTEM, WORKERS = "system", "workers"
"""The node groups: one instance for the cluster's own pods, and the nodes of the jobs."""
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
NAMESPACES = ("slipway", "hyperpod-slipway")
"""Namespaces of jobs, in clusters that Slipway created."""
NVIDIA, NEURON, STANDARD = "AL2023_x86_64_NVIDIA", "AL2023_x86_64_NEURON", "AL2023_x86_64_STANDARD"
"""EKS's image types by their drivers (API reference, Nodegroup.amiType)."""
CAPACITY_TYPES = {
    PurchaseOption.ON_DEMAND: "ON_DEMAND",
    PurchaseOption.SPOT: "SPOT",
    PurchaseOption.CAPACITY_BLOCK: "CAPACITY_BLOCK",
    # A commitment changes the bill, not the launch.
    PurchaseOption.SAVINGS_PLAN: "ON_DEMAND",
    PurchaseOption.RESERVED: "ON_DEMAND",
}
PRIORITIES = (("inference", 90), ("experimentation", 80), ("training", 70), ("fine-tuning", 50))
"""The priority classes of a governed cluster's jobs and their weights, from AWS's own example.

awslabs/awsome-distributed-ai, task governance, README.
"""
UNSUPPORTED_ZONES = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones in which EKS places no control plane (EKS user guide, VPC and subnet requirements)."""


class Interface(NamedTuple):
    """A network interface of a node: its card, its device index on the card, and EC2's name of its kind."""

    card: int
    device: int
    kind: str


def image_type(facts: InstanceType) -> str:
    """The EKS image type for an instance type."""
    if facts.neuron:
        return NEURON
    return STANDARD if facts.accelerator is None else NVIDIA


def interfaces(facts: InstanceType, layout: EfaLayout) -> tuple[Interface, ...]:
    """Every network interface of a type with EFA; empty for a type without EFA, which gets EC2's default interface.

    As ParallelCluster lays them out (3.16.1, templates/queues_stack.py): an ordinary interface on the first card, plus
    an EFA-only one if each card has EFA, and an EFA-only one on every other card. Classic: on every card that has EFA
    one interface with both, each with an address.

    EC2 accepts device indexes 0 and 1 on the other cards, if the card may have two interfaces. 1: ParallelCluster of
    every family, Karpenter (1d927085, launchtemplate.go), eksctl (99984adb, network_interfaces.go), aws-k8s-tester
    (#531, tried on P4, P5 and TRN1), and EC2's guide (efa-acc-inst-types) until 2025. 0: the same page of 2026, and
    awsome-distributed-ai 95b939cd on P5 and P6-B200 (3.aws-batch) and on P6-B300 (add-cng-p6-b300.yaml).

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> [len(interfaces(types[each], EfaLayout.AUTO)) for each in ("p5.48xlarge", "p6-b300.48xlarge", "p5.4xlarge")]
    [33, 17, 2]
    >>> interfaces(types["p4d.24xlarge"], EfaLayout.CLASSIC)[1]
    Interface(card=1, device=1, kind='efa')
    """
    if not facts.efa_interfaces:
        return ()
    cards, everywhere = facts.network_cards, facts.efa_interfaces == facts.network_cards
    others = tuple(
        (card, 1 if card >= len(facts.enis_per_card) or facts.enis_per_card[card] > 1 else 0)
        for card in range(1, cards)
    )
    if layout is EfaLayout.CLASSIC:
        first = Interface(0, 0, "efa" if everywhere else "interface")
        return (first, *(Interface(card, device, "efa") for card, device in others))
    second = (Interface(0, 1, "efa-only"),) if everywhere else ()
    return (Interface(0, 0, "interface"), *second, *(Interface(card, device, "efa-only") for card, device in others))


def hyperpod_addons(*, governed: bool) -> tuple[tuple[str, str], ...]:
    """Add-ons of a HyperPod cluster's control plane, with versions: HyperPod itself monitors its nodes.

    >>> [name for name, _ in hyperpod_addons(governed=True)][-1]
    'amazon-sagemaker-hyperpod-taskgovernance'
    """
    addons = tuple(addon for addon in ADDONS if addon[0] != NODE_MONITOR)
    return (*addons, CERTIFICATES, OPERATOR, *((GOVERNANCE,) if governed else ()))


def priority_class(name: str) -> str:
    """The Kubernetes name of task governance's class for a priority."""
    return f"{name}-priority"
