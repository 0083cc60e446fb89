"""Downloading objects in parts, over connections that break."""

import hashlib
import itertools
import ssl
from hashlib import sha256
from http.client import HTTPResponse

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from urllib3.exceptions import SSLError

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store
from launcher.agent.store.transfers import PART_BYTES
from tests.checks import some
from tests.emulators.moto_server import KEYS
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX
from tests.sandbox.agent.front import Front

pytestmark = pytest.mark.server

SIZE = PART_BYTES + 1_000_001
CONTENT = hashlib.shake_256(b"content").digest(1_000_003) * 18
CONTENT = CONTENT[:SIZE]
ATTEMPTS = 5
BREAKS = (1, 4, 7, 10)
"""Reads that break, one fewer than a part is tried, so that whichever of the parallel workers meet them go on."""


@pytest.fixture
def store_front(endpoint, monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with Front(endpoint) as front:
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.endpoint)
        yield front


@pytest.fixture
def store_behind_front(bucket, store_front, tmp_path):
    """A store behind the front, with an object of two parts."""
    store = Store(f"s3://{BUCKET}/{PREFIX}", timeout_s=5)
    (tmp_path / "source").write_bytes(CONTENT)
    with store.uploads() as uploads:
        uploads.upload(tmp_path / "source", "large", size=len(CONTENT), sha256=sha256(CONTENT).hexdigest())
    store_front.begun.clear()
    return store


def fetch(store, path, size=SIZE, key="large"):
    with store.downloads() as downloads:
        file = downloads.download(key, path, size)
    content = path.read_bytes()
    assert file.result() == hashlib.sha256(content).hexdigest()
    return content


def test_large_object_downloads_in_two_requests(store_behind_front, store_front, tmp_path):
    (tmp_path / "there").write_bytes(b"what was in the file before" * 2_000_000)
    assert fetch(store_behind_front, tmp_path / "there") == CONTENT
    assert [method for method, _ in store_front.begun] == ["GET", "GET"]


def test_repeatedly_broken_download_resumes_at_offset(store_behind_front, store_front, tmp_path):
    """Each answer ends in its middle: halves of halves, until the rest is so small that it comes in one."""
    most = itertools.count()
    store_front.rule = lambda *_: "cut-body" if next(most) < 3 * ATTEMPTS else None
    assert fetch(store_behind_front, tmp_path / "there") == CONTENT
    assert len(store_front.begun) == 3 * ATTEMPTS + 2


def test_download_without_progress_fails(store_behind_front, store_front, tmp_path):
    store_front.rule = lambda *_: "cut"
    with pytest.raises(StoreError, match="downloading large"):
        fetch(store_behind_front, tmp_path / "there")


def test_cancelled_download_raises_cut_off(store_behind_front, store_front, tmp_path):
    store_front.rule = lambda *_: "before"
    downloads = store_behind_front.downloads()
    downloads.download("large", tmp_path / "there", SIZE)
    assert store_front.held.wait(30)
    store_behind_front.cancel()
    store_front.over.set()
    with pytest.raises(StoreError) as caught:
        downloads.wait()
    assert caught.value.cut_off


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1])
def test_download_of_part_boundary_sizes_is_complete(bucket, store_behind_front, tmp_path, size):
    bucket.write("edge", CONTENT[:size])
    assert fetch(store_behind_front, tmp_path / "there", size, "edge") == CONTENT[:size]


def test_download_of_missing_object_raises_missing(store_behind_front, tmp_path):
    with pytest.raises(StoreError) as caught:
        fetch(store_behind_front, tmp_path / "there", 10, "other")
    assert caught.value.missing


