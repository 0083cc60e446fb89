"""The watch for a spot notice, against a metadata service that fails in every way."""

import json
import queue
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest

from launcher.agent.node.notice import SPOT_NOTICE_S, spot_notice
from launcher.agent.node.notices import DEFAULT_ENDPOINT, SpotWatch, endpoint
from tests.emulators.loopback import QuietHandler, listening

NOW = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
DEEP = ("[" * 4096, '{"action":' * 400, f'{{"action": "stop", "time": {"9" * 4000}}}')
NOTICE = json.dumps({"action": "terminate", "time": "2026-11-20T14:02:00Z"})


class Service:
    """Answers with what is queued, one an answer, and at last with a notice. Tokens are asked for as IMDSv2 does."""

    def __init__(self, answers, *, token_status=200):
        self.answers = list(answers)
        self.rebalance = (404, "")
        self.token_status = token_status
        self.tokens = []
        self.date = None
        self.refused = 0
        service = self

        class Handler(QuietHandler):
            def date_time_string(self, timestamp=None):
                return service.date or super().date_time_string(timestamp)

            def do_PUT(self):
                assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"].isdigit()
                if service.token_status != 200:
                    status, service.token_status = service.token_status, 200
                    self.reply(status, b"no")
                    return
                service.tokens.append(f"token-{len(service.tokens)}")
                self.reply(200, service.tokens[-1].encode())

            def do_GET(self):
                if self.headers["X-aws-ec2-metadata-token"] != service.tokens[-1]:
                    service.refused += 1
                    self.reply(401, b"")
                    return
                if self.path.endswith("/events/recommendations/rebalance"):
                    status, body = service.rebalance
                else:
                    status, body = service.answers.pop(0) if service.answers else (200, NOTICE)
                if status == 401:
                    service.tokens.append("renewed elsewhere")
                self.reply(status, body.encode())

        self.listening = listening(Handler)

    def __enter__(self):
        return f"{self.listening.__enter__()}/"

    def __exit__(self, *error):
        self.listening.__exit__(*error)


def watch(url):
    """The notice, and all trouble on the way to it."""
    notices, trouble = queue.Queue(), []
    thread = SpotWatch(url, poll_s=0.01, on_notice=notices.put, on_problem=trouble.append)
    thread.start()
    notice = notices.get(timeout=10)
    thread.join(timeout=10)
    assert not thread.is_alive()
    return notice, trouble


class TestWatch:
    def test_waits_for_the_notice(self):
        with Service([(404, "")] * 5) as url:
            notice, trouble = watch(url)
        assert (notice.detail, notice.at, trouble) == ("terminate", "2026-11-20T14:02:00Z", [])

    def test_expired_token_is_renewed(self):
        service = Service([(404, ""), (401, ""), (404, "")])
        with service as url:
            notice, trouble = watch(url)
        assert notice.detail == "terminate"
        assert trouble == ["the metadata service refused its token; requesting a new one"]

    def test_missing_token_is_reported_once_and_requested_again(self):
        with Service([], token_status=403) as url:
            notice, trouble = watch(url)
        assert (notice.detail, trouble) == ("terminate", ["no token: the metadata service answered 403"])

    @pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"action": "dance"}', "", "\xff\xfe", "null", *DEEP])
    def test_invalid_notice_is_reported_once_and_ignored(self, body):
        with Service([(200, body)] * 3) as url:
            notice, trouble = watch(url)
        assert notice.detail == "terminate"
        assert [line.partition(":")[0] for line in trouble] == ["the metadata service returned an invalid notice"]

    def test_each_metadata_service_error_is_reported_once(self):
        with Service([(500, ""), (503, ""), (500, ""), (404, ""), (503, "")]) as url:
            _, trouble = watch(url)
        assert trouble == ["the metadata service answered 500", "the metadata service answered 503"]

    def test_time_left_is_counted_by_the_clock_of_the_metadata_service(self):
        """By the node's, which is wrong here, the instance would be long gone."""
        service = Service([])
        service.date = "Fri, 20 Nov 2026 14:00:20 GMT"
        with service as url:
            notice, _ = watch(url)
        assert notice.left_s == 100

    @pytest.mark.parametrize(
        "date", [*("yesterday", "", "Fri, 99 Nov 2026 14:00:20 GMT"), f"Fri, 20 Nov 2026 14:00:20 +{'9' * 30}"]
    )
    def test_invalid_date_header_is_ignored(self, date):
        service = Service([])
        service.date = date or " "
        with service as url:
            notice, trouble = watch(url)
        assert (notice.detail, trouble) == ("terminate", [])

    def test_rebalance_recommendation_is_reported_once_before_the_notice(self):
        service = Service([(404, "")] * 5)
        service.rebalance = (200, '{"noticeTime": "2026-11-20T13:50:00Z"}')
        notices = queue.Queue()
        with service as url:
            thread = SpotWatch(url, poll_s=0.01, on_notice=notices.put, on_problem=pytest.fail)
            thread.start()
            thread.join(timeout=10)
        assert [notices.get_nowait().source for _ in range(2)] == ["rebalance", "spot"]
        assert notices.empty()

    @pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"noticeTime": null}', ""])
    def test_invalid_recommendation_does_not_hide_the_notice(self, body):
        service = Service([(404, "")] * 5)
        service.rebalance = (200, body)
        with service as url:
            notice, trouble = watch(url)
        assert (notice.source, len(trouble)) == ("spot", 1)

    def test_late_metadata_service_is_reported_once_and_then_used(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        started = threading.Event()
        notices, trouble = queue.Queue(), []

        def on_problem(text):
            trouble.append(text)
            started.set()

        url = f"http://127.0.0.1:{port}"
        thread = SpotWatch(url, poll_s=0.01, on_notice=notices.put, on_problem=on_problem)
        thread.start()
        assert started.wait(10)
        assert trouble[0].startswith("the metadata service does not answer: ConnectionRefusedError")
        thread.stop()
        thread.join(timeout=10)
        assert not thread.is_alive()
        assert len(trouble) == 1
        assert notices.empty()


class TestNotice:
    def test_says_how_long_is_left(self):
        assert spot_notice(NOTICE, now=NOW).left_s == 120

    @pytest.mark.parametrize("ahead", [timedelta(hours=-3), timedelta(seconds=-1), timedelta(0)])
    def test_clock_ahead_of_the_notice_leaves_no_time(self, ahead):
        assert spot_notice(NOTICE, now=datetime(2026, 11, 20, 14, 2, tzinfo=UTC) - ahead).left_s == 0

    def test_clock_behind_the_notice_leaves_at_most_two_minutes(self):
        assert spot_notice(NOTICE, now=NOW - timedelta(days=1)).left_s == SPOT_NOTICE_S

    @pytest.mark.parametrize("text", ["soon", 17, None, "2026-11-20 14:02"])
    def test_unreadable_time_leaves_two_minutes(self, text):
        notice = spot_notice(json.dumps({"action": "stop", "time": text}), now=NOW)
        assert (notice.detail, notice.at, notice.left_s) == ("stop", None, SPOT_NOTICE_S)


def test_the_endpoint_is_the_sdks_own_setting():
    assert endpoint({}) == DEFAULT_ENDPOINT
    assert endpoint({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00:ec2::254]"}) == "http://[fd00:ec2::254]"
