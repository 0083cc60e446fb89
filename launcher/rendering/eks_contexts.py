"""What the templates of an EKS cluster are written over, and what its stack is built from: one frozen type each."""

from dataclasses import dataclass

from launcher.model.eks import Interface
from launcher.rendering.contexts import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupContext:
    """A managed node group.

    `capacity_type` is EKS's word (ON_DEMAND, SPOT, CAPACITY_BLOCK); `reservation_id` a capacity reservation or None.
    `volume_key_arn` encrypts its root volumes, None leaves them to EBS's default key; `group_ids` are security groups
    that exist, beside the cluster's own. `minimum` and `count` are the least and the most of its nodes, which are all
    up from the start. `local_storage` says that NVMe disks are made one volume for pods' folders. `repair` has EKS
    replace nodes that are faulty.
    """

    name: str
    instance_type: str
    ami_type: str
    capacity_type: str
    minimum: int
    count: int
    volume_gib: int
    volume_key_arn: str | None
    group_ids: tuple[str, ...]
    interfaces: tuple[Interface, ...]
    placement_group: bool
    reservation_id: str | None
    local_storage: bool
    repair: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EksContext:
    """An EKS cluster (templates/eks/cluster.yaml.j2). `addons` are versions by name; `public_cidrs` may reach its API.

    Without any the API is private.
    """

    name: str
    version: str
    public_cidrs: tuple[str, ...]
    log_types: tuple[str, ...]
    addons: tuple[Tag, ...]
    groups: tuple[NodeGroupContext, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsContext:
    """What shows chips and interfaces to Kubernetes (templates/kubernetes/plugins.yaml.j2, device-plugin.yaml.j2).

    `nvidia_plugin`, `efa_plugin` and `device_plugin` (Neuron's) are images, None where no node needs one;
    `instance_types` are the nodes with NVIDIA's chips or EFA, `neuron_types` those with Neuron's.
    """

    resource: str
    nvidia_plugin: str | None
    efa_plugin: str | None
    device_plugin: str | None
    instance_types: tuple[str, ...]
    neuron_types: tuple[str, ...]
