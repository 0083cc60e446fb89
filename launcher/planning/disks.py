"""What a plan places on the disks of a node, and whether it fits: data, outputs, and the volume of a training job."""

import math
from collections.abc import Iterator

from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.sizing import COMPUTE_ROOT_GIB, IMAGE_GIB, SYSTEM_GIB
from launcher.model.units import GB_PER_GIB
from launcher.targets.registry import target_of

SCRATCH, SHARED = "/scratch", "/fsx"
"""Mount points of a node's NVMe disks and of the shared file system on clusters with Slurm."""
ROOT = "the root volume"
DISK_TOO_SMALL = "disk-too-small"
VOLUME_STEP_GIB = 10
MAX_VOLUME_GIB = 16_384
"""Largest volume of a training job (API reference, ResourceConfig)."""


def placed_gib(request: PlanRequest, nodes: int, below: str = "/", excluded: tuple[str, ...] = ()) -> float:
    """GiB of `run.data` that one node downloads to paths below a folder, and not below one of `excluded`."""

    def inside(path: str, folder: str) -> bool:
        return folder in ("/", path) or path.startswith(f"{folder}/")

    return sum(
        (source.gib or 0.0) / (nodes if source.shard else 1)
        for source in request.run.data
        if inside(source.path, below) and not any(inside(source.path, folder) for folder in excluded)
    )


def training_volume_gib(request: PlanRequest, nodes: int, facts: InstanceType) -> int:
    """The volume of an instance for one job, in GiB: without local disks it holds data and outputs, too."""
    if facts.nvme_gb:
        return COMPUTE_ROOT_GIB
    needed = COMPUTE_ROOT_GIB + placed_gib(request, nodes) + (request.run.outputs_gib or 0.0)
    return min(MAX_VOLUME_GIB, math.ceil(needed / VOLUME_STEP_GIB) * VOLUME_STEP_GIB)


def disk_findings(request: PlanRequest, place: Place, facts: InstanceType) -> Iterator[Finding]:
    """An error for each disk that the plan's own sizes exceed: the download would fail after it was paid."""
    if "nvme_gb" in facts.unknown or not request.run.data:
        return
    for disk, needed_gib, free_gib, path in _disks(request, place, facts):
        if needed_gib > free_gib:
            message = (
                f"run.data and run.outputs_gib place {needed_gib:,.0f} GiB on {disk} of a node of {facts.name},"
                f" which has {free_gib:,.0f} GiB free"
            )
            yield error(DISK_TOO_SMALL, path, message, _fix(request, place, facts, disk))


def _fix(request: PlanRequest, place: Place, facts: InstanceType, disk: str) -> str:
    """What makes room: another folder where the disk is the root volume, which no type makes larger."""
    less = "read less data, set shard: true, stream it from S3 in the command, or"
    if not disk.startswith(ROOT):
        return f"{less} use a type with larger disks"
    shared_gib = target_of(place.target).shared_gib(request.storage.lustre_gib)
    others = [f"{SCRATCH} (NVMe, {facts.nvme_gb / GB_PER_GIB:,.0f} GiB)"] if facts.nvme_gb else []
    others += [f"{SHARED} (shared, {shared_gib:,} GiB)"] if shared_gib else []
    return f"{less} set its path below {' or '.join(others)}" if others else f"{less} use a type with NVMe disks"


def _disks(request: PlanRequest, place: Place, facts: InstanceType) -> Iterator[tuple[str, float, float, str]]:
    """Each disk with the GiB that the plan places on it, its free GiB, and the plan's key."""
    target, nodes, outputs = target_of(place.target), place.nodes, request.run.outputs_gib or 0.0
    nvme_gib, root_gib = facts.nvme_gb / GB_PER_GIB, float(COMPUTE_ROOT_GIB - SYSTEM_GIB)
    path = "run.data[0].gib"
    if target.pods or target.per_job:
        volume = training_volume_gib(request, nodes, facts) if target.per_job else COMPUTE_ROOT_GIB
        name = "the NVMe disks" if nvme_gib else f"the volume of {volume:,} GiB"
        free = nvme_gib - IMAGE_GIB if nvme_gib else volume - (IMAGE_GIB if target.in_service_network else SYSTEM_GIB)
        mounted = tuple(mount.path for mount in request.run.volumes)
        yield name, placed_gib(request, nodes, excluded=mounted) + outputs, free, path
        return
    excluded = (SHARED, *((SCRATCH,) if nvme_gib else ()))
    yield f"{ROOT} of {COMPUTE_ROOT_GIB} GiB", placed_gib(request, nodes, excluded=excluded), root_gib, path
    if nvme_gib:
        yield f"the NVMe disks ({SCRATCH})", placed_gib(request, nodes, SCRATCH), nvme_gib, path
    shared_gib = target.shared_gib(request.storage.lustre_gib)
    if shared_gib:
        # Every node sees the one copy.
        yield f"the shared file system ({SHARED})", placed_gib(request, 1, SHARED), float(shared_gib), path
