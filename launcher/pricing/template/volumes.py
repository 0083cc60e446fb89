"""EBS volumes of templates: their sizes and what is provisioned."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from launcher.pricing.template.parts import Item, Missing, Part, mapping, mappings, number, why_unknown
from launcher.pricing.template.values import Resource, Template

STORAGE = {kind: f"ebs.{kind}-storage" for kind in ("gp2", "gp3", "io1", "io2", "sc1", "st1", "standard")}
IOPS = {"gp3": "ebs.gp3-iops", "io1": "ebs.io1-iops", "io2": "ebs.io2-iops"}
THROUGHPUT = {"gp3": "ebs.gp3-throughput"}
ROOT = Missing(name="root volume", group="storage", reason="its size is that of the image: no block device is stated")
EKS_DISK_GIB = 20.0
"""The disk of a managed node group without a launch template (EKS API reference, CreateNodegroup.diskSize)."""


def volume(
    properties: Mapping[str, Any], name: str, *, size: str = "VolumeSize", kind: str = "VolumeType", default: str
) -> Iterator[Part]:
    """The parts of one volume.

    Args:
        properties: of the volume.
        name: in the estimate.
        size: the key of its size in GiB.
        kind: the key of its type.
        default: its type if none is stated.
    """
    gib, stated = number(properties.get(size)), properties.get(kind, default)
    if gib is None:
        yield Missing(name=name, group="storage", reason=why_unknown(properties.get(size), size))
        return
    if not isinstance(stated, str) or stated not in STORAGE:
        yield Missing(name=name, group="storage", reason=why_unknown(stated, kind))
        return
    yield Item(item=STORAGE[stated], name=f"{name}, {stated}", group="storage", each=gib)
    for key, items, what in (("Iops", IOPS, "IOPS"), ("Throughput", THROUGHPUT, "throughput")):
        amount = number(properties.get(key))
        if amount and stated in items:
            yield Item(item=items[stated], name=f"{what} of {name}", group="storage", each=amount)


def volumes(resource: Resource, _template: Template) -> Iterator[Part]:
    """A volume that is a resource."""
    yield from volume(resource.properties, "volume", size="Size", default="gp2")


def devices(block_devices: Any) -> Iterator[Part]:
    """The volumes of an instance's block devices; those of an unknown image are named."""
    stated = [mapping(device.get("Ebs")) for device in mappings(block_devices)]
    found = [ebs for ebs in stated if ebs]
    if not found:
        yield ROOT
    for ebs in found:
        # A device without a size has that of its snapshot.
        if "VolumeSize" not in ebs:
            yield replace(ROOT, name="volume of a snapshot", reason="its size is that of the snapshot")
            continue
        yield from volume(ebs, "volume", default="gp2")


def times(parts: Iterator[Part], count: float, most: float) -> Iterator[Part]:
    """The parts of one instance, for several instances."""
    for part in parts:
        yield replace(part, count=count, most=most) if isinstance(part, Item) else part
