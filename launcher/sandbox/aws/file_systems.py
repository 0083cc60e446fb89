"""FSx for Lustre with its links to buckets. moto's FSx has file systems; its CloudFormation has neither.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); Describe calls by moto 5.2.5 and by botocore 1.44.5, which parses the answers.

Emulated: AWS::FSx::FileSystem and AWS::FSx::DataRepositoryAssociation with size, place and settings, for Describe
calls. Not emulated: mounts, files of a link, backups.
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
"""Properties whose change makes CloudFormation create another link."""


@dataclass(slots=True, kw_only=True)
class Link:
    """A link from a folder of a file system to a bucket; `request` holds the properties of its template."""

    id: str
    arn: str
    request: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The folder, with a slash at the end."""
        return f"{str(self.request['FileSystemPath']).rstrip('/')}/"

    def to_dict(self) -> dict[str, Any]:
        """The link as DescribeDataRepositoryAssociations returns it."""
        shown = {**self.request, "Tags": self.request.get("Tags", [])}
        return {"AssociationId": self.id, "ResourceARN": self.arn, "Lifecycle": "AVAILABLE", **shown}


class LustreFileSystem(FileSystem):
    """moto's file system with the state that moto leaves out, and its links by their ids."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.links: dict[str, Link] = {}

    def to_dict(self) -> dict[str, Any]:
        """The file system as DescribeFileSystems returns it."""
        return {**super().to_dict(), "Lifecycle": "AVAILABLE"}


def _fsx(requested: Requested) -> FSxBackend:
    return fsx_backends[requested.account_id][requested.region_name]


def create_file_system(requested: Requested) -> Created:
    """Create a file system, as CreateFileSystem accepts it."""
    kind = requested.need("FileSystemType")
    if kind != "LUSTRE":
        raise ResourceRefusedError(f"FileSystemType: the sandbox supports only LUSTRE, got {kind}")
    mount_name = secrets.token_hex(4)
    created = LustreFileSystem(
        account_id=requested.account_id,
        region_name=requested.region_name,
        file_system_type=kind,
        storage_capacity=int(requested.need("StorageCapacity")),
        storage_type=requested.get("StorageType", "SSD"),
        subnet_ids=requested.need("SubnetIds"),
        security_group_ids=requested.get("SecurityGroupIds", []),
        tags=requested.get("Tags"),
        kms_key_id=requested.get("KmsKeyId"),
        windows_configuration=None,
        lustre_configuration={**requested.get("LustreConfiguration", {}), "MountName": mount_name},
        ontap_configuration=None,
        open_zfs_configuration=None,
        backend=_fsx(requested),
    )
    _fsx(requested).file_systems[created.file_system_id] = created
    attributes = {"DNSName": created.dns_name, "LustreMountName": mount_name, "ResourceARN": created.resource_arn}
    return Created(physical_resource_id=created.file_system_id, attributes=attributes)


def change_file_system(requested: Requested, before: Created) -> Created:
    """Change a file system, as UpdateFileSystem accepts it."""
    file_system = _fsx(requested).file_systems[before.physical_resource_id]
    capacity = int(requested.need("StorageCapacity"))
    if capacity < file_system.storage_capacity:
        least = file_system.storage_capacity
        raise ResourceRefusedError(f"Invalid storage capacity: {capacity}: it can only be increased from {least} GiB")
    file_system.storage_capacity = capacity
    mount_name = before.attributes["LustreMountName"]
    file_system.lustre_configuration = {**requested.get("LustreConfiguration", {}), "MountName": mount_name}
    return before


def _remove(requested: Requested, file_system: Created) -> None:
    _fsx(requested).file_systems.pop(file_system.physical_resource_id, None)


def _make_link(requested: Requested) -> Created:
    file_system, path = _linked_file_system(requested), requested.need("FileSystemPath")
    values = {key: requested.need(key) if key in _NEEDED else requested.get(key) for key in _FIXED}
    values |= {key: requested.get(key) for key in ("ImportedFileChunkSize", "S3", "Tags")}
    id_ = f"dra-{secrets.token_hex(9)[:17]}"
    arn = f"arn:aws:fsx:{requested.region_name}:{requested.account_id}:association/{file_system.file_system_id}/{id_}"
    link = Link(id=id_, arn=arn, request={key: value for key, value in values.items() if value is not None})
    if not path.startswith("/"):
        raise ResourceRefusedError(f"FileSystemPath: must begin with /, got {path}")
    for other in file_system.links.values():
        if link.path.startswith(other.path) or other.path.startswith(link.path):
            raise ResourceRefusedError(f"FileSystemPath: {path} overlaps with {other.request['FileSystemPath']}")
    file_system.links[id_] = link
    return Created(physical_resource_id=id_, attributes={"AssociationId": id_, "ResourceARN": arn})


def _linked_file_system(requested: Requested) -> LustreFileSystem:
    id_, uri = requested.need("FileSystemId"), requested.need("DataRepositoryPath")
    file_system = _fsx(requested).file_systems.get(id_)
    if not isinstance(file_system, LustreFileSystem):
        raise ResourceRefusedError(f"File system '{id_}' does not exist.")
    bucket = uri.removeprefix(_SCHEME).partition("/")[0]
    if not uri.startswith(_SCHEME) or bucket not in backend_of(requested.account_id, requested.region_name).buckets:
        raise ResourceRefusedError(f"DataRepositoryPath: no bucket of {uri} is there")
    return file_system


def _change_link(requested: Requested, before: Created) -> Created:
    """Change the import and export settings in place; replace the link if another property changes."""
    old = next(link for link in _all_links(_fsx(requested)) if link.id == before.physical_resource_id)
    if any(requested.get(key) != old.request.get(key) for key in _FIXED):
        _remove_link(requested, before)
        return _make_link(requested)
    old.request = {
        **old.request,
        **{key: requested.get(key) for key in ("ImportedFileChunkSize", "S3") if requested.get(key)},
    }
    return before


def _remove_link(requested: Requested, link: Created) -> None:
    for file_system in _fsx(requested).file_systems.values():
        if isinstance(file_system, LustreFileSystem):
            file_system.links.pop(link.physical_resource_id, None)


def _all_links(fsx: FSxBackend) -> list[Link]:
    systems = [file_system for file_system in fsx.file_systems.values() if isinstance(file_system, LustreFileSystem)]
    return [link for system in systems for link in system.links.values()]


def describe_data_repository_associations(response: Any) -> str:
    """The links that the request selects by id or by file system.

    Raises:
        JsonRESTError: an id is unknown.
    """
    request = safe_json.loads(response.body)
    ids = request.get("AssociationIds")
    filters = {filter_["Name"]: filter_["Values"] for filter_ in request.get("Filters", ())}
    of_systems = filters.pop("file-system-id", None)
    if filters:
        raise NotImplementedError(f"the sandbox filters links only by file-system-id, got {sorted(filters)}")
    links = _all_links(response.fsx_backend)
    missing = set(ids or ()) - {link.id for link in links}
    if missing:
        raise JsonRESTError("DataRepositoryAssociationNotFound", f"no association {', '.join(sorted(missing))}")
    shown = [
        link.to_dict()
        for link in links
        if (not ids or link.id in ids) and (not of_systems or link.request["FileSystemId"] in of_systems)
    ]
    return json.dumps({"Associations": shown})


def install() -> None:
    """Add the call to moto's FSx."""
    call = describe_data_repository_associations
    setattr(FSxResponse, call.__name__, call)


MODELS = (
    Model(type="AWS::FSx::FileSystem", make=create_file_system, change=change_file_system, remove=_remove),
    Model(type="AWS::FSx::DataRepositoryAssociation", make=_make_link, change=_change_link, remove=_remove_link),
)
