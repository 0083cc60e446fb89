"""The tests' checkpoint bucket, read and written without the agent."""

import time
from functools import cache
from hashlib import sha256

from moto.backends import get_backend

from launcher.agent.checkpoint import inspection, retention
from launcher.agent.checkpoint.retention import Retention
from launcher.agent.checkpoint_keys import commit_places
from launcher.agent.manifest import Manifest, StoredFile, parse
from launcher.sandbox.aws import buckets
from tests.emulators.moto_server import KEYS, s3_client

BUCKET, PREFIX = "checkpoints", "a/run/"
WRITE_MANIFESTS_ONCE = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "s3:PutObject",
    "Resource": f"arn:aws:s3:::{BUCKET}/*/step-*/manifest.json",
    "Condition": buckets.UNCONDITIONAL,
}
"""As infra/stacks/checkpoints.py has it."""
BOOKS = ("claim.json", "layout.json", "superseded.json", "withdrawn.json")
"""What the agent keeps beside the checkpoints."""


@cache
def client_of(endpoint):
    """The client of an S3 server, created once for all tests."""
    return s3_client(KEYS | {"AWS_ENDPOINT_URL": endpoint})


class Checkpoints:
    """What stands in the bucket, seen without the agent's help."""

    def __init__(self, endpoint):
        self.client = client_of(endpoint)

    def keys(self):
        """Every key of a checkpoint, relative to the checkpoint URI."""
        return [key for key in self.all_keys() if key not in BOOKS]

    def all_keys(self):
        return list(self._entries())

    def sizes(self):
        """The size of every object of a checkpoint, by its key."""
        return {key: entry["Size"] for key, entry in self._entries().items() if key not in BOOKS}

    def _entries(self):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {entry["Key"].removeprefix(PREFIX): entry for page in pages for entry in page.get("Contents", ())}

    def read(self, key):
        return self.client.get_object(Bucket=BUCKET, Key=PREFIX + key)["Body"].read()

    def write(self, key, body):
        self.delete(key)
        self.client.put_object(Bucket=BUCKET, Key=PREFIX + key, Body=body, IfNoneMatch="*")

    def delete(self, key):
        self.client.delete_object(Bucket=BUCKET, Key=PREFIX + key)

    def manifest(self, step):
        return parse(self.read(f"step-{step}/manifest.json").decode())

    def whole(self):
        """Steps of which the manifest and every object are there, by their content."""
        steps = []
        for key in self.keys():
            if key.endswith("/manifest.json"):
                manifest = parse(self.read(key).decode())
                if all(sha256(self.read(file.key)).hexdigest() == file.sha256 for file in manifest.files):
                    steps.append(manifest.step)
        return sorted(steps)

    def remove(self):
        """Remove the bucket; what a killed agent had sent may come in meanwhile."""
        patience = time.monotonic() + 30
        while True:
            keys = [{"Key": PREFIX + key} for key in self.all_keys()]
            for begin in range(0, len(keys), 1000):
                self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys[begin : begin + 1000]})
            try:
                self.client.delete_bucket(Bucket=BUCKET)
            except self.client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] != "BucketNotEmpty" or time.monotonic() >= patience:
                    raise
            else:
                return

    def supersede(self, key):
        tags = [{"Key": "slipway", "Value": "superseded"}]
        self.client.put_object_tagging(Bucket=BUCKET, Key=PREFIX + key, Tagging={"TagSet": tags})

    def expiring(self):
        """Keys that the lifecycle rule would expire."""
        tags = {k: self.client.get_object_tagging(Bucket=BUCKET, Key=PREFIX + k)["TagSet"] for k in self.keys()}
        return {key for key, tag in tags.items() if {"Key": "slipway", "Value": "superseded"} in tag}

    def retained_keys(self):
        """Keys that it would leave."""
        return set(self.keys()) - self.expiring()


def fill(step, number):
    """Objects of a step, put where moto keeps them: through its server they would take half a minute."""
    backend = get_backend("s3")["123456789012"]["aws"]
    for index in range(number):
        backend.put_object(BUCKET, f"{PREFIX}step-{step}/r0.a1/0-cafe/{index:05}", b"x")


def tagged(front):
    """The positions of the requests that tag, among all that began."""
    return [at for at, (method, path) in enumerate(front.begun) if method == "PUT" and path.endswith("?tagging")]


def objects_tagged(front):
    """The objects that were tagged; a request whose answer is late is sent again, which does no harm."""
    return {front.begun[at] for at in tagged(front)}


def whole(bucket, step, *, keys=(), layout="", session="r1.a1", again=False):
    """Put a whole checkpoint with one file of its own into the bucket; it also needs `keys`."""
    data_key = f"step-{step}/{session}/0-beef/data"
    bucket.write(data_key, b"x")
    files = [
        StoredFile(path=key.replace("/", "_"), bytes=1, sha256="2d" * 32, key=key, part=0) for key in (data_key, *keys)
    ]
    manifest = Manifest(
        run="r1",
        attempt=1,
        step=step,
        folder=f"step-{step}",
        part=None,
        parts=1,
        files=tuple(files),
        written_at="2026-11-20T00:00:00.000Z",
        seconds=1.0,
        layout=layout,
    )
    bucket.write(commit_places(step, session)[again], manifest.to_json().encode())
    return manifest


def keeping(store, *, keep=1, newest=None):
    retained = None if newest is None else retention.retained_form(newest)
    return Retention(store, keep=keep, inspect=inspection.inspect(store), newest=retained)
