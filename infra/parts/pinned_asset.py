"""Third-party files pinned by their digest: a template names them, and they are available before its deployment."""

from typing import NamedTuple

from aws_cdk import DefaultStackSynthesizer, FileAssetPackaging


class PinnedAsset(NamedTuple):
    """The future location of a file: the bucket of the account's assets, and the key in it; tokens or text."""

    bucket: str
    key: str


def pinned_asset(synthesizer: DefaultStackSynthesizer, *, file: str, sha256: str, title: str) -> PinnedAsset:
    """Name a file of the assembly that the synthesis does not create.

    `sha256` of the content is its name in the bucket; the launcher copies `file` into the assembly before it deploys
    (cdk/chart.py).
    """
    asset = synthesizer.add_file_asset(
        source_hash=sha256, file_name=file, packaging=FileAssetPackaging.FILE, display_name=title
    )
    return PinnedAsset(asset.bucket_name, asset.object_key)
