"""The body of an answer, read into memory that is there already.

`readinto` of urllib3 2.8 reads into memory that it asks for anew, and copies that while it holds the interpreter: of a
large restore on two processors a quarter of the time. Below it lies the response of `http.client`, which reads from the
socket into the memory it is given. The agent brings its own urllib3; where that looks otherwise one day, its own
`readinto` is used.
"""

from http.client import HTTPException, HTTPResponse
from typing import Any

from botocore.exceptions import IncompleteReadError, ResponseStreamingError
from urllib3.exceptions import HTTPError


class Body:
    """One answer's body, of a length that S3 has said."""

    def __init__(self, stream: Any, length: int) -> None:
        """Nothing is read yet.

        Args:
            stream: botocore's.
            length: Bytes, as the answer's head says.
        """
        self._stream = stream
        self._left = self._length = length
        self._raw = getattr(stream, "_raw_stream", None)
        fp = getattr(self._raw, "_fp", None)
        self._plain = fp if isinstance(fp, HTTPResponse) and not fp.chunked and fp.length == length else None

    def read_into(self, buffer: memoryview) -> int:
        """Read until the memory is full or the body ends; how many bytes came, 0 at its end.

        Raises:
            IncompleteReadError: It ends before its length.
            ResponseStreamingError: The connection is of no more use.
            ReadTimeoutError: Nothing came for too long.
        """
        try:
            got = int((self._stream if self._plain is None else self._plain).readinto(buffer))
        except (HTTPError, HTTPException, OSError) as error:
            raise ResponseStreamingError(error=error) from error
        self._left -= got
        if self._plain is not None and not got and len(buffer) and self._left:
            raise IncompleteReadError(actual_bytes=self._length - self._left, expected_bytes=self._length)
        return got

    def close(self) -> None:
        """Give the connection back if all was read, else end it."""
        if self._plain is not None and self._left == 0 and self._raw is not None:
            self._raw.release_conn()
        self._stream.close()
