"""One transfer of a checkpoint by one client, in a separate process.

    python -m benchmarks.checkpoint_client agent|boto3 up|down URI FOLDER

Prints the seconds of the transfer and the peak memory of the process (VmHWM), as JSON. "agent" works as the agent does:
upload is hash, send, commit of a finished checkpoint; download is list, fetch, and check of every hash. "boto3" moves
the same files together with boto3's own transfer manager in its default configuration, and verifies nothing.
"""

import json
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from s3transfer.manager import TransferConfig, TransferManager

from launcher.agent.checkpoint.commit import assemble, commit
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.upload import Sender
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store

STEP = 1


def agent_up(uri: str, folder: Path) -> None:
    """Hash, send, commit."""
    store = Store(uri)
    writer = Placement(run="bench", attempt=1, session="bench.a1", part=0, parts=1, node="bench")
    manifest, _ = Sender(store, writer).send(FinishedFolder(step=STEP, path=folder, files=local_files(folder)))
    commit(store, assemble(store, manifest, session=writer.session), session=writer.session)


def agent_down(uri: str, folder: Path) -> None:
    """Find the newest complete checkpoint, fetch it, check every hash."""
    restore = Restore(
        store=Store(uri),
        checkpoints=folder,
        previous=folder / "previous",
        part=0,
        on_skip=lambda step, reason: sys.exit(f"step {step}: {reason}"),
    )
    if restore.newest() is None:
        sys.exit("nothing to restore")


def boto3_up(uri: str, folder: Path) -> None:
    """Upload all files together."""
    bucket, prefix = _place(uri)
    with _manager() as manager:
        futures = [manager.upload(str(path), bucket, f"{prefix}/{path.name}") for path in sorted(folder.iterdir())]
        for future in futures:
            future.result()


def boto3_down(uri: str, folder: Path) -> None:
    """Download all files together."""
    bucket, prefix = _place(uri)
    client = _client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/")
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    with _manager() as manager:
        futures = [manager.download(bucket, key, str(folder / key.rpartition("/")[2])) for key in keys]
        for future in futures:
            future.result()


def peak_mib() -> float:
    """The peak resident memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def _place(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    return parts.netloc, parts.path.strip("/")


def _client() -> "boto3.client":
    return boto3.client("s3", config=Config(s3={"addressing_style": "path"}, max_pool_connections=10))


def _manager() -> TransferManager:
    return TransferManager(_client(), TransferConfig())


def main() -> int:
    """Run one transfer; return the exit code."""
    client, direction, uri, folder = sys.argv[1:]
    move = {"agent": {"up": agent_up, "down": agent_down}, "boto3": {"up": boto3_up, "down": boto3_down}}[client][
        direction
    ]
    begun = time.perf_counter()
    move(uri, Path(folder))
    print(json.dumps({"seconds": time.perf_counter() - begun, "mib": peak_mib()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