def test_download_into_missing_folder_raises_os_error(store_behind_front, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        fetch(store_behind_front, tmp_path / "none" / "there")


def test_cancelled_download_makes_no_further_requests(store_behind_front, store_front, tmp_path):
    """A stalled request ends by its time-out; a part that was cut off meanwhile does not ask again."""
    store_front.rule = lambda *_: "before"
    impatient = Store(f"s3://{BUCKET}/{PREFIX}", timeout_s=0.2)
    downloads = impatient.downloads()
    downloads.download("large", tmp_path / "there", SIZE)
    assert store_front.held.wait(30)
    impatient.cancel()
    with pytest.raises(StoreError) as caught, downloads:
        downloads.wait()
    assert caught.value.cut_off
    assert len(store_front.begun) <= 2 * 3  # of each part botocore's three tries


SIZES = [0, 1, 3 * PART_BYTES, 70_000, PART_BYTES, 2 * PART_BYTES + 5, PART_BYTES - 1]


def upload(store, folder):
    """Objects of several sizes; their contents."""
    contents = {}
    with store.uploads() as uploads:
        for number, size in enumerate(SIZES):
            contents[f"object-{number}"] = content = (bytes([number]) + CONTENT * 2)[:size]
            (folder / f"source-{number}").write_bytes(content)
            content = (folder / f"source-{number}").read_bytes()
            uploads.upload(
                folder / f"source-{number}", f"object-{number}", size=len(content), sha256=sha256(content).hexdigest()
            )
    return contents


def test_parallel_downloads_with_broken_connections_are_complete(store_behind_front, store_front, tmp_path):
    contents = upload(store_behind_front, tmp_path)
    request_number = itertools.count()
    store_front.rule = lambda *_: "cut-body" if next(request_number) % 3 == 0 else None
    with store_behind_front.downloads() as downloads:
        coming = {key: downloads.download(key, tmp_path / key, len(content)) for key, content in contents.items()}
        downloads.wait()
    for key, content in some(contents.items()):
        assert (tmp_path / key).read_bytes() == content
        assert coming[key].result() == hashlib.sha256(content).hexdigest()


def test_missing_object_does_not_prevent_other_downloads(store_behind_front, tmp_path):
    contents = upload(store_behind_front, tmp_path)
    downloads = store_behind_front.downloads()
    missing = downloads.download("missing", tmp_path / "missing", 5 * PART_BYTES)
    coming = {key: downloads.download(key, tmp_path / key, len(content)) for key, content in contents.items()}
    with pytest.raises(StoreError) as caught, downloads:
        downloads.wait()
    assert caught.value.missing
    assert downloads.arrived == set(contents)
    with pytest.raises(ClientError):
        missing.result()
    for key, content in contents.items():
        assert coming[key].result() == hashlib.sha256(content).hexdigest()


def test_broken_tls_record_resumes_download(store_behind_front, tmp_path, monkeypatch):
    """The part goes on from where it broke, as often as may be."""
    real, broken = HTTPResponse.readinto, itertools.count()

    def readinto(body, buffer):
        if next(broken) in BREAKS:
            raise ssl.SSLError("decryption failed or bad record mac")
        return real(body, buffer)

    monkeypatch.setattr(HTTPResponse, "readinto", readinto)
    assert fetch(store_behind_front, tmp_path / "there") == CONTENT


def test_stalled_connection_resumes_download(store_behind_front, store_front, tmp_path, monkeypatch):
    real, stalled = HTTPResponse.readinto, itertools.count()

    def readinto(body, buffer):
        if next(stalled) in BREAKS:
            raise TimeoutError("timed out")
        return real(body, buffer)

    monkeypatch.setattr(HTTPResponse, "readinto", readinto)
    assert fetch(store_behind_front, tmp_path / "there") == CONTENT


def test_download_reads_below_urllib3_or_falls_back(store_behind_front, tmp_path, monkeypatch):
    """Its own `readinto` copies; where it looks otherwise one day, that is used and brings the same."""

    def readinto(*_):
        raise AssertionError("urllib3 copied")

    with monkeypatch.context() as patched:
        patched.setattr(StreamingBody, "readinto", readinto)
        assert fetch(store_behind_front, tmp_path / "there") == CONTENT
    monkeypatch.setattr("launcher.agent.store.downloads.HTTPResponse", str)
    assert fetch(store_behind_front, tmp_path / "again") == CONTENT


def test_urllib3_ssl_error_resumes_download(store_behind_front, tmp_path, monkeypatch):
    """botocore translates only a part of what urllib3 raises."""
    real, broken = StreamingBody.readinto, itertools.count()

    def readinto(body, buffer):
        if next(broken) in BREAKS:
            raise SSLError("decryption failed or bad record mac")
        return real(body, buffer)

    monkeypatch.setattr("launcher.agent.store.downloads.HTTPResponse", str)
    monkeypatch.setattr(StreamingBody, "readinto", readinto)
    assert fetch(store_behind_front, tmp_path / "there") == CONTENT
    assert next(broken) > 0


def test_permanently_broken_tls_connection_fails_download(store_behind_front, tmp_path, monkeypatch):
    def readinto(*_):
        raise ssl.SSLError("decryption failed or bad record mac")

    monkeypatch.setattr(HTTPResponse, "readinto", readinto)
    with pytest.raises(StoreError, match="bad record mac"):
        fetch(store_behind_front, tmp_path / "there")


def test_broken_tls_record_of_small_object_is_reported(bucket, store_behind_front, monkeypatch):
    bucket.write("small", b"{}")

    def read(*_, **__):
        raise SSLError("decryption failed or bad record mac")

    monkeypatch.setattr(StreamingBody, "read", read)
    for ask in (store_behind_front.read_bytes, store_behind_front.find_text):
        with pytest.raises(StoreError, match="bad record mac"):
            ask("small")
