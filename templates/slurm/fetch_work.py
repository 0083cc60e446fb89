# ruff: noqa: INP001, T201 - one file that is shipped as it is and runs beside the batch script; what it prints is the job's log
"""Fetches the command's folder from S3 into the job folder: `python3 fetch_work.py` in the job folder, once per job.

work.json has the URI, size and hash of the archive. The archive is unpacked next to its final place and then renamed,
so an existing folder is complete. Links that lead outside the folder, and members that are neither file, folder nor
link, are refused. Uses only the standard library and the agent's own botocore.
"""

import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import zipimport
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

AGENT = Path(os.environ.get("SLIPWAY_AGENT", "slipway-agent.pyz"))
TRIES, SERVERS_FAULT, BAD_JOB = 5, 500, 78


class Refusal(Exception):  # noqa: N818 - a refusal, said to a person
    """The archive is invalid."""


def client() -> Any:
    """An S3 client, from the agent's own copy of botocore: a node need not have it, and boto3 takes longer to load."""
    bootstrap = {"__name__": "bootstrap"}
    exec(zipimport.zipimporter(str(AGENT)).get_code("__main__"), bootstrap)  # noqa: S102 - the agent's own start
    sys.path.insert(0, str(bootstrap["payload_folder"](AGENT, bootstrap["file_hash"](AGENT))))
    import botocore.session  # noqa: PLC0415 - it is there only now
    from botocore.config import Config  # noqa: PLC0415 - the same

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    style = {"addressing_style": "path"} if endpoint else {}
    config = Config(retries={"mode": "standard", "total_max_attempts": TRIES}, s3=style)
    return botocore.session.get_session().create_client("s3", config=config)


def download(work: Mapping[str, Any], target: Path) -> None:
    """Download the archive and verify its size and hash."""
    bucket, _, key = work["uri"].removeprefix("s3://").partition("/")
    digest, size, s3 = hashlib.sha256(), 0, client()
    with target.open("wb") as stream:
        try:
            body = s3.get_object(Bucket=bucket, Key=key)["Body"]
        except s3.exceptions.ClientError as problem:
            status = problem.response["ResponseMetadata"]["HTTPStatusCode"]
            if status >= SERVERS_FAULT:
                raise
            raise Refusal(f"{work['uri']}: S3 answers {status}") from problem
        for block in iter(lambda: body.read(1 << 20), b""):
            stream.write(block)
            digest.update(block)
            size += len(block)
    if (size, digest.hexdigest()) != (work["bytes"], work["sha256"]):
        raise Refusal(f"{work['uri']} has {size} bytes and SHA-256 {digest.hexdigest()}, not those of work.json")


def check(member: tarfile.TarInfo, links: set[str]) -> None:
    """Refuse a member that would be outside the folder, by its name, by its target or through an earlier link."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise Refusal(f"{member.name} lies outside")
    if any(str(parent) in links for parent in path.parents):
        raise Refusal(f"{member.name} lies behind a link")
    if member.issym():
        target = os.path.normpath(path.parent / member.linkname)
        if PurePosixPath(member.linkname).is_absolute() or target == ".." or target.startswith("../"):
            raise Refusal(f"{member.name} leads outside, to {member.linkname}")
        links.add(str(path))
    elif not (member.isreg() or member.isdir()):
        raise Refusal(f"{member.name} is neither file, folder nor link")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder; refuse a file behind a link, so that nothing is written through a link."""
    with tarfile.open(archive, "r:gz") as packed:
        members = packed.getmembers()
        links: set[str] = set()
        for member in members:
            check(member, links)
        if any(str(parent) in links for member in members for parent in PurePosixPath(member.name).parents):
            raise Refusal("a file lies behind a link")
        for member in members:
            place = folder / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                place.symlink_to(member.linkname)
            elif member.isdir():
                place.mkdir(exist_ok=True)
            else:
                with packed.extractfile(member) as content, place.open("xb") as stream:
                    shutil.copyfileobj(content, stream)
                place.chmod(0o755 if member.mode & 0o100 else 0o644)


def main() -> int:
    """Fetch the folder that work.json names, if it does not exist yet."""
    work = json.loads(Path("work.json").read_text(encoding="utf-8"))
    target, began = Path(work["folder"]), time.monotonic()
    if target.is_dir():
        return 0
    fresh = Path(tempfile.mkdtemp(prefix=".work-", dir="."))
    try:
        download(work, fresh / "archive")
        (fresh / "work").mkdir()
        unpack(fresh / "archive", fresh / "work")
        (fresh / "work").rename(target)
    except (Refusal, OSError, tarfile.TarError, EOFError) as problem:
        print(f"slipway: cannot fetch the command's folder: {problem}", file=sys.stderr)
        return BAD_JOB if isinstance(problem, Refusal) else 1
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    print(f"slipway: fetched {work['uri']} ({work['bytes']:,} bytes) in {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
