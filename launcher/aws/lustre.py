"""FSx for Lustre file systems and their links to S3, as FSx describes them."""

from collections.abc import Mapping
from typing import Any

from launcher.aws.session import Session, translate_errors


def describe_file_system(session: Session, id_: str) -> Mapping[str, Any]:
    """A file system of FSx for Lustre."""
    with translate_errors(f"describe file system {id_}"):
        (file_system,) = session.client("fsx").describe_file_systems(FileSystemIds=[id_])["FileSystems"]
    described: Mapping[str, Any] = file_system
    return described


def describe_link(session: Session, id_: str) -> Mapping[str, Any]:
    """A data repository association: a folder of a file system that shows a bucket."""
    with translate_errors(f"describe data repository association {id_}"):
        answer = session.client("fsx").describe_data_repository_associations(AssociationIds=[id_])
    (association,) = answer["Associations"]
    described: Mapping[str, Any] = association
    return described
