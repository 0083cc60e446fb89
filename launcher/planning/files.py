"""Files outside the job's folder: the trainer's own checkpoints, and data that the nodes download."""

from collections.abc import Iterator

from launcher.model.budget_stop import is_joined
from launcher.model.enums import CheckpointMode
from launcher.model.finding import Finding, error, info, warning
from launcher.model.hyperpod import MOUNT_PATH
from launcher.model.reach import reached_locations
from launcher.model.request import PlanRequest
from launcher.targets.registry import target_of

_DIRECTORY_BUCKET = "--x-s3"
"""The end of the names of directory buckets, and of no others (S3 user guide, bucket naming rules)."""


def is_shared(request: PlanRequest, path: str) -> bool:
    """Whether a path is on a file system that all nodes share: FSx, or a volume of the plan's pods."""
    places = (MOUNT_PATH, *(volume.path for volume in request.run.volumes))
    return any(_is_inside(place, path) for place in places)


def file_findings(request: PlanRequest) -> Iterator[Finding]:
    """Findings for paths that contradict their mode, do not outlive a node, or need permissions."""
    yield from _own_place(request)
    yield from _directory_buckets(request)
    yield from _data(request)
    if is_joined(request):
        for reach in reached_locations(request):
            right = "write to" if reach.writes else "read"
            message = f"the roles of a cluster that exists stay as they are: its jobs must be allowed to {right} it"
            hint = "what they need is in the policies that the command policies writes for this plan"
            yield info("rights-of-a-cluster", reach.path, message, hint)


def _own_place(request: PlanRequest) -> Iterator[Finding]:
    """Findings for the trainer's own storage: it needs mode own, and should outlive the node."""
    policy, at = request.checkpoint, "checkpoint.uri"
    if policy.mode is not CheckpointMode.OWN:
        if policy.uri is not None and policy.uri.startswith("/"):
            message = f"got {policy.uri}; mode {policy.mode} stores checkpoints in S3"
            yield error("checkpoint-place", at, message, "s3://bucket/prefix, or checkpoint.mode: own")
        if policy.kms_key_arn is not None:
            message = f"the key of the trainer's own bucket, and the mode is {policy.mode}"
            yield error("checkpoint-key", "checkpoint.kms_key_arn", message, "storage.kms_key_arn, or mode own")
        return
    if policy.uri is None:
        hint = "s3://bucket/prefix, or a path on a shared file system such as /fsx/checkpoints"
        yield error("checkpoint-place", at, "mode own names no place where the trainer keeps its checkpoints", hint)
    elif policy.uri.startswith("/"):
        yield from _mount_findings(request, policy.uri)


def _directory_buckets(request: PlanRequest) -> Iterator[Finding]:
    """Findings for buckets of S3 Express One Zone.

    They have no object tags and no order of keys, and need s3express:CreateSession instead of rights on objects (S3
    user guide, "How is S3 Express One Zone different?").
    """
    policy = request.checkpoint
    places = [(f"run.data[{index}].uri", source.uri) for index, source in enumerate(request.run.data)]
    if policy.uri is not None and not (policy.mode is CheckpointMode.OWN and is_joined(request)):
        places.append(("checkpoint.uri", policy.uri))
    for path, uri in places:
        bucket = uri.removeprefix("s3://").partition("/")[0]
        if bucket.endswith(_DIRECTORY_BUCKET):
            message = f"got {uri}; {bucket} is a directory bucket (S3 Express One Zone), which Slipway cannot use"
            yield error("directory-bucket", path, message, "name a general purpose bucket: s3://bucket/prefix")


def _mount_findings(request: PlanRequest, path: str) -> Iterator[Finding]:
    message = f"{path} is lost with its node unless a shared file system is mounted there"
    kinds = request.target.kind or ()
    volume = any(_is_inside(mount.path, path) for mount in request.run.volumes)
    if volume:
        return
    if kinds and all(target_of(kind).pods for kind in kinds):
        hint = "name its claim: run.volumes: [{claim: NAME, path: /data}], and a path below it"
        yield error("checkpoint-place", "checkpoint.uri", f"{path} lies on no volume of the pods", hint)
    elif not _is_inside(MOUNT_PATH, path):
        hint = f"a path below {MOUNT_PATH} (storage.lustre_gib), or s3://bucket/prefix"
        yield warning("checkpoint-place", "checkpoint.uri", message, hint)
    elif not request.storage.lustre_gib and not is_joined(request):
        yield warning("checkpoint-place", "checkpoint.uri", message, "storage.lustre_gib makes the file system")


def _data(request: PlanRequest) -> Iterator[Finding]:
    for index, source in enumerate(request.run.data):
        for other in request.run.data[:index]:
            if _is_inside(other.path, source.path) or _is_inside(source.path, other.path):
                message = f"{source.path} and {other.path} overlap: each folder may have one source only"
                yield error("path-taken", f"run.data[{index}].path", message, "use a separate folder for each source")
        if _is_inside("/slipway", source.path):
            message = f"{source.path} is taken by the job's own folder"
            yield error("path-taken", f"run.data[{index}].path", message, "/data, for example")


def _is_inside(folder: str, path: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
