"""Files whose parts arrive in any order, hashed as they arrive."""

import hashlib
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.agent.store import incoming
from launcher.agent.store.incoming import Incoming

PART = 1000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(incoming, "PART_BYTES", PART)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def content_of(size):
    return hashlib.shake_256(str(size).encode()).digest(size)


def bring(file, part, content, pieces=3):
    """Write a part in pieces, as a worker does."""
    step = max(1, (part.end - part.begin) // pieces)
    with file.path.open("r+b") as there:
        for begin in range(part.begin, part.end, step):
            piece = memoryview(content)[begin : min(begin + step, part.end)]
            there.seek(begin)
            there.write(piece)
            there.flush()
            part.reaches(piece)
    file.record_part(part, memoryview(bytearray(300)))


@settings(max_examples=200)
@given(st.data())
def test_hash_equals_the_content_for_every_order_of_parts(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("parts") / "file"
    path.touch()
    size = data.draw(st.integers(0, 9 * PART))
    content, file, taken = content_of(size), Incoming("key", path, size), []
    while file.remaining or taken:
        if file.remaining and (not taken or data.draw(st.booleans())):
            taken.append(file.take())
        else:
            bring(file, taken.pop(data.draw(st.integers(0, len(taken) - 1))), content)
    assert path.read_bytes() == content
    assert file.result() == hashlib.sha256(content).hexdigest()


def test_many_workers_at_once(path):
    path.touch()
    content = content_of(200 * PART + 1)
    file = Incoming("key", path, len(content))
    begin = threading.Barrier(8)

    def work():
        begin.wait()
        while part := file.take():
            bring(file, part, content)

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work) for _ in range(8)]:
            future.result()
    assert file.result() == hashlib.sha256(content).hexdigest()


def test_hash_is_computed_one_part_at_a_time(path):
    file = Incoming("key", path, 3 * PART)
    assert [file.take().hashed for _ in range(3)] == [True, False, False]


def test_single_worker_hashes_every_part_on_arrival(path):
    path.touch()
    content = content_of(5 * PART)
    file = Incoming("key", path, len(content))
    while part := file.take():
        assert part.hashed
        bring(file, part, content)
    assert file.result() == hashlib.sha256(content).hexdigest()


def test_short_object_has_the_hash_of_the_short_content(path):
    path.touch()
    file = Incoming("key", path, PART)
    part = file.take()
    part.reaches(memoryview(b"short"))
    file.record_part(part, memoryview(bytearray(10)))
    assert file.result() == hashlib.sha256(b"short").hexdigest()


def test_first_error_is_raised_and_no_further_part_begins(path):
    file = Incoming("key", path, 3 * PART)
    part = file.take()
    file.fail(OSError("full"))
    file.cancel()
    assert file.take() is None
    file.record_part(part, memoryview(bytearray(10)))
    with pytest.raises(OSError, match="full"):
        file.result()


def test_parts_ahead_are_not_read_after_an_error(path):
    """Its file is not there: reading it would fail."""
    file = Incoming("key", path, 4 * PART)
    first, *ahead = (file.take() for _ in range(4))
    for part in ahead:
        file.record_part(part, memoryview(bytearray(10)))
    file.fail(OSError("full"))
    file.record_part(first, memoryview(bytearray(10)))
    with pytest.raises(OSError, match="full"):
        file.result()


def test_cancelled_file_raises_cancelled_error(path):
    file = Incoming("key", path, 1)
    file.cancel()
    with pytest.raises(CancelledError):
        file.result()


def test_complete_file_stays_complete_after_cancel(path):
    file = Incoming("key", path, 0)
    file.cancel()
    assert file.result() == hashlib.sha256(b"").hexdigest()
