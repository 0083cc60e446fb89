"""A training pod: its resources and its settings. There is one pod for each node, with all of its chips and EFA."""

import json
import math
from collections.abc import Iterator

from launcher.catalog.training_images import training_image
from launcher.model.enums import Operator
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.tags import Tag
from launcher.rendering.batch import JobSettings
from launcher.rendering.names import ClusterNames, checkpoint_uri, compile_cache_uri, journal_uri
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.rendering.node import is_nvidia
from launcher.targets.registry import billed_name, target_of

ROOT = "/slipway"
"""The pod's own folder, deleted with it: the job folder, checkpoints before upload, restored files."""
HOST_SHARE = 0.75
"""Of a node's processors and memory that a pod requests; the kubelet, plugins and huge pages get the rest."""
SHM_SHARE = 0.25
"""Of a node's memory, the limit of /dev/shm: data loaders and NCCL use it, and Docker's 64 MiB are too few."""
HUGE_PAGES_MIB = 5120
"""MiB of 2 MiB pages for libfabric; EKS's accelerated images reserve 5,128 pages (EKS user guide, machine learning with
EFA)."""
_HANDED_ON = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
ELASTIC_AGENT_ENVIRONMENT = {"TORCHELASTIC_SIGNALS_TO_HANDLE": _HANDED_ON, "PET_TEE": "0:1"}
"""hyperpodrun has no option for these signals, and an unhandled SIGUSR1 ends it before its trainers receive it. The
rules of logMonitoringConfiguration read the standard output of local rank 0 from a file, which hyperpodrun writes only
with --tee or --redirects (hyperpod-elastic-agent 1.1.3, driven over HTTP by
tests/sandbox/kubernetes/test_elastic_agent.py; developer guide, sagemaker-eks-operator-usage, has `--tee=3`)."""
TO_THE_STORE_S = 30
"""Seconds for the agent's final work, in addition to the grace time and the time to store a checkpoint."""
NEAREST = "topology.k8s.aws/network-node-layer-3"
"""The lowest EC2 network level that EKS uses as a node label: nodes with the same value are nearest to each other."""
NEURON = "aws.amazon.com/neuron"
"""The resource name of chips in Neuron's device plugin."""
NO_HUGE_PAGES = "FI_EFA_USE_HUGE_PAGE"
"""The variable whose value 0 stops libfabric from using huge pages."""
HEALTHY = Tag(key="sagemaker.amazonaws.com/node-health-status", value="Schedulable")
"""HyperPod's label for a node that passed its health checks (sagemaker-hyperpod-cli@011ca92, its job templates)."""


def resource_name(facts: InstanceType) -> str | None:
    """The device plugin's resource name for the chips of a type's nodes; None if the type has none."""
    if facts.neuron:
        return NEURON
    return "nvidia.com/gpu" if is_nvidia(facts) else None


def image_of(plan: Plan, facts: InstanceType) -> str | None:
    """The plan's image, or AWS's image for the chip and its software; None if none is known."""
    return plan.request.run.image or training_image(facts, plan.place.region)


def cpus_of(facts: InstanceType) -> int:
    """Processors that a pod requests.

    >>> from launcher.catalog.load import load
    >>> cpus_of(load().instance_types["p5.48xlarge"])
    144
    """
    return max(1, int(facts.vcpus * HOST_SHARE))


def memory_gib_of(facts: InstanceType) -> int:
    """GiB of memory that a pod requests, excluding huge pages."""
    pages = HUGE_PAGES_MIB / 1024 if facts.efa_interfaces else 0.0
    return max(1, int((facts.memory_gib - pages) * HOST_SHARE))


def huge_pages_mib(facts: InstanceType) -> int:
    """MiB of huge pages that a pod requests: 0 if libfabric is configured to use none."""
    return HUGE_PAGES_MIB if facts.efa_interfaces and not is_nvidia(facts) else 0


def shared_memory_gib_of(facts: InstanceType) -> int:
    """The limit of /dev/shm in GiB."""
    return max(1, int(facts.memory_gib * SHM_SHARE))


def grace_s(plan: Plan, job: JobSettings) -> int:
    """Seconds from a pod's SIGTERM until it is killed: the plan's grace time, and the time to store a checkpoint.

    Spot gives only a two-minute notice: a checkpoint that needs longer is lost with the node, and the job resumes from
    the last complete one.
    """
    return math.ceil(plan.request.checkpoint.grace_seconds + job.checkpoint_write_s) + TO_THE_STORE_S


def selector(plan: Plan, facts: InstanceType) -> tuple[Tag, ...]:
    """The labels of the nodes on which a job runs; HyperPod nodes have the type name that SageMaker bills."""
    tags = [Tag(key="node.kubernetes.io/instance-type", value=billed_name(plan.place))]
    if plan.place.az_id is not None:
        tags.append(Tag(key="topology.k8s.aws/zone-id", value=plan.place.az_id))
    if target_of(plan.place.target).is_managed and facts.accelerator is not None:
        tags.append(HEALTHY)
    return tuple(tags)


