"""AWS::FSx::FileSystem for Lustre, which moto's FSx has and its CloudFormation does not.

Emulated: size, throughput, subnets and security groups, to be described. Not emulated: a file system that could be
mounted, its link to a bucket (AWS::FSx::DataRepositoryAssociation), backups.
"""

import secrets
from typing import Any

from moto.fsx.models import FileSystem, FSxBackend, fsx_backends

from launcher.sandbox.emulation.model import Made, Model, ResourceRefusedError, Wanted


class LustreFileSystem(FileSystem):
    """moto's, with the state that it leaves out."""

    def to_dict(self) -> dict[str, Any]:
        """It as DescribeFileSystems shows it."""
        return {**super().to_dict(), "Lifecycle": "AVAILABLE"}


def _fsx(wanted: Wanted) -> FSxBackend:
    return fsx_backends[wanted.account_id][wanted.region_name]


def _make(wanted: Wanted) -> Made:
    kind = wanted.need("FileSystemType")
    if kind != "LUSTRE":
        raise ResourceRefusedError(f"FileSystemType: the sandbox has LUSTRE alone, got {kind}")
    mount_name = secrets.token_hex(4)
    made = LustreFileSystem(
        account_id=wanted.account_id,
        region_name=wanted.region_name,
        file_system_type=kind,
        storage_capacity=int(wanted.need("StorageCapacity")),
        storage_type=wanted.get("StorageType", "SSD"),
        subnet_ids=wanted.need("SubnetIds"),
        security_group_ids=wanted.get("SecurityGroupIds", []),
        tags=wanted.get("Tags"),
        kms_key_id=wanted.get("KmsKeyId"),
        windows_configuration=None,
        lustre_configuration={**wanted.get("LustreConfiguration", {}), "MountName": mount_name},
        ontap_configuration=None,
        open_zfs_configuration=None,
        backend=_fsx(wanted),
    )
    _fsx(wanted).file_systems[made.file_system_id] = made
    attributes = {"DNSName": made.dns_name, "LustreMountName": mount_name, "ResourceARN": made.resource_arn}
    return Made(physical_resource_id=made.file_system_id, attributes=attributes)


def _change(wanted: Wanted, before: Made) -> Made:
    """In place: its capacity and its throughput."""
    file_system = _fsx(wanted).file_systems[before.physical_resource_id]
    file_system.storage_capacity = int(wanted.need("StorageCapacity"))
    mount_name = before.attributes["LustreMountName"]
    file_system.lustre_configuration = {**wanted.get("LustreConfiguration", {}), "MountName": mount_name}
    return before


def _remove(wanted: Wanted, file_system: Made) -> None:
    _fsx(wanted).file_systems.pop(file_system.physical_resource_id, None)


MODELS = (Model(type="AWS::FSx::FileSystem", make=_make, change=_change, remove=_remove),)
