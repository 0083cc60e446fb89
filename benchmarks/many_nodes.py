"""Load of a job with many nodes on the shared folder and on S3, and the cost of a manifest of a million files.

    python -m benchmarks.many_nodes [--nodes 2,64,512,2048] [--seconds 6] [--files 1000000] [--json]

The benchmark uses the agents' own modules with real files: each node is the thread that reads and writes messages in
the agent (`node.peers`), plus its uploader's requests. Their folder emulates the head node's NFS; an operation is an
open, a write or a rename there. The S3 server is that of `benchmarks.checkpoint`; the clients count requests.

    phases      nodes, phase, operations_s (per second, of all nodes), each_s (mean of a node), most_s (of the busiest
                node), taken_for_gone (existing nodes that were not heard in time)
    requests    nodes, phase, of_all (requests to S3 for one checkpoint, or one restore, of the whole job), of_one (of
                one node other than the first)
    manifest    parts, files, mib, write_s (create the text), commit_s (put it), read_s (get and verify it), peak_mib

The phases: `agree` on a checkpoint before the start; `train`, without events; `wait` for a checkpoint with a missing
part; `failure`, if the command fails on all nodes together and every node checks which nodes are gone.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import BUCKET, ROOT, environment, server
from launcher.agent.checkpoint import agreement
from launcher.agent.checkpoint.agreement import agree
from launcher.agent.events import EventLog
from launcher.agent.node import peers as peers_module
from launcher.agent.node.notice import FAILURE, Notice
from launcher.agent.node.peers import LOST_AFTER_S, Peers, in_folder
from launcher.agent.node.placement import Placement

AT_FULL_SPEED = 512
"""Maximum nodes at full speed; a larger job's time runs slower, and operations are per second of the job's time."""
WAITS = (
    (peers_module, "BEAT_S"),
    (peers_module, "_POLL_S"),
    (peers_module, "_GATHER_S"),
    (peers_module, "_LOST_POLL_S"),
    (agreement, "_POLL_S"),
)
MAX_OF_A_NODE_S = 25.0
"""Maximum operations per second of one node: reads of 32 files and a write of its own in 2.5 s, and reads of the news
and the first node's file every second."""


class CountedPeers(Peers):
    """Peers that count their operations on the shared folder."""

    operations = 0

    def _read(self, name: str) -> str:
        self.operations += 1
        return super()._read(name)

    def _replace(self, name: str, text: str) -> None:
        self.operations += 3  # make, write, rename
        super()._replace(name, text)


@contextmanager
def slowed(factor: float) -> Iterator[None]:
    """Multiply every wait of the agents by a factor, because thousands of agents share this host's processors."""
    before = [(module, name, getattr(module, name)) for module, name in WAITS]
    for module, name, seconds in before:
        setattr(module, name, seconds * factor)
    yield
    for module, name, seconds in before:
        setattr(module, name, seconds)


def phases(nodes: int, seconds: float, folder: Path, *, factor: float) -> list[dict[str, Any]]:
    """Operations on the shared folder in each phase of a job whose time runs `factor` times slower."""
    log = EventLog(folder / "events.jsonl")
    all_peers = [
        CountedPeers(in_folder(folder, place), place, log, on_notice=lambda _: None)
        for part in range(nodes)
        for place in [Placement(run="r1", attempt=1, part=part, parts=nodes, node=f"n{part}", session="r1.a1")]
    ]
    rows = []
    threading.stack_size(256 * 1024)
    sys.setswitchinterval(0.25)  # thousands of threads that ask for the interpreter 200 times a second would do no more
    with ThreadPoolExecutor(nodes) as pool:
        list(pool.map(lambda peers: peers.open(), all_peers))

        def phase(name: str, act: Callable[[Peers], object]) -> None:
            before = [peers.operations for peers in all_peers]
            begun = time.monotonic()
            answers = list(pool.map(act, all_peers))
            time.sleep(max(0.0, seconds * factor - (time.monotonic() - begun)))
            took = (time.monotonic() - begun) / factor
            counts = [peers.operations - count for peers, count in zip(all_peers, before, strict=True)]
            rows.append(
                {
                    "nodes": nodes,
                    "phase": name,
                    "seconds": round(took, 1),
                    "operations_s": round(sum(counts) / took),
                    "each_s": round(sum(counts) / took / nodes, 2),
                    "most_s": round(max(counts) / took, 2),
                    "taken_for_gone": max((answer for answer in answers if isinstance(answer, int)), default=0),
                }
            )

        phase("agree", lambda peers: agree(peers, lambda _: 100, over=lambda: False))
        phase("train", lambda peers: peers.publish_state(wrote=False))
        phase("wait", lambda peers: _waits(peers, seconds * factor, factor))
        phase("failure", lambda peers: _fails(peers, factor))
        list(pool.map(lambda peers: peers.close(exit_code=1), all_peers))
    return rows


def _waits(peers: Peers, seconds: float, poll_s: float) -> None:
    """Poll the other nodes once a second, like the uploader while a checkpoint is incomplete."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        peers.gather() if peers.part == 0 else peers.first()
        time.sleep(poll_s)


def _fails(peers: Peers, factor: float) -> int:
    """Publish a failed command to all nodes, and check which nodes are gone; return their number."""
    peers.publish(Notice(source=FAILURE, detail="the command ended with 1", code=1))
    return len(peers.lost_nodes(after_s=LOST_AFTER_S * factor))


def requests(nodes: int, folder: Path) -> list[dict[str, Any]]:
    """Requests to S3 for one checkpoint and for one restore of the whole job."""
    folder.mkdir()
    with server(folder) as endpoint:
        command = [sys.executable, "-m", "benchmarks.many_nodes_store", str(nodes), f"s3://{BUCKET}/job"]
        done = subprocess.run(command, cwd=ROOT, env=environment(endpoint), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return list(json.loads(done.stdout))


def manifest(parts: int, files: int, folder: Path) -> dict[str, Any]:
    """The costs of a manifest with `files` files, measured in a separate process."""
    folder.mkdir()
    with server(folder) as endpoint:
        command = [sys.executable, "-m", "benchmarks.many_nodes_store", str(parts), f"s3://{BUCKET}/job", str(files)]
        done = subprocess.run(command, cwd=ROOT, env=environment(endpoint), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout))


def measure(nodes: list[int], *, seconds: float, files: int) -> dict[str, Any]:
    """The figures in the module's docstring."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as name:
        work = Path(name)
        found: dict[str, list[dict[str, Any]]] = {"phases": [], "requests": [], "manifest": []}
        for number in nodes:
            (work / f"folder-{number}").mkdir()
            factor = max(1.0, number / AT_FULL_SPEED)
            with slowed(factor):
                found["phases"] += phases(number, seconds, work / f"folder-{number}", factor=factor)
            found["requests"] += requests(number, work / f"stored-{number}")
        found["manifest"] = [manifest(max(nodes), files, work / "stored")]
    return {"seconds": seconds, **found}


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser(description="What a job of many nodes asks of its shared folder and of S3.")
    parser.add_argument("--nodes", default="2,64,512,2048", help="how many, with commas between")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each phase, as the job counts them")
    parser.add_argument("--files", type=int, default=1_000_000, help="of the large manifest")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    nodes = [int(count) for count in re.split(r"[, ]+", options.nodes)]
    figures = measure(nodes, seconds=options.seconds, files=options.files)
    print(json.dumps(figures, indent=None if options.json else 2))
    return 0 if max(row["most_s"] for row in figures["phases"]) <= MAX_OF_A_NODE_S else 1


if __name__ == "__main__":
    sys.exit(main())