def toleration_keys(facts: InstanceType) -> tuple[str, ...]:
    """Taints that a pod tolerates: nodes with chips or EFA may be reserved for pods that request them."""
    resource = resource_name(facts)
    resources = () if resource is None else (resource,)
    return (*resources, "vpc.amazonaws.com/efa") if facts.efa_interfaces else resources


def topology(plan: Plan, facts: InstanceType) -> str | None:
    """The network level that pods of several nodes should share; None for a single node or without EFA."""
    return NEAREST if plan.place.nodes > 1 and facts.efa_interfaces else None


def claims(plan: Plan) -> list[tuple[str, str, str]]:
    """The volumes that a plan names."""
    volumes = enumerate(plan.request.run.volumes)
    return [(f"volume-{number}", volume.claim, volume.path) for number, volume in volumes]


def volume_variable(number: int) -> str:
    """The variable with the path of a volume in a pod: a sandbox uses another folder instead."""
    return f"SLIPWAY_VOLUME_{number}"


def by_volume(plan: Plan, path: str) -> str:
    """A path with the variable of its volume; unchanged if it is on no volume."""
    for number, volume in enumerate(plan.request.run.volumes):
        if f"{path}/".startswith(f"{volume.path}/"):
            return f"${{{volume_variable(number)}}}{path[len(volume.path) :]}"
    return path


def environment(
    plan: Plan, facts: InstanceType, names: ClusterNames, *, job: JobSettings, operator: str, leader: str
) -> dict[str, str]:
    """The environment of a pod's first process, and thus of the command.

    `operator`: a value of `run.operator`; `leader`: host name of the first pod of a Job.
    """
    variables = {
        "AWS_REGION": plan.place.region,
        "SLIPWAY_ROOT": ROOT,
        "SLIPWAY_RUN_KEY": job.run,
        "SLIPWAY_RETRIES": str(job.retries_of(plan.request.run)),
        "SLIPWAY_JOURNAL": journal_uri(checkpoint_uri(plan, names), job.run),
        "SLIPWAY_OPERATOR": operator,
        "SLIPWAY_PARTS": str(plan.place.nodes),
        "SLIPWAY_MEETING": leader,
        "SLIPWAY_EFA": str(facts.required_efa(plan.place.nodes)),
        **dict(_rendezvous(plan, facts)),
        **(ELASTIC_AGENT_ENVIRONMENT if operator == Operator.HYPERPOD_PYTORCHJOB else {}),
        **dict(_efa_variables(facts, names)),
    }
    variables |= {volume_variable(number): volume.path for number, volume in enumerate(plan.request.run.volumes)}
    if plan.request.run.secrets:
        variables["SLIPWAY_SECRETS"] = json.dumps(dict(plan.request.run.secrets), sort_keys=True)
    return variables


def _rendezvous(plan: Plan, facts: InstanceType) -> Iterator[tuple[str, str]]:
    """The settings of torchrun that its command line does not give."""
    yield "PET_NNODES", str(plan.place.nodes)
    if facts.training_workers:
        yield "PET_NPROC_PER_NODE", str(facts.training_workers)
        yield "SLIPWAY_WORKERS_PER_NODE", str(facts.training_workers)
    # The job begins again as a whole. A SIGUSR1 to the whole pod must not end torchrun.
    yield "PET_MAX_RESTARTS", "0"
    yield "PET_SIGNALS_TO_HANDLE", _HANDED_ON
    yield "PET_SHUTDOWN_TIMEOUT", str(max(1, math.ceil(plan.request.checkpoint.grace_seconds)))


def _efa_variables(facts: InstanceType, names: ClusterNames) -> Iterator[tuple[str, str]]:
    """The variables of EFA collectives (aws-ofi-nccl, doc/efa-env-var.md; Neuron documentation, multi-node set-up)."""
    if is_nvidia(facts):
        yield "SLIPWAY_CHIPS", "nvidia"
        # Huge pages make data loaders that fork run out of memory.
        yield NO_HUGE_PAGES, "0"
        yield "NCCL_SOCKET_IFNAME", "^docker,lo,veth"
        yield "NCCL_DEBUG", "INFO"
    elif facts.neuron:
        yield "SLIPWAY_CHIPS", "neuron"
        if facts.efa_interfaces:
            yield "FI_PROVIDER", "efa"
            yield "FI_EFA_USE_DEVICE_RDMA", "1"
        if keeps_compiled_programs(facts):
            yield "NEURON_COMPILE_CACHE_URL", compile_cache_uri(names)
