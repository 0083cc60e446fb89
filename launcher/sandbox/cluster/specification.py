"""A cluster as the sandbox runs it, and the facts about the AWS around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class ClusterFailedError(Exception):
    """A cluster that cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFacts:
    """EC2's facts about an instance type."""

    vcpus: int
    memory_mib: int
    gpus: int
    efa: bool
    network_cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedSubnet:
    """EC2's facts about a subnet."""

    zone: str
    gives_public_addresses: bool
    zone_id: str = ""


class AwsFacts(Protocol):
    """The facts about the AWS in which a cluster would be created."""

    @property
    def region(self) -> str:
        """The region's name."""

    def instance_type(self, name: str) -> TypeFacts | None:
        """The facts about a type; None if EC2 does not have the type."""

    def subnet(self, subnet_id: str) -> EmulatedSubnet | None:
        """The facts about a subnet; None if no subnet has that id."""

    def admits_itself(self, group_id: str) -> bool | None:
        """Whether a security group allows all traffic to and from itself; None if no group has that id."""

    def has_object(self, bucket: str, key: str | None) -> bool:
        """Whether a bucket exists and, if a key is given, contains that object."""

    def profile_role(self, arn: str) -> str | None:
        """The ARN of the role of an instance profile; None if the profile does not exist."""

    def template(self, template_id: str, version: str) -> tuple[Mapping[str, Any], str] | None:
        """A version of a launch template with its user data decoded; None if it does not exist."""

    def digest(self, bucket: str, key: str) -> str | None:
        """The SHA-256 of an object; None if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """One compute resource of a queue, or a HyperPod group of workers: instances of the same kind.

    `own_names` are its nodes' names in Slurm if ParallelCluster does not name them; `reservation` is the id of the
    reservation in which they run, or empty.
    """

    queue: str
    name: str
    instance_type: str
    capacity_type: str
    min_count: int
    max_count: int
    subnet_id: str
    security_groups: tuple[str, ...]
    efa: bool
    placement_group: bool
    cpus: int
    memory_mib: int
    gpus: int
    settings: Mapping[str, str]
    own_names: tuple[str, ...] = ()
    reservation: str = ""

    def node_names(self) -> tuple[str, ...]:
        """Its own names; else ParallelCluster's: `queue-st-resource-1` for nodes always up, `-dy-` for the others."""
        if self.own_names:
            return self.own_names
        static = [f"{self.queue}-st-{self.name}-{number + 1}" for number in range(self.min_count)]
        dynamic = [f"{self.queue}-dy-{self.name}-{number + 1}" for number in range(self.max_count - self.min_count)]
        return (*static, *dynamic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Slurm partition."""

    name: str
    exclusive: bool
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster as the sandbox runs it. `left_out` names the other parts of its configuration."""

    name: str
    head_instance_type: str
    head_subnet_id: str
    head_security_groups: tuple[str, ...]
    queues: tuple[Queue, ...]
    groups: tuple[NodeGroup, ...]
    settings: tuple[tuple[str, str], ...]
    tags: Mapping[str, str]
    left_out: tuple[str, ...]


class InstanceFleet(Protocol):
    """The instances of one cluster, in any service."""

    @property
    def region(self) -> str:
        """The region's name."""

    @property
    def replaces_down(self) -> bool:
        """Whether its service replaces the instances of nodes that a user has marked as down in Slurm."""

    def subnet(self, subnet_id: str) -> EmulatedSubnet | None:
        """The facts about a subnet; None if no subnet has that id."""

    def run_head_node(self, spec: ClusterSpec) -> str:
        """Start the instance of Slurm's controller; return its id."""

    def run_node(self, spec: ClusterSpec, group: NodeGroup, name: str) -> str:
        """Start a compute node; return the id of its instance."""

    def terminate(self, instance_id: str, reason: str) -> None:
        """Terminate an instance, with EC2's code for the reason."""
