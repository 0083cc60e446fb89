# ruff: noqa: INP001, S310, T201, UP017 - it is written into the pod, whose init container runs it, on Python 3.9
"""Fetches the job folder from S3 into the pod, verifies its hash, and lets it fetch the command's own folder.

run.retries limits the attempts here and not in the operator: some operators restart an init container without end, and
if the store accepts no record, nothing counts the attempts. The pod then ends for good with the reason as its last
word. Uses only the standard library: the image only needs a Python. Credentials come from EKS (Pod Identity, or a web
identity of the service account), or from the environment.
"""

import contextlib
import datetime as dt
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NoReturn

FOLDER = Path(os.environ.get("SLIPWAY_ROOT", "/slipway")) / "job"
REGION = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
SUFFIX = "amazonaws.com.cn" if REGION.startswith("cn-") else "amazonaws.com"
TRIES, SERVERS_FAULT, BAD_JOB = 6, 500, 78
PAUSE_S, LONGEST_PAUSE_S = (0.2, 0.2) if os.environ.get("SLIPWAY_SANDBOX") == "1" else (10.0, 300.0)
"""Pause between two attempts, doubled each time: the same as kubelet's between two starts of a container."""
START = """import os, sys
from pathlib import Path
reason = {reason!r}
print("slipway:", reason)
Path(os.environ["SLIPWAY_LAST_WORD"]).write_text("slipway gave up: " + reason[:2000], encoding="utf-8")
sys.exit({code})
"""
"""Replaces the job's own start script: it writes why the job failed to the log and to Kubernetes."""


class UnfetchedError(Exception):
    """The job's files are not in the pod, and its failure is not recorded in the store."""


def answer(request: urllib.request.Request) -> bytes:
    """The bytes of a response; a temporary error is retried."""
    for attempt in range(TRIES):
        try:
            with urllib.request.urlopen(request, timeout=60) as stream:
                return bytes(stream.read())
        except OSError as problem:
            if attempt == TRIES - 1 or getattr(problem, "code", SERVERS_FAULT) < SERVERS_FAULT:
                raise
        time.sleep(2**attempt)
    raise AssertionError


