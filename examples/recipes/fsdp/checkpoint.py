"""PyTorch distributed checkpoints, written while training continues: directly to S3, or into a folder.

For s3://bucket/prefix, the ranks upload their shards through s3torchconnector, and `.metadata` last: without it, the
checkpoint does not count. The plan has `checkpoint: {mode: dcp}`.

A folder is written as tmp-step-N and renamed to step-N, and the agent uploads it: `checkpoint: {mode: agent}`. Use it
on one node, or with a file system that all nodes share; it needs only PyTorch.
"""

import contextlib
import os
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.stateful import Stateful

_PARTIAL = "tmp-"


def s3(kind: str, place: str) -> Any:
    """s3torchconnector's "Writer" or "Reader" of a place in S3."""
    try:
        from s3torchconnector import S3ClientConfig  # noqa: PLC0415 - not every way of running needs it
        from s3torchconnector.dcp import S3StorageReader, S3StorageWriter  # noqa: PLC0415 - the same
    except ImportError as problem:
        sys.exit(
            f"{place} needs s3torchconnector ({problem}): pip install 's3torchconnector[dcp]', "
            "or set checkpoint.mode to agent in the plan: then checkpoints go to a folder and the agent uploads them"
        )
    # An endpoint of one's own (a test, a private store) rarely answers to bucket names in its host name.
    config = S3ClientConfig(force_path_style="AWS_ENDPOINT_URL" in os.environ)
    region = os.environ.get("AWS_REGION", "us-east-1")
    if kind == "Reader":
        return S3StorageReader(region, place, s3client_config=config)
    return S3StorageWriter(region, place, s3client_config=config, thread_count=4)


def load(place: str, state: Stateful) -> None:
    """Read a checkpoint into a state; every rank takes part."""
    dcp.load({"app": state}, storage_reader=s3("Reader", place) if _is_s3(place) else dcp.FileSystemReader(place))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    step: int
    future: Future[Any]
    began: float


class Checkpoints:
    """Writes one checkpoint at a time, in the background; every rank makes the same calls in the same order."""

    def __init__(self, place: str) -> None:
        """Take a place: an s3:// address or a folder; "": nothing is written."""
        self._place = place.rstrip("/")
        # The writing thread talks to the other ranks while training does: over a group of its own.
        self._group = dist.new_group(backend="gloo")
        self._pending: _Pending | None = None
        self.last_step = -1

    def begin(self, step: int, state: Stateful) -> float | None:
        """Copy the state aside and start to write it; the seconds of the write before, if it had to be waited for."""
        if not self._place or step == self.last_step:
            return None
        seconds = self.wait()
        place = f"{self._place}/step-{step}"
        if not _is_s3(place):
            place = f"{self._place}/{_PARTIAL}step-{step}"
            Path(place).mkdir(parents=True, exist_ok=True)
        writer = s3("Writer", place) if _is_s3(place) else dcp.FileSystemWriter(place)
        began = time.monotonic()
        future = dcp.async_save({"app": state}, storage_writer=writer, process_group=self._group)
        if not isinstance(future, Future):
            future = future.upload_completion
        self._pending = _Pending(step=step, future=future, began=began)
        self.last_step = step
        return seconds

    def wait(self) -> float | None:
        """The seconds that the pending write took, once it is whole; None without one, or where it failed."""
        if self._pending is None:
            return None
        pending, self._pending = self._pending, None
        try:
            pending.future.result()
        except CheckpointException as problem:  # on every rank, whichever of them it was
            if dist.get_rank() == 0:
                causes = "; ".join(f"rank {rank}: {cause}" for rank, (cause, _) in problem.failures.items())
                print(f"step {pending.step} could not be saved, training goes on: {causes}", flush=True)
            self.last_step = -1
            return None
        return self._finished(pending)

    def poll(self) -> float | None:
        """The seconds that a write took, if it is whole by now."""
        return self.wait() if self._pending is not None and self._pending.future.done() else None

    def _finished(self, pending: _Pending) -> float:
        """Rename a folder into place: when this rank's save has ended, all shards and the metadata are there."""
        seconds = time.monotonic() - pending.began
        if not _is_s3(self._place) and int(os.environ.get("LOCAL_RANK", "0")) == 0:
            folder = Path(self._place)
            target = folder / f"step-{pending.step}"
            with contextlib.suppress(FileNotFoundError):  # on a shared file system another node was first
                (folder / f"{_PARTIAL}{target.name}").rename(target)
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
        return seconds


def _is_s3(place: str) -> bool:
    return place.startswith("s3://")
