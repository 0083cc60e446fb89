"""The shape of a ParallelCluster configuration: which keys there are, which must be there, and what type each has.

Source: the marshmallow schemas of aws-parallelcluster 3.16.1 (pcluster/schemas/cluster_schema.py), read 2026-11-20.
Types are held strictly: the custom resource of this project hands over typed values, and a "4800" in quotes is a
mistake in its making. Additional packages, directory service, deployment and development settings, databases: any
mapping, nothing in it is looked at.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Shape: TypeAlias = "str | dict[str, Shape] | list[Shape]"
"""A word of `_KINDS`, a mapping of keys (one that ends in "!" must be there), or a list of one shape."""

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "a string"),
    "whole": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "truth": ((bool,), "true or false"),
    "free": ((dict,), "a mapping"),
}

_ENABLED: Shape = {"Enabled": "truth"}
_SCRIPT: Shape = {"Script": "text", "Args": ["text"], "Sequence": [{"Script!": "text", "Args": ["text"]}]}
_ACTIONS: dict[str, Shape] = {"OnNodeStart": _SCRIPT, "OnNodeConfigured": _SCRIPT}
_ALL_ACTIONS: Shape = {**_ACTIONS, "OnNodeUpdated": _SCRIPT}
_IMAGE: Shape = {"CustomAmi": "text"}
_SSH: Shape = {"AllowedIps": "text", "KeyName": "text"}
_DCV: Shape = {"Enabled": "truth", "Port": "whole", "AllowedIps": "text"}
_ROLE: dict[str, Shape] = {
    "AdditionalIamPolicies": [{"Policy!": "text"}],
    "InstanceProfile": "text",
    "InstanceRole": "text",
}
_IAM: Shape = {**_ROLE, "S3Access": [{"BucketName!": "text", "KeyName": "text", "EnableWriteAccess": "truth"}]}
_GROUPS: dict[str, Shape] = {
    "SecurityGroups": ["text"],
    "AdditionalSecurityGroups": ["text"],
    "Proxy": {"HttpProxyAddress": "text"},
}
_VOLUME: dict[str, Shape] = {
    "VolumeType": "text",
    "Iops": "whole",
    "Size": "whole",
    "Throughput": "whole",
    "Encrypted": "truth",
}
_EPHEMERAL: Shape = {"MountDir": "text"}
_TAGS: Shape = [{"Key!": "text", "Value!": "text"}]
_PLACEMENT: Shape = {"Enabled": "truth", "Id": "text", "Name": "text"}
_RESERVATION: Shape = {"CapacityReservationId": "text", "CapacityReservationResourceGroupArn": "text"}
_HEALTH: Shape = {"Gpu": _ENABLED}

_HEAD_NODE: Shape = {
    "InstanceType!": "text",
    "Networking!": {"SubnetId!": "text", "ElasticIp": "any", **_GROUPS},
    "CustomActions": _ALL_ACTIONS,
    "Dcv": _DCV,
    "DisableSimultaneousMultithreading": "truth",
    "Iam": _IAM,
    "Image": _IMAGE,
    "Imds": {"Secured": "truth"},
    "LocalStorage": {"RootVolume": {**_VOLUME, "DeleteOnTermination": "truth"}, "EphemeralVolume": _EPHEMERAL},
    "SharedStorageEfsSettings": {"Encrypted": "truth"},
    "SharedStorageType": "text",
    "Ssh": _SSH,
}
_COMPUTE_RESOURCE: Shape = {
    "Name!": "text",
    "InstanceType": "text",
    "Instances": [{"InstanceType!": "text"}],
    "MinCount": "whole",
    "MaxCount": "whole",
    "CapacityReservationTarget": _RESERVATION,
    "CustomSlurmSettings": "free",
    "DisableSimultaneousMultithreading": "truth",
    "DynamicNodePriority": "whole",
    "StaticNodePriority": "whole",
    "Efa": {"Enabled": "truth", "GdrSupport": "truth"},
    "HealthChecks": _HEALTH,
    "LaunchTemplateOverrides": {"LaunchTemplateId!": "text", "Version!": "whole"},
    "Networking": {"PlacementGroup": _PLACEMENT},
    "SchedulableMemory": "whole",
    "SpotPrice": "number",
    "Tags": _TAGS,
}
_QUEUE: Shape = {
    "Name!": "text",
    "CapacityType": "text",
    "ComputeResources": [_COMPUTE_RESOURCE],
    "Networking!": {"SubnetIds!": ["text"], "AssignPublicIp": "truth", "PlacementGroup": _PLACEMENT, **_GROUPS},
    "AllocationStrategy": "text",
    "CapacityReservationTarget": _RESERVATION,
    "ComputeSettings": {"LocalStorage": {"RootVolume": _VOLUME, "EphemeralVolume": _EPHEMERAL}},
    "CustomActions": _ACTIONS,
    "CustomSlurmSettings": "free",
    "HealthChecks": _HEALTH,
    "Iam": _IAM,
    "Image": _IMAGE,
    "JobExclusiveAllocation": "truth",
    "Tags": _TAGS,
}
_SLURM: Shape = {
    "CustomSlurmSettings": ["free"],
    "CustomSlurmSettingsIncludeFile": "text",
    "Database": "free",
    "ExternalSlurmdbd": "free",
    "Dns": {"DisableManagedDns": "truth", "HostedZoneId": "text", "UseEc2Hostnames": "truth"},
    "EnableMemoryBasedScheduling": "truth",
    "MungeKeySecretArn": "text",
    "QueueUpdateStrategy": "text",
    "ScaledownIdletime": "whole",
}
_LOGIN_POOL: Shape = {
    "Name!": "text",
    "InstanceType!": "text",
    "Count!": "whole",
    "Networking!": {"SubnetIds!": ["text"], **_GROUPS},
    "CustomActions": _ALL_ACTIONS,
    "Dcv": _DCV,
    "GracetimePeriod": "whole",
    "Iam": _ROLE,
    "Image": _IMAGE,
    "Ssh": {"AllowedIps": "text"},
}
_MONITORING: Shape = {
    "Alarms": _ENABLED,
    "Dashboards": {"CloudWatch": _ENABLED},
    "DetailedMonitoring": "truth",
    "Logs": {
        "CloudWatch": {"Enabled": "truth", "RetentionInDays": "whole", "DeletionPolicy": "text"},
        "Rotation": _ENABLED,
    },
}
_ASSOCIATION: Shape = {
    "Name!": "text",
    "DataRepositoryPath!": "text",
    "FileSystemPath!": "text",
    "AutoExportPolicy": ["text"],
    "AutoImportPolicy": ["text"],
    "BatchImportMetaDataOnCreate": "truth",
    "ImportedFileChunkSize": "whole",
}
_LUSTRE: Shape = {
    "StorageCapacity": "whole",
    "DeploymentType": "text",
    "PerUnitStorageThroughput": "whole",
    "AutoImportPolicy": "text",
    "AutomaticBackupRetentionDays": "whole",
    "BackupId": "text",
    "CopyTagsToBackups": "truth",
    "DailyAutomaticBackupStartTime": "text",
    "DataCompressionType": "text",
    "DataRepositoryAssociations": [_ASSOCIATION],
    "DeletionPolicy": "text",
    "DriveCacheType": "text",
    "ExportPath": "text",
    "FileSystemId": "text",
    "ImportPath": "text",
    "ImportedFileChunkSize": "whole",
    "KmsKeyId": "text",
    "StorageType": "text",
    "WeeklyMaintenanceStartTime": "text",
}
_STORAGE: Shape = {
    "MountDir!": "text",
    "Name!": "text",
    "StorageType!": "text",
    "EbsSettings": "free",
    "EfsSettings": "free",
    "FileCacheSettings": "free",
    "FsxLustreSettings": _LUSTRE,
    "FsxOntapSettings": {"VolumeId!": "text"},
    "FsxOpenZfsSettings": {"VolumeId!": "text"},
}

CLUSTER: Shape = {
    "Region": "text",
    "Image!": {"Os!": "text", "CustomAmi": "text"},
    "HeadNode!": _HEAD_NODE,
    "Scheduling!": {
        "Scheduler!": "text",
        "SlurmQueues!": [_QUEUE],
        "SlurmSettings": _SLURM,
        "ScalingStrategy": "text",
    },
    "AdditionalPackages": "free",
    "AdditionalResources": "text",
    "CustomS3Bucket": "text",
    "DeploymentSettings": "free",
    "DevSettings": "free",
    "DirectoryService": "free",
    "Iam": {"PermissionsBoundary": "text", "ResourcePrefix": "text", "Roles": {"LambdaFunctionsRole": "text"}},
    "Imds": {"ImdsSupport": "text"},
    "LoginNodes": {"Pools!": [_LOGIN_POOL]},
    "Monitoring": _MONITORING,
    "SharedStorage": [_STORAGE],
    "Tags": _TAGS,
}
"""A whole configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something wrong with a configuration, and where."""

    path: str
    message: str

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.path}: {self.message}" if self.path else self.message


def problems(value: Any, shape: Shape = CLUSTER, path: str = "") -> Iterator[Problem]:
    """Everything about a value that is not of a shape.

    >>> [
    ...     str(problem)
    ...     for problem in problems({"Key": "team", "Valu": "x"}, {"Key!": "text", "Value!": "text"}, "Tags[0]")
    ... ]
    ['Tags[0].Valu: unknown key, did you mean Value', 'Tags[0].Value: missing']
    >>> [str(problem) for problem in problems("4", "whole", "MaxCount")]
    ["MaxCount: got '4', allowed: a whole number"]
    """
    if isinstance(shape, str):
        yield from _wrong_kind(value, shape, path)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield Problem(path=path, message=f"got {value!r}, allowed: a list")
            return
        for index, inner in enumerate(value):
            yield from problems(inner, shape[0], f"{path}[{index}]")
    elif isinstance(value, Mapping):
        yield from _wrong_keys(value, shape, path)
    else:
        yield Problem(path=path, message=f"got {value!r}, allowed: a mapping")


def _wrong_kind(value: Any, kind: str, path: str) -> Iterator[Problem]:
    if kind == "any":
        return
    types, words = _KINDS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        yield Problem(path=path, message=f"got {value!r}, allowed: {words}")


def _wrong_keys(value: Mapping[str, Any], shape: dict[str, Shape], path: str) -> Iterator[Problem]:
    known = {key.removesuffix("!"): inner for key, inner in shape.items()}
    prefix = f"{path}." if path else ""
    for key, inner in value.items():
        if key in known:
            yield from problems(inner, known[key], f"{prefix}{key}")
        else:
            near = difflib.get_close_matches(str(key), known, n=1)
            yield Problem(path=f"{prefix}{key}", message="unknown key" + (f", did you mean {near[0]}" if near else ""))
    for key in shape:
        if key.endswith("!") and key.removesuffix("!") not in value:
            yield Problem(path=prefix + key.removesuffix("!"), message="missing")
