"""The S3 part of `benchmarks.many_nodes`, in a process that uses its server.

    python -m benchmarks.many_nodes_store NODES URI [FILES]

Without FILES: the requests of one checkpoint of a job, with every node's part sent by the agent's own sender, and of
one node's restore. With FILES: the costs of a manifest with that number of files.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.checkpoint_client import peak_mib
from launcher.agent.checkpoint.commit import announce, assemble, commit, missing_parts
from launcher.agent.checkpoint.complete import complete_checkpoint
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.upload import Sender
from launcher.agent.manifest import Manifest, StoredFile
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store

SESSION = "bench.a1"


@contextmanager
def counted(store: Store) -> Iterator[list[int]]:
    """Count the requests of a store: botocore reports each request before it is sent."""
    count = [0]

    def one(**_: Any) -> None:
        count[0] += 1

    events = store._client.meta.events  # noqa: SLF001  the client's own hook, which the store has no need of
    events.register("before-send.s3", one)
    yield count
    events.unregister("before-send.s3", one)


def writer(part: int, parts: int) -> Placement:
    """A node that writes checkpoints."""
    return Placement(run="bench", attempt=1, session=SESSION, part=part, parts=parts, node=f"n{part}")


def requests(nodes: int, uri: str) -> list[dict[str, Any]]:
    """Requests of one checkpoint with a file per node, and of its restore."""
    store = Store(uri)
    with tempfile.TemporaryDirectory() as name, counted(store) as count:
        folder = Path(name) / "step-1"
        folder.mkdir()
        first_part, of_one = None, 0
        for part in range(nodes):
            shutil.rmtree(folder)
            folder.mkdir()
            (folder / f"shard-{part}").write_bytes(part.to_bytes(4, "big") * 64)
            finished = FinishedFolder(step=1, path=folder, files=local_files(folder))
            begun = count[0]
            sent, _ = Sender(store, writer(part, nodes)).send(finished)
            if nodes > 1:
                announce(store, sent, session=SESSION)
            of_one = count[0] - begun
            first_part = sent if first_part is None else first_part
        if first_part is None or missing_parts(store, first_part, session=SESSION):
            raise RuntimeError("a part is missing")
        commit(store, assemble(store, first_part, session=SESSION), session=SESSION)
        rows = [{"nodes": nodes, "phase": "checkpoint", "of_all": count[0], "of_one": of_one}]
        begun = count[0]
        restore = Restore(
            store=store,
            checkpoints=Path(name) / "down",
            previous=Path(name) / "previous",
            part=0,
            on_skip=lambda step, reason: sys.exit(f"step {step}: {reason}"),
        )
        if restore.newest() is None:
            raise RuntimeError("nothing to restore")
        of_one = count[0] - begun
        besides = of_one - nodes
        rows.append({"nodes": nodes, "phase": "restore", "of_all": of_one * nodes, "of_one": of_one})
        rows.append(
            {"nodes": nodes, "phase": "restore, without the files", "of_all": besides * nodes, "of_one": besides}
        )
        return rows


def manifest(parts: int, files: int, uri: str) -> dict[str, Any]:
    """The costs of a manifest: to create, to put, to get and verify."""
    stored_files = tuple(
        StoredFile(
            path=f"rank-{index % parts:05}/optimizer/state_{index:07}.bin",
            bytes=4096,
            sha256=sha256(str(index).encode()).hexdigest(),
            key=f"step-1/{SESSION}/{index % parts}-cafecafe-packs/{index // parts // 2000:05}",
            part=index % parts,
            offset=index // parts % 2000 * 4096,
        )
        for index in range(files)
    )
    whole = Manifest(
        run="bench",
        attempt=1,
        step=1,
        folder="step-1",
        part=None,
        parts=parts,
        files=stored_files,
        written_at="2026-11-20T00:00:00.000Z",
        seconds=1.0,
    )
    store = Store(uri)
    begun = time.perf_counter()
    size = len(whole.to_json())
    serialized = time.perf_counter()
    commit(store, whole, session=SESSION)
    put = time.perf_counter()
    sizes = {"step-1/manifest.json": size}
    for file in stored_files:
        sizes[file.key] = max((file.offset or 0) + file.bytes, sizes.get(file.key, 0))
    begun_to_read = time.perf_counter()
    found, reason = complete_checkpoint(store, 1, sizes)
    if found is None:
        raise RuntimeError(reason)
    read = time.perf_counter()
    found.files_for(0)
    return {
        "parts": parts,
        "files": files,
        "mib": round(size / 2**20),
        "write_s": round(serialized - begun, 1),
        "commit_s": round(put - serialized, 1),
        "read_s": round(read - begun_to_read, 1),
        "choose_s": round(time.perf_counter() - read, 1),
        "peak_mib": round(peak_mib()),
    }


def main() -> int:
    """Measure and print the figures; return the exit code."""
    nodes, uri = int(sys.argv[1]), sys.argv[2]
    found = (
        requests(nodes, uri) if len(sys.argv) == len(["", "NODES", "URI"]) else manifest(nodes, int(sys.argv[3]), uri)
    )
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
