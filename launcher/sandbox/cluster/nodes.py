"""The nodes of a cluster: a folder, a metadata service and an instance each; a lost node is replaced by another one."""

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from launcher.sandbox.cluster.imds import MetadataService
from launcher.sandbox.cluster.specification import NodeGroup
from launcher.sandbox.keys import KeyRing
from launcher.sandbox.namespaces import node_address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state of a node for other components."""

    name: str
    partition: str
    instance_type: str
    capacity_type: str
    instance_id: str
    # The number of its instances so far, from 1.
    generation: int
    # The mark of the processes of the node's current instance.
    life: str
    # The local disk, deleted when the node is lost.
    scratch: str
    # The endpoint of its metadata service.
    metadata: str
    cpus: int


class Node:
    """A node and its current instance, if any."""

    def __init__(self, group: NodeGroup, name: str, folder: Path, region: str, keys: KeyRing) -> None:
        self.group = group
        self.name = name
        self.folder = folder
        self.instance_id = ""
        self.generation = 0
        self.life = ""
        self._region, self._keys = region, keys
        self._metadata: MetadataService | None = None

    @property
    def up(self) -> bool:
        """Whether the node has an instance."""
        return self._metadata is not None

    @property
    def scratch(self) -> Path:
        """The local disk of the node."""
        return self.folder / "scratch"

    @property
    def metadata(self) -> MetadataService:
        """The metadata service of the node.

        Raises:
            RuntimeError: the node is down.
        """
        if self._metadata is None:
            raise RuntimeError(f"node {self.name} is down")
        return self._metadata

    def boot(self, instance_id: str, zone: str) -> None:
        """Start the node as an instance, with an empty disk and a metadata service without a notice."""
        self.instance_id = instance_id
        self.generation += 1
        self.life = secrets.token_hex(8)
        self.scratch.mkdir(parents=True, mode=0o700)
        lifecycle = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}.get(self.group.capacity_type, "on-demand")
        facts = {
            "instance-id": instance_id,
            "instance-type": self.group.instance_type,
            "instance-life-cycle": lifecycle,
            "placement/region": self._region,
            "placement/availability-zone": zone,
            "local-ipv4": node_address(self.name),
            "local-hostname": self.name,
        }
        self._metadata = MetadataService(facts, self._keys)

    def fail(self) -> None:
        """Stop the node and delete its disk."""
        if self._metadata is not None:
            self._metadata.stop()
            self._metadata = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self) -> None:
        """Stop the node for good: no replacement is expected."""
        self.fail()
        self.life = ""

    def view(self) -> NodeState:
        """The current state of the node for other components."""
        return NodeState(
            name=self.name,
            partition=self.group.queue,
            instance_type=self.group.instance_type,
            capacity_type=self.group.capacity_type,
            instance_id=self.instance_id,
            generation=self.generation,
            life=self.life,
            scratch=str(self.scratch),
            metadata=self.metadata.endpoint if self._metadata is not None else "",
            cpus=self.group.cpus,
        )
