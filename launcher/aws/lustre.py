"""FSx for Lustre file systems, and their links to S3."""

from dataclasses import dataclass

from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreState:
    """A file system: capacity in GiB, throughput in MB/s per TiB, its key, and its network."""

    lifecycle: str
    capacity_gib: int
    mb_s_per_tib: int | None
    kms_key_arn: str | None
    subnets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """A folder of a file system that shows a bucket, and the kinds of bucket changes that it follows."""

    lifecycle: str
    file_system: str
    path: str
    uri: str
    follows: frozenset[str]


def describe_file_system(session: Session, id_: str) -> LustreState:
    """The state of a file system of FSx for Lustre."""
    with translate_errors(f"describe file system {id_}"):
        (file_system,) = session.client("fsx").describe_file_systems(FileSystemIds=[id_])["FileSystems"]
    return LustreState(
        lifecycle=str(file_system["Lifecycle"]),
        capacity_gib=int(file_system["StorageCapacity"]),
        mb_s_per_tib=file_system.get("LustreConfiguration", {}).get("PerUnitStorageThroughput"),
        kms_key_arn=file_system.get("KmsKeyId"),
        subnets=tuple(file_system.get("SubnetIds", ())),
    )


def describe_link(session: Session, id_: str) -> LinkState:
    """The state of a link between a file system and a bucket."""
    with translate_errors(f"describe data repository association {id_}"):
        answer = session.client("fsx").describe_data_repository_associations(AssociationIds=[id_])
        (association,) = answer["Associations"]
    return LinkState(
        lifecycle=str(association["Lifecycle"]),
        file_system=str(association.get("FileSystemId", "")),
        path=str(association.get("FileSystemPath", "")),
        uri=str(association["DataRepositoryPath"]),
        follows=frozenset(association.get("S3", {}).get("AutoImportPolicy", {}).get("Events", ())),
    )
