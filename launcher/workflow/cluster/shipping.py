"""Ships a job to the cluster: the user's folder as an archive in S3, and the job folder that names it.

The archive's key is the hash of its content, so that Slipway sends the same folder only once. No archive holds a
secret: a plan names secrets by their ARN, and the batch script fetches the values at every start.
"""

import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from launcher.agent.build import build
from launcher.aws.objects import Objects
from launcher.catalog.assets import asset
from launcher.model.bundle import Bundle
from launcher.model.job import GitState
from launcher.model.monitoring import RESENT_DAYS, STAGED_FOLDER
from launcher.model.quote import Quote
from launcher.model.stages import Notify, Stage, stage
from launcher.model.units import number_of
from launcher.pricing.interruptible import losses_per_h
from launcher.records.run_folder import write_bundle, write_whole
from launcher.records.submission import HeadNode, Submission
from launcher.rendering.batch import AGENT_FILE, FETCH_FILE, FETCH_SCRIPT, WORK_FOLDER, JobSettings
from launcher.rendering.blanks import blank_archive
from launcher.rendering.names import checkpoint_uri
from launcher.submit.work_archive import WorkArchive, pack
from launcher.workflow.cluster.deployed import JobRequest

WORK_FILE = "work.json"
"""Next to the batch script: place, size and hash of the archive (templates/slurm/fetch_work.py reads it)."""
_MIB = 1024 * 1024
SHOWN = 5
"""The maximum number of omitted file names that a line shows."""
_FAST = 1
"""The agent in the archive is already compressed: a higher level takes ten times as long and saves a sixth."""


def job_settings(quote: Quote, run: str) -> JobSettings:
    """The settings of a submission of a quoted plan, at the checkpoint interval that was priced."""
    write_s = quote.work.checkpoint_write_s if quote.work is not None else None
    return JobSettings(
        run=run,
        checkpoint_interval_s=quote.checkpoint_interval_s,
        mtbf_s=_mtbf_s(quote),
        checkpoint_write_s=write_s.high if write_s is not None else 0.0,
        archive=blank_archive(quote.plan),
        retries=quote.retries,
        longest_h=quote.hours.high,
    )


def _mtbf_s(quote: Quote) -> float | None:
    """Mean seconds between failures, for an automatic checkpoint interval; None if the interval is fixed."""
    if quote.plan.request.checkpoint.interval is not None or quote.work is None:
        return None
    losing = losses_per_h(quote.work, quote.spot.interruptions_per_hour if quote.spot is not None else 0.0)
    return 3600.0 / losing if losing > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipment:
    """A folder in S3; `sent` is False if it was stored already."""

    uri: str
    archive: WorkArchive
    sent: bool

    def document(self) -> dict[str, Any]:
        """The shipment for the node and the run's record."""
        git = self.archive.git
        return {
            "folder": WORK_FOLDER,
            "uri": self.uri,
            "sha256": self.archive.sha256,
            "bytes": self.archive.bytes,
            "files": self.archive.files,
            "left_out": list(self.archive.left_out),
            "git": None if git is None else {"revision": git.revision, "dirty": git.dirty},
        }

    def text(self) -> str:
        """The shipment in words for the user."""
        count = self.archive.files
        size = f"{number_of(count, 'file')}, {self.archive.bytes / _MIB:,.1f} MiB"
        went = f"{revision_text(self.archive.git)}, {'sent to' if self.sent else 'already in'} S3"
        return f"run.workdir: {size}, {went}{omitted_text(self.archive.left_out)}"


def revision_text(git: GitState | None) -> str:
    """The git revision of a shipped folder, in words."""
    if git is None:
        return "not in git"
    at = "no commit yet" if git.revision is None else f"git {git.revision[:12]}"
    return f"{at}, with changes that are not committed" if git.dirty else at


def omitted_text(names: Sequence[str]) -> str:
    """Private files that were not shipped, and how to ship them.

    >>> omitted_text([".env", "keys/id_rsa"])
    '; left out as private: .env, keys/id_rsa (add the line !.env to .slipwayignore to ship it)'
    """
    if not names:
        return ""
    shown = ", ".join(name.encode(errors="replace").decode() for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    first = names[0].encode(errors="replace").decode()
    return f"; left out as private: {shown}{more} (add the line !{first} to .slipwayignore to ship it)"


def ship_work(folder: Path, store: Objects, environment: Mapping[str, str], now: datetime, notify: Notify) -> Shipment:
    """Send the user's folder to S3.

    The archive's key is below `.work/` of the store, which no plan name can match. Slipway sends an archive again if
    the stored copy would soon expire at `now` (UTC).

    Raises:
        ImpossibleError: the folder cannot be shipped.
    """
    with tempfile.TemporaryDirectory(prefix="slipway-work-") as temporary, stage(notify) as shipping:
        shipping.now("packing run.workdir")
        archive = pack(folder, Path(temporary) / "work.tar.gz", environment)
        key = f"{STAGED_FOLDER}/{archive.sha256}.tar.gz"
        stored = store.find(key)
        fresh = stored is not None and now - stored.modified < timedelta(days=RESENT_DAYS)
        stored_already = fresh and stored is not None and stored.bytes == archive.bytes
        if not stored_already:
            store.send(archive.path, key, _upload_progress(shipping, archive.bytes))
    return Shipment(uri=f"{store.uri}/{key}", archive=archive, sent=not stored_already)


def _upload_progress(shipping: Stage, total: int) -> Callable[[int], None]:
    """Show how much of a file is sent; its parts are sent in parallel, by separate threads."""
    gone, lock = 0, Lock()

    def progress(more: int) -> None:
        nonlocal gone
        with lock:
            gone += more
            text = f"sending run.workdir: {gone / _MIB:,.1f} of {total / _MIB:,.1f} MiB"
            shipping.now(text, share=gone / max(1, total))

    progress(0)
    return progress


def _for_anybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file of the job folder with permissions for any user: a container may run as another user than the job."""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


@contextmanager
def job_archive(bundle: Bundle, shipment: Shipment) -> Iterator[tuple[Path, str]]:
    """A job folder as a tar.gz archive, and the hash of its agent; the archive is deleted at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="slipway-job-") as temporary:
        folder = Path(temporary) / "job"
        folder.mkdir()
        write_bundle(bundle, folder)
        write_whole(folder / WORK_FILE, json.dumps(shipment.document(), indent=2) + "\n")
        write_whole(folder / FETCH_FILE, asset(FETCH_SCRIPT).read_text(encoding="utf-8"))
        agent = build(folder / AGENT_FILE)
        target = Path(temporary) / "job.tar.gz"
        with tarfile.open(target, "w:gz", compresslevel=_FAST) as archive:
            for path in sorted(folder.rglob("*")):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=_for_anybody)
        yield target, agent


def submission_of(request: JobRequest, head_node: HeadNode, shipment: Shipment, folder: str = "") -> Submission:
    """A submission before it is made."""
    return Submission(
        key=request.key,
        target=request.quoted.plan.place.target,
        head_node=head_node,
        cluster=request.quoted.plan.cluster_name,
        folder=folder,
        store_uri=request.cluster.names.store_uri,
        checkpoint_uri=f"{checkpoint_uri(request.quoted.plan, request.cluster.names)}{request.checkpoint_suffix}",
        work=shipment.document(),
        asked_at=datetime.now(UTC),
    )
