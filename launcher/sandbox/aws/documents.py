"""Session documents of Systems Manager. A template gives their content as a mapping, and moto stores its Python form.

Emulated: documents that start a shell, with their log settings; they can be read back as JSON. Not emulated: other
kinds of documents, versions, sessions. The rules are those of "Session document schema" in the Systems Manager user
guide, as of 2026-11-22.
"""

import json
from collections.abc import Mapping
from typing import Any

from moto.ssm.models import SimpleSystemManagerBackend, ssm_backends

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

_INPUTS = frozenset(
    (
        "cloudWatchEncryptionEnabled",
        "cloudWatchLogGroupName",
        "cloudWatchStreamingEnabled",
        "idleSessionTimeout",
        "kmsKeyId",
        "maxSessionDuration",
        "runAsDefaultUser",
        "runAsEnabled",
        "s3BucketName",
        "s3EncryptionEnabled",
        "s3KeyPrefix",
        "shellProfile",
    )
)


def _ssm(requested: Requested) -> SimpleSystemManagerBackend:
    return ssm_backends[requested.account_id][requested.region_name]


def _document(requested: Requested) -> Created:
    content = requested.need("Content")
    _refuse_unless_shell(requested.get("DocumentType"), content)
    name = requested.get("Name") or requested.name
    _ssm(requested).create_document(
        content=json.dumps(content),
        requires=[],
        attachments=[],
        name=name,
        version_name="",
        document_type="Session",
        document_format="JSON",
        target_type="",
        tags=requested.get("Tags", []),
    )
    return Created(physical_resource_id=name)


def _refuse_unless_shell(kind: str | None, content: Mapping[str, Any]) -> None:
    if kind != "Session":
        raise ResourceRefusedError(f"DocumentType: the sandbox supports only Session, got {kind}")
    if content.get("schemaVersion") != "1.0" or content.get("sessionType") != "Standard_Stream":
        raise ResourceRefusedError("InvalidDocumentContent: needs schemaVersion 1.0 and sessionType Standard_Stream")
    inputs = content.get("inputs")
    if not isinstance(inputs, Mapping):
        raise ResourceRefusedError("InvalidDocumentContent: Standard_Stream needs inputs")
    unknown = sorted(inputs.keys() - _INPUTS)
    if unknown:
        raise ResourceRefusedError(f"InvalidDocumentContent: unknown inputs {', '.join(unknown)}")


def _change(requested: Requested, before: Created) -> Created:
    """Replace the document, as UpdateMethod Replace, the default, does."""
    created = _document(requested)
    _remove(requested, before)
    return created


def _remove(requested: Requested, document: Created) -> None:
    _ssm(requested).delete_document(
        name=document.physical_resource_id, document_version="", version_name="", force=True
    )


MODELS = (Model(type="AWS::SSM::Document", make=_document, change=_change, remove=_remove),)
