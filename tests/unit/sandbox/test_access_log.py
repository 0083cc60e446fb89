import pytest

from launcher.sandbox.aws.access_log import AccessLog, read, service_of

SIGNED = "AWS4-HMAC-SHA256 Credential=AKIA/20261120/us-east-1/{}/aws4_request, SignedHeaders=host, Signature=0"


def request(application, *, method="GET", path="/store/step-1/a.bin", service="s3", query="", length=""):
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_LENGTH": length,
        "HTTP_AUTHORIZATION": SIGNED.format(service),
    }
    return b"".join(application(environ, lambda *_: None))


def answer(environ, start_response):
    start_response("206 Partial Content", [])
    return [b"abc", b"de"]


class TestAccessLog:
    def test_access_log_records_request_and_answer(self, tmp_path):
        log = tmp_path / "log"
        assert request(AccessLog(answer, log), query="partNumber=1", length="7") == b"abcde"
        (entry,) = read(log)
        assert (entry.method, entry.bucket, entry.key, entry.query) == ("GET", "store", "step-1/a.bin", "partNumber=1")
        assert (entry.status, entry.bytes, entry.sent) == (206, 5, 7)

    @pytest.mark.parametrize("parts", [[], [b""], [b"abc"], [b"", b"abc"], [b"abc", b"de"]])
    def test_request_is_logged_before_its_answer_is_whole(self, tmp_path, parts):
        """The headers of an answer without a body leave with its first part: the next request may follow at once."""
        log, sent = tmp_path / "log", b""
        environ = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/store/a", "HTTP_AUTHORIZATION": SIGNED.format("s3")}
        for part in AccessLog(lambda _, start: (start("200 OK", []), parts)[1], log)(environ, lambda *_: None):
            sent += part
            assert sent != b"".join(parts) or read(log)
        assert sent == b"".join(parts)
        assert len(read(log)) == 1

    def test_access_log_leaves_out_other_services(self, tmp_path):
        request(AccessLog(answer, tmp_path / "log"), service="ec2", path="/")
        assert read(tmp_path / "log") == ()

    def test_access_log_records_a_failure(self, tmp_path):
        def fail(environ, start_response):
            start_response("500 Internal Server Error", [])
            yield b"x"
            raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            request(AccessLog(fail, tmp_path / "log"))
        assert read(tmp_path / "log")[0].status == 500

    def test_access_log_leaves_out_an_incomplete_line(self, tmp_path):
        request(AccessLog(answer, tmp_path / "log"))
        with (tmp_path / "log").open("a") as file:
            file.write('{"time": "2026')
        assert len(read(tmp_path / "log")) == 1

    def test_access_log_is_readable_by_the_owner_only(self, tmp_path):
        AccessLog(answer, tmp_path / "log")
        assert (tmp_path / "log").stat().st_mode & 0o077 == 0


class TestService:
    @pytest.mark.parametrize(
        "environ, service",
        [
            ({"HTTP_AUTHORIZATION": SIGNED.format("cloudformation")}, "cloudformation"),
            ({"QUERY_STRING": "X-Amz-Credential=AKIA%2F20261120%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=x"}, "s3"),
            ({}, "s3"),
        ],
    )
    def test_service_of_a_request_is_read_from_the_signature(self, environ, service):
        assert service_of(environ) == service
