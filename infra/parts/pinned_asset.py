"""Files of others that are pinned by their digest: a template names them, and they are there when it is deployed."""

from typing import NamedTuple

from aws_cdk import DefaultStackSynthesizer, FileAssetPackaging


class PinnedAsset(NamedTuple):
    """Where a file will be: the bucket of the account's assets, and the key in it; tokens or text."""

    bucket: str
    key: str


def pinned_asset(synthesizer: DefaultStackSynthesizer, *, file: str, sha256: str, title: str) -> PinnedAsset:
    """Name a file of the assembly that a synthesis does not make.

    `sha256` of the content is its name in the bucket; the launcher puts `file` into the assembly before it deploys
    (cdk/chart.py).
    """
    asset = synthesizer.add_file_asset(
        source_hash=sha256, file_name=file, packaging=FileAssetPackaging.FILE, display_name=title
    )
    return PinnedAsset(asset.bucket_name, asset.object_key)
