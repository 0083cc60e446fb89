"""Third-party files pinned by their digest: a template names them, and they are available before its deployment."""

from aws_cdk import DefaultStackSynthesizer, FileAssetLocation, FileAssetPackaging


def pinned_asset(synthesizer: DefaultStackSynthesizer, *, file: str, sha256: str, title: str) -> FileAssetLocation:
    """Name a file of the assembly that the synthesis does not create.

    `sha256` of the content is its name in the bucket; the launcher copies `file` into the assembly before it deploys
    (cdk/chart.py).
    """
    return synthesizer.add_file_asset(
        source_hash=sha256, file_name=file, packaging=FileAssetPackaging.FILE, display_name=title
    )
