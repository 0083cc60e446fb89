import json
import os
import urllib.error
import urllib.request
from datetime import UTC, datetime

import botocore.session
import pytest

from launcher.sandbox.cluster.imds import MetadataService
from launcher.sandbox.keys import AccessKey, KeyRing

META = "/latest/meta-data"
ACTION = f"{META}/spot/instance-action"
KEYS = KeyRing()
FACTS = {
    "instance-id": "i-1",
    "instance-type": "p5.48xlarge",
    "instance-life-cycle": "spot",
    "placement/region": "us-west-2",
}


@pytest.fixture
def service():
    started = MetadataService(FACTS, KEYS)
    yield started
    started.stop()


def ask(service, path, method="GET", **headers):
    """Status and body of a request; underscores in a header's name are hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(service.endpoint + path, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def token(service, ttl="60"):
    status, token_value = ask(service, "/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=ttl)
    assert status == 200
    return token_value


def get(service, path):
    return ask(service, path, X_aws_ec2_metadata_token=token(service))


class TestToken:
    def test_metadata_without_valid_token_refused(self, service):
        assert ask(service, f"{META}/instance-id") == (401, "")
        assert ask(service, f"{META}/instance-id", X_aws_ec2_metadata_token="guessed") == (401, "")

    @pytest.mark.parametrize("ttl", ["0", "21601", "long", ""])
    def test_token_time_to_live_is_bounded(self, service, ttl):
        status, _ = ask(service, "/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=ttl)
        assert status == 400

    def test_token_request_through_proxy_refused(self, service):
        headers = {"X_aws_ec2_metadata_token_ttl_seconds": "60", "X_Forwarded_For": "10.0.0.1"}
        assert ask(service, "/latest/api/token", "PUT", **headers)[0] == 403


class TestFacts:
    def test_metadata_describes_instance(self, service):
        assert get(service, f"{META}/instance-id") == (200, "i-1")
        assert get(service, f"{META}/placement/region") == (200, "us-west-2")
        assert json.loads(get(service, "/latest/dynamic/instance-identity/document")[1])["instanceId"] == "i-1"

    def test_folder_lists_its_names(self, service):
        assert get(service, f"{META}/tags/instance") == (404, "")
        for key in ("slipway:run", "Name"):
            service.put(f"tags/instance/{key}", "a")
        assert get(service, f"{META}/tags/instance") == (200, "Name\nslipway:run")
        assert get(service, f"{META}/tags/") == (200, "instance/")
        assert get(service, f"{META}/tags/instance/Nam") == (404, "")

    @pytest.mark.parametrize("path", [f"{META}/nothing", "/latest/user-data", "/"])
    def test_unknown_metadata_path_not_found(self, service, path):
        assert get(service, path) == (404, "")


class TestNotice:
    def test_spot_notices_absent_at_first(self, service):
        assert get(service, ACTION)[0] == 404
        assert get(service, f"{META}/events/recommendations/rebalance")[0] == 404

    def test_spot_action_has_type_and_time(self, service):
        at = service.arm(in_seconds=120)
        status, body = get(service, ACTION)
        assert (status, json.loads(body)) == (200, {"action": "terminate", "time": at})
        assert datetime.fromisoformat(at) > datetime.now(UTC)
        assert get(service, f"{META}/spot/termination-time") == (200, at)

    def test_spot_action_can_be_cleared(self, service):
        service.arm()
        service.clear()
        assert get(service, ACTION)[0] == 404

    def test_unknown_spot_action_refused(self, service):
        with pytest.raises(ValueError, match="allowed: terminate, stop, hibernate"):
            service.arm(action="reboot")

    def test_rebalance_recommendation_has_notice_time(self, service):
        service.recommend_rebalance()
        assert "noticeTime" in json.loads(get(service, f"{META}/events/recommendations/rebalance")[1])


def test_sdk_finds_instance_credentials(service, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.endpoint)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    credentials = botocore.session.Session().get_credentials()
    assert credentials.method == "iam-role"
    key = KEYS.find(credentials.access_key)
    assert key == AccessKey(id=key.id, secret=credentials.secret_key, token=credentials.token, ends=key.ends)


@pytest.mark.parametrize(
    "path, headers",
    [
        ("/latest/api/token", {}),
        ("/guessed/latest/api/token", {}),
        ("{own}/latest/api/token", {"Host": "rebound.example.org"}),
        ("{own}/latest/api/token", {"Origin": "https://example.org"}),
    ],
)
def test_request_without_secret_path_or_from_web_page_not_found(service, path, headers):
    port = service.endpoint.removeprefix("http://127.0.0.1:").partition("/")[0]
    url = f"http://127.0.0.1:{port}{path.format(own=service.path)}"
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60", **headers}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=5)
    with refused.value:
        assert refused.value.code == 404


def test_two_nodes_have_separate_metadata_services(service):
    other = MetadataService(FACTS | {"instance-id": "i-2"})
    try:
        other.arm()
        assert get(service, ACTION)[0] == 404
        assert get(other, ACTION)[0] == 200
        assert ask(other, f"{META}/instance-id", X_aws_ec2_metadata_token=token(service))[0] == 401
    finally:
        other.stop()


def test_stopped_service_does_not_answer():
    stopped = MetadataService(FACTS)
    stopped.stop()
    with pytest.raises(urllib.error.URLError):
        ask(stopped, ACTION)