def credentials() -> tuple[str, str, str]:
    """Key id, secret and session token (may be empty)."""
    environ = os.environ
    if environ.get("AWS_ACCESS_KEY_ID"):
        return environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"], environ.get("AWS_SESSION_TOKEN", "")
    if environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        token = Path(environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        found = answer(
            urllib.request.Request(environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"], headers={"Authorization": token})
        )
        credentials = json.loads(found)
        return credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["Token"]
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        parameters = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": environ["AWS_ROLE_ARN"],
            "RoleSessionName": "slipway-job",
            "WebIdentityToken": Path(environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text(encoding="utf-8").strip(),
        }
        address = environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{REGION}.{SUFFIX}"
        request = urllib.request.Request(
            address, urllib.parse.urlencode(parameters).encode(), {"Accept": "application/json"}
        )
        response = json.loads(answer(request))["AssumeRoleWithWebIdentityResponse"]
        issued = response["AssumeRoleWithWebIdentityResult"]["Credentials"]
        return issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"]
    raise UnfetchedError(
        "slipway: the pod has no credentials: its service account needs a Pod Identity association (docs/kubernetes.md)"
    )


def sign_request(bucket: str, key: str, region: str, data: "bytes | None" = None) -> urllib.request.Request:
    """A signed request that reads an object, or with `data` writes it (AWS Signature Version 4)."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    base = endpoint or f"https://s3.{region}.{SUFFIX}"
    path = urllib.parse.quote(f"/{bucket}/{key}")
    host = urllib.parse.urlsplit(base).netloc
    key_id, secret, token = credentials()
    now = dt.datetime.now(dt.timezone.utc)
    day, moment = now.strftime("%Y%m%d"), now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": moment}
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    whole = f"{'GET' if data is None else 'PUT'}\n{path}\n\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(whole.encode()).hexdigest()}"
    signing_key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        signing_key = hmac.new(signing_key, part.encode(), hashlib.sha256).digest()
    proof = hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={proof}"
    headers["Content-Type"] = "application/octet-stream"
    return urllib.request.Request(f"{base}{path}", data, headers, method="GET" if data is None else "PUT")


def end_run(reason: str) -> NoReturn:
    """End the run for an error that a retry cannot fix.

    Raises:
        UnfetchedError: the store does not accept the record.
    """
    try:
        record(reason)
    except (OSError, LookupError, ValueError) as problem:
        raise UnfetchedError(reason) from problem
    end_pod(reason)


def record(reason: str) -> None:
    """Record in the run's part of the store that the run failed, and why."""
    bucket, _, place = os.environ["SLIPWAY_JOURNAL"].removeprefix("s3://").partition("/")
    life = json.dumps({"life": 1, "completed": True, "failed": BAD_JOB})
    answer(sign_request(bucket, f"{place}/life.json", REGION, f"{life}\n".encode()))
    log = sign_request(bucket, f"{place}/log.txt/000000000000000", REGION, f"{reason}\n".encode())
    log.add_header("If-None-Match", "*")
    with contextlib.suppress(urllib.error.HTTPError):  # an earlier life has begun it
        answer(log)


def end_pod(reason: str) -> NoReturn:
    """Let this pod end immediately and for good."""
    start = FOLDER / "kubernetes" / "start.py"
    start.parent.mkdir(parents=True, exist_ok=True)
    # A Job fails at this code; the other operators start again whatever fails.
    code = BAD_JOB if os.environ.get("SLIPWAY_OPERATOR") == "job" else 0
    start.write_text(START.format(reason=reason.removeprefix("slipway: "), code=code), encoding="utf-8")
    sys.exit(0)


def download(uri: str) -> bytes:
    """The bytes of an object; a bucket of another region is read in the region that its error names."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        return answer(sign_request(bucket, key, REGION))
    except urllib.error.HTTPError as problem:
        there = problem.headers.get("x-amz-bucket-region")
        if there and there != REGION:
            return answer(sign_request(bucket, key, there))
        if problem.code >= SERVERS_FAULT:
            raise
        end_run(f"slipway: {uri}: S3 answers {problem.code}: {problem.read(300).decode(errors='replace')}")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack files and folders; refuse any other member, and paths outside the folder."""
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed.getmembers():
            parts = Path(member.name).parts
            if member.name.startswith("/") or ".." in parts or not (member.isreg() or member.isdir()):
                end_run(f"slipway: {member.name} is not a file of a job folder")
            place = folder / member.name
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with packed.extractfile(member) as content, place.open("wb") as stream:
                shutil.copyfileobj(content, stream)
            place.chmod(0o755 if member.mode & 0o100 else 0o644)


def fetch() -> None:
    """Fetch the job folder into the pod, once, and the command's own folder.

    Raises:
        OSError: S3 does not respond.
        UnfetchedError: S3 refuses, or the command's folder could not be fetched.
    """
    uri, expected, size = (os.environ[f"SLIPWAY_JOB_{name}"] for name in ("URI", "SHA256", "BYTES"))
    if not FOLDER.is_dir():
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        fresh = FOLDER.with_name(f".{FOLDER.name}-{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        content = download(uri)
        digest = hashlib.sha256(content).hexdigest()
        if (str(len(content)), digest) != (size, expected):
            end_run(f"slipway: {uri} has {len(content)} bytes and SHA-256 {digest}, wanted {size} and {expected}")
        (fresh / ".archive").write_bytes(content)
        unpack(fresh / ".archive", fresh)
        (fresh / ".archive").unlink()
        fresh.rename(FOLDER)
        print(f"slipway: fetched {uri} ({size} bytes)")
    os.chdir(FOLDER)
    if Path("fetch_work.py").is_file():
        done = subprocess.run([sys.executable, "fetch_work.py"], stderr=subprocess.PIPE, text=True, check=False)
        sys.stderr.write(done.stderr)
        if done.returncode == BAD_JOB:
            end_run(done.stderr.strip())
        if done.returncode:
            raise UnfetchedError(done.stderr.strip())


# The first process of a container hears of its end only where it asks to.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
pause_s, tries = PAUSE_S, 1 + int(os.environ["SLIPWAY_RETRIES"])
for number in range(1, tries + 1):
    try:
        fetch()
        break
    except UnfetchedError as problem:
        why = str(problem)
    except (OSError, LookupError, ValueError) as problem:
        why = f"slipway: cannot fetch the job's files: {type(problem).__name__}: {problem}"
    print(f"{why} (try {number} of {tries})", flush=True)
    if number < tries:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
else:
    with contextlib.suppress(OSError, LookupError, ValueError, UnfetchedError):
        record(why)
    end_pod(f"{why} ({tries} tries: run.retries)")
