"""The scripts that HyperPod copies to every node: a separate folder in the bucket of the account's assets."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Aws, DefaultStackSynthesizer, FileAssetPackaging, Stage
from constructs import Construct

FOLDER = "slipway-hyperpod"


class HyperPodLifecycle(Construct):
    """An S3 folder named by the digest of its files, so that a changed file changes the cluster.

    HyperPod accepts a folder, not a file, and copies all of it to every node. CDK's own assets are all in one folder,
    with digests as names; these files get a folder and names of their own.

    Attributes:
        uri: the folder, `s3://bucket/...`.
        keys: the files' complete keys in the bucket. `cdk gc` deletes objects whose key is in no template
            (aws-cdk 2.1106, lib/api/garbage-collection: ObjectAsset.fileName, ActiveAssetCache.contains).
        bucket_arn: the bucket.
        prefix: the folder in it, without slashes at its ends.
    """

    def __init__(
        self, scope: Construct, id_: str, *, files: Mapping[str, str], synthesizer: DefaultStackSynthesizer
    ) -> None:
        super().__init__(scope, id_)
        whole = "".join(f"{name}\0{text}\0" for name, text in sorted(files.items()))
        digest = hashlib.sha256(whole.encode()).hexdigest()
        self.prefix = f"{FOLDER}/{digest}"
        stage = Stage.of(self)
        assert stage is not None  # noqa: S101 - every stack is in an app
        local = f"lifecycle.{digest}"
        folder = Path(stage.outdir) / local
        folder.mkdir(parents=True, exist_ok=True)
        self.keys = tuple(f"{self.prefix}/{name}" for name in sorted(files))
        bucket = ""
        for name, text in sorted(files.items()):
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
            published = synthesizer.add_file_asset(
                source_hash=f"{self.prefix}/{Path(name).stem}",
                file_name=f"{local}/{name}",
                packaging=FileAssetPackaging.FILE,
                display_name=name,
            )
            bucket = published.bucket_name
        self.uri = f"s3://{bucket}/{self.prefix}"
        self.bucket_arn = f"arn:{Aws.PARTITION}:s3:::{bucket}"
