"""FSx for Lustre with its links to buckets: moto's FSx has file systems, and its CloudFormation has neither.

Emulated: AWS::FSx::FileSystem and AWS::FSx::DataRepositoryAssociation: size, place and settings, to be described.
Not emulated: a file system that could be mounted, the files that a link brings, backups.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.fsx.models import FileSystem, FSxBackend, fsx_backends
from moto.fsx.responses import FSxResponse

from launcher.agent import safe_json
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

_SCHEME = "s3://"
_NEEDED = ("FileSystemId", "FileSystemPath", "DataRepositoryPath")
_FIXED = (*_NEEDED, "BatchImportMetaDataOnCreate")
"""What CloudFormation changes only by making another link."""


@dataclass(slots=True, kw_only=True)
class Link:
    """A folder of a file system that shows a bucket; `wanted` is what its template says."""

    id: str
    arn: str
    wanted: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The folder, with a slash at its end."""
        return f"{str(self.wanted['FileSystemPath']).rstrip('/')}/"

    def to_dict(self) -> dict[str, Any]:
        """It as DescribeDataRepositoryAssociations shows it."""
        shown = {**self.wanted, "Tags": self.wanted.get("Tags", [])}
        return {"AssociationId": self.id, "ResourceARN": self.arn, "Lifecycle": "AVAILABLE", **shown}


class LustreFileSystem(FileSystem):
    """moto's, with the state that it leaves out, and its links by their ids."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.links: dict[str, Link] = {}

    def to_dict(self) -> dict[str, Any]:
        """It as DescribeFileSystems shows it."""
        return {**super().to_dict(), "Lifecycle": "AVAILABLE"}


def _fsx(wanted: Requested) -> FSxBackend:
    return fsx_backends[wanted.account_id][wanted.region_name]


def _make(wanted: Requested) -> Created:
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
    return Created(physical_resource_id=made.file_system_id, attributes=attributes)


def _change(wanted: Requested, before: Created) -> Created:
    file_system = _fsx(wanted).file_systems[before.physical_resource_id]
    file_system.storage_capacity = int(wanted.need("StorageCapacity"))
    mount_name = before.attributes["LustreMountName"]
    file_system.lustre_configuration = {**wanted.get("LustreConfiguration", {}), "MountName": mount_name}
    return before


def _remove(wanted: Requested, file_system: Created) -> None:
    _fsx(wanted).file_systems.pop(file_system.physical_resource_id, None)


def _make_link(wanted: Requested) -> Created:
    file_system, path = _linked(wanted), wanted.need("FileSystemPath")
    asked = {key: wanted.need(key) if key in _NEEDED else wanted.get(key) for key in _FIXED}
    asked |= {key: wanted.get(key) for key in ("ImportedFileChunkSize", "S3", "Tags")}
    id_ = f"dra-{secrets.token_hex(9)[:17]}"
    arn = f"arn:aws:fsx:{wanted.region_name}:{wanted.account_id}:association/{file_system.file_system_id}/{id_}"
    made = Link(id=id_, arn=arn, wanted={key: value for key, value in asked.items() if value is not None})
    if not path.startswith("/"):
        raise ResourceRefusedError(f"FileSystemPath: must begin with /, got {path}")
    for other in file_system.links.values():
        if made.path.startswith(other.path) or other.path.startswith(made.path):
            raise ResourceRefusedError(f"FileSystemPath: {path} overlaps with {other.wanted['FileSystemPath']}")
    file_system.links[id_] = made
    return Created(physical_resource_id=id_, attributes={"AssociationId": id_, "ResourceARN": arn})


def _linked(wanted: Requested) -> LustreFileSystem:
    id_, uri = wanted.need("FileSystemId"), wanted.need("DataRepositoryPath")
    file_system = _fsx(wanted).file_systems.get(id_)
    if not isinstance(file_system, LustreFileSystem):
        raise ResourceRefusedError(f"File system '{id_}' does not exist.")
    bucket = uri.removeprefix(_SCHEME).partition("/")[0]
    if not uri.startswith(_SCHEME) or bucket not in backend_of(wanted.account_id, wanted.region_name).buckets:
        raise ResourceRefusedError(f"DataRepositoryPath: no bucket of {uri} is there")
    return file_system


def _change_link(wanted: Requested, before: Created) -> Created:
    """In place: what is imported and exported; for the rest another link comes in its place."""
    old = next(link for link in _all_links(_fsx(wanted)) if link.id == before.physical_resource_id)
    if any(wanted.get(key) != old.wanted.get(key) for key in _FIXED):
        _remove_link(wanted, before)
        return _make_link(wanted)
    old.wanted = {**old.wanted, **{key: wanted.get(key) for key in ("ImportedFileChunkSize", "S3") if wanted.get(key)}}
    return before


def _remove_link(wanted: Requested, link: Created) -> None:
    for file_system in _fsx(wanted).file_systems.values():
        if isinstance(file_system, LustreFileSystem):
            file_system.links.pop(link.physical_resource_id, None)


def _all_links(fsx: FSxBackend) -> list[Link]:
    systems = [file_system for file_system in fsx.file_systems.values() if isinstance(file_system, LustreFileSystem)]
    return [link for system in systems for link in system.links.values()]


def describe_data_repository_associations(response: Any) -> str:
    """The links that are asked for by id or by file system.

    Raises:
        JsonRESTError: an id is unknown.
    """
    asked = safe_json.loads(response.body)
    ids = asked.get("AssociationIds")
    filters = {filter_["Name"]: filter_["Values"] for filter_ in asked.get("Filters", ())}
    of_systems = filters.pop("file-system-id", None)
    if filters:
        raise NotImplementedError(f"the sandbox filters links by file-system-id alone, got {sorted(filters)}")
    links = _all_links(response.fsx_backend)
    missing = set(ids or ()) - {link.id for link in links}
    if missing:
        raise JsonRESTError("DataRepositoryAssociationNotFound", f"no association {', '.join(sorted(missing))}")
    shown = [
        link.to_dict()
        for link in links
        if (not ids or link.id in ids) and (not of_systems or link.wanted["FileSystemId"] in of_systems)
    ]
    return json.dumps({"Associations": shown})


def install() -> None:
    """Give the call to moto's FSx."""
    call = describe_data_repository_associations
    setattr(FSxResponse, call.__name__, call)


MODELS = (
    Model(type="AWS::FSx::FileSystem", make=_make, change=_change, remove=_remove),
    Model(type="AWS::FSx::DataRepositoryAssociation", make=_make_link, change=_change_link, remove=_remove_link),
)
