"""The `endpoint` commands against an emulated endpoint: an answer, every failure, and a load test."""

import base64
import json
from urllib.parse import parse_qs

import pytest
from typer.testing import CliRunner

from launcher.aws.endpoints import bearer_token
from launcher.cli.app import application
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.workflow.cluster.endpoint import probe, request_sender, served_endpoint, state_of, wait_until_settled
from tests.emulators import endpoint_runtime
from tests.emulators.endpoint_runtime import NAME, Runtime

pytestmark = pytest.mark.xdist_group("endpoint")


@pytest.fixture
def ask(endpoint_session):
    """One request of the endpoint, whatever its kind."""

    def once(**more):
        return request_sender(served_endpoint("small", endpoint_session), endpoint_session, **more)()

    return once


class TestChat:
    def test_chat_answer_is_read_token_by_token(self, runtime, ask):
        runtime.first_s, runtime.token_s, runtime.tokens = 0.2, 0.02, 10
        reply = ask()
        assert (reply.kind, reply.input_tokens, reply.output_tokens) == ("chat", 12, 10)
        assert 0.2 <= reply.first_s < reply.whole_s
        assert reply.tokens_per_s > 0
        assert reply.shown.startswith("word0 word1")

    def test_chat_request_has_openai_form(self, runtime, ask):
        ask(most_tokens=5)
        ((_, body, headers),) = runtime.requests
        assert (body["model"], body["stream"], body["max_tokens"]) == ("", True, 5)
        assert headers["Authorization"].startswith("Bearer sagemaker-api-key-")

    def test_tokens_counted_without_usage_in_answer(self, runtime, ask):
        runtime.usage = False
        assert ask().output_tokens == 8

    @pytest.mark.long
    @pytest.mark.parametrize(
        "how, message",
        [
            ({"refuse": 500}, "the endpoint answered 500"),
            ({"refuse": 403}, "the endpoint answered 403"),
            ({"empty": True}, "answered without a token"),
            ({"break_after": 3}, "the answer broke off after 3 tokens"),
            ({"stall_after": 3}, "no word of the answer for"),
            ({"rubbish": True}, "the endpoint's answer holds what is not JSON: .*<html>"),
        ],
    )
    def test_every_endpoint_failure_has_a_message(self, runtime, ask, how, message):
        for name, value in how.items():
            setattr(runtime, name, value)
        with pytest.raises(DeploymentFailedError, match=message):
            ask(timeout_s=0.5)

    def test_unreachable_endpoint_is_reported(self, runtime, endpoint_session):
        send = request_sender(served_endpoint("small", endpoint_session), endpoint_session)
        runtime.url = "gone"
        with endpoint_runtime.served(Runtime()) as other:
            stopped_url = other.url
        endpoint = served_endpoint("small", endpoint_session)
        lost = type(endpoint)(**{**values(endpoint), "base_url": f"{stopped_url}/endpoints/x/openai/v1"})
        assert send().output_tokens == 8
        with pytest.raises(AwsError, match="chat with 127"):
            request_sender(lost, endpoint_session)()


def values(endpoint):
    return {name: getattr(endpoint, name) for name in endpoint.__dataclass_fields__}


class TestEmbeddingAndAsynchronousEndpoints:
    def test_embedding_answer_has_vector_dimensions(self, runtime, endpoint_session):
        endpoint = served_endpoint("small", endpoint_session)
        reply = request_sender(type(endpoint)(**{**values(endpoint), "base_url": None}), endpoint_session)()
        assert (reply.kind, reply.input_tokens, reply.shown) == ("embedding", 11, "a vector of 3 dimensions")
        assert runtime.requests[0][1]["input"]

    def test_component_request_has_component_header(self, runtime, endpoint_session):
        runtime.mode = "components"
        endpoint = served_endpoint("small", endpoint_session)
        request_sender(type(endpoint)(**{**values(endpoint), "base_url": None}), endpoint_session)()
        headers = {key.lower(): value for key, value in runtime.requests[0][2].items()}
        assert headers["x-amzn-sagemaker-inference-component"] == NAME

    def test_empty_embedding_is_failure(self, runtime, endpoint_session):
        runtime.empty = True
        endpoint = served_endpoint("small", endpoint_session)
        with pytest.raises(DeploymentFailedError, match="without an embedding"):
            request_sender(type(endpoint)(**{**values(endpoint), "base_url": None}), endpoint_session)()

    def test_asynchronous_request_polled_until_answer(self, runtime, ask, monkeypatch):
        monkeypatch.setattr("launcher.aws.endpoints.POLL_S", 0.05)
        runtime.mode, runtime.queue_s = "asynchronous", 0.2
        reply = ask()
        assert (reply.kind, reply.output_tokens, reply.shown) == ("asynchronous", 8, "one two")
        assert reply.first_s is None

    @pytest.mark.parametrize(
        "how, patience_s, message",
        [
            ({"queue_fails": True}, 60, "failed on a request"),
            ({"queue_s": 600}, 0.6, "gave no answer in 1 s"),
            ({"empty": True}, 60, "answered without a token"),
        ],
    )
    def test_failing_asynchronous_endpoint_is_named(self, runtime, ask, monkeypatch, how, patience_s, message):  # noqa: PLR0917
        monkeypatch.setattr("launcher.aws.endpoints.POLL_S", 0.05)
        runtime.mode = "asynchronous"
        for name, value in how.items():
            setattr(runtime, name, value)
        with pytest.raises(DeploymentFailedError, match=message):
            ask(timeout_s=patience_s)


class TestState:
    def test_probe_of_deployed_endpoint_returns_state_and_answer(self, endpoint_session):
        state, reply = probe(
            endpoint := served_endpoint("small", endpoint_session),
            endpoint_session,
            request_sender(endpoint, endpoint_session),
        )
        assert (state.status, state.instances, reply.output_tokens) == ("InService", 2, 8)

    @pytest.mark.long
    def test_silent_rollback_ends_with_6_and_alarm(self, runtime, endpoint_session):
        runtime.config, runtime.alarming = "config-old", ("10 % of the requests fail with an error",)
        with pytest.raises(DeploymentFailedError) as failure:
            state_of(served_endpoint("small", endpoint_session), endpoint_session)
        assert failure.value.exit_code == 6
        assert "runs config-old, deployed was config-new: the update was rolled back" in failure.value.message
        assert "10 % of the requests" in failure.value.message

    def test_failed_endpoint_reports_last_error_of_log(self, runtime, endpoint_session):
        runtime.status, runtime.log = "Failed", ("loading", "ERROR out of memory", "bye")
        with pytest.raises(DeploymentFailedError, match="is Failed; log: ERROR out of memory"):
            state_of(served_endpoint("small", endpoint_session), endpoint_session)

    def test_component_with_old_model_reported_as_rollback(self, runtime, endpoint_session):
        runtime.mode, runtime.component = "components", ("InService", "model-old")
        with pytest.raises(DeploymentFailedError, match="runs model-old, deployed was model-new: the update"):
            state_of(served_endpoint("small", endpoint_session), endpoint_session)

    def test_component_out_of_service_is_reported(self, runtime, endpoint_session):
        runtime.mode, runtime.component = "components", ("Failed", "model-new")
        with pytest.raises(DeploymentFailedError, match=f"component {NAME} of endpoint {NAME} is Failed"):
            wait_until_settled(served_endpoint("small", endpoint_session), endpoint_session, print, wait=lambda _: None)

    @pytest.mark.long
    @pytest.mark.parametrize("status", ["Updating", "Failed", "RollingBack"])
    def test_endpoint_out_of_service_gets_no_request(self, runtime, endpoint_session, status):
        runtime.status = status
        endpoint = served_endpoint("small", endpoint_session)
        with pytest.raises(DeploymentFailedError, match=f"is {status}"):
            probe(endpoint, endpoint_session, request_sender(endpoint, endpoint_session))
        assert runtime.requests == []

    def test_endpoint_deleted_by_guard_is_reported(self, runtime, endpoint_session):
        runtime.gone = True
        with pytest.raises(DeploymentFailedError, match=f"endpoint {NAME} does not exist, but its stack"):
            wait_until_settled(served_endpoint("small", endpoint_session), endpoint_session, print)

    def test_endpoint_state_awaited_and_reported_at_every_change(self, runtime, endpoint_session):
        runtime.before, messages, waited = ["Creating", "Creating", "Updating"], [], []
        assert (
            wait_until_settled(
                served_endpoint("small", endpoint_session), endpoint_session, messages.append, wait=waited.append
            ).status
            == "InService"
        )
        assert messages == [f"endpoint {NAME}: {status}, 2 instances" for status in ("Creating", "Updating")]
        assert len(waited) == 3

    def test_endpoint_state_wait_has_limit(self, runtime, endpoint_session):
        runtime.status = "Updating"
        clock = iter(range(0, 10_000, 600)).__next__
        with pytest.raises(DeploymentFailedError, match="still, after 60 min"):
            wait_until_settled(
                served_endpoint("small", endpoint_session),
                endpoint_session,
                print,
                limit_s=3600,
                clock=clock,
                wait=lambda _: None,
            )

    def test_rollback_ending_in_service_is_reported(self, runtime, endpoint_session):
        runtime.before, runtime.config = ["Updating", "RollingBack"], "config-old"
        with pytest.raises(DeploymentFailedError, match="the update was rolled back"):
            wait_until_settled(served_endpoint("small", endpoint_session), endpoint_session, print, wait=lambda _: None)

    def test_undeployed_endpoint_refused(self, runtime, endpoint_session):
        runtime.deployed = False
        with pytest.raises(ImpossibleError, match="stack slipway-small-serving does not exist"):
            served_endpoint("small", endpoint_session)


def test_bearer_token_is_signed_call_of_token_action(endpoint_session):
    token = bearer_token(endpoint_session, 900)
    host, _, query = base64.b64decode(token.removeprefix("sagemaker-api-key-")).decode().partition("/?")
    query_params = parse_qs(query)
    assert host == "sagemaker.amazonaws.com"
    assert (query_params["Action"], query_params["X-Amz-Expires"], query_params["Version"]) == (
        ["CallWithBearerToken"],
        ["900"],
        ["1"],
    )
    assert query_params["X-Amz-Credential"][0].endswith("/us-east-1/sagemaker/aws4_request")
    assert "testing" not in query_params["X-Amz-Signature"][0]


class TestCommands:
    @pytest.fixture
    def run(self, runtime, monkeypatch, tmp_path):
        for name, value in runtime.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        app = application(("endpoint",))
        return lambda *arguments: CliRunner().invoke(app, ["endpoint", *arguments, "--region", "us-east-1"])

    def test_endpoint_test_shows_answer(self, run):
        done = run("test", "small")
        assert done.exit_code == 0, done.output
        assert f"endpoint {NAME} in us-east-1: InService, 2 instances, as deployed" in done.stdout
        assert "first token after" in done.stdout
        assert json.loads(run("test", "small", "--json").stdout)["output_tokens"] == 8

    @pytest.mark.long
    def test_endpoint_load_shows_every_step(self, run):
        done = run("load", "small", "--concurrency", "2", "--seconds", "1")
        assert done.exit_code == 0, done.output
        assert "measured:" in done.stdout
        assert "no quote in this folder" in done.stdout
        assert "2 concurrent:" in done.stderr

    def test_load_test_of_asynchronous_endpoint_refused(self, run, runtime):
        runtime.mode = "asynchronous"
        assert isinstance(run("load", "small").exception, ImpossibleError)

    def test_endpoint_url_and_token_are_printed_for_clients(self, run, runtime):
        assert run("url", "small").stdout == f"{runtime.url}/endpoints/{NAME}/openai/v1\n"
        assert run("token", "small", "--hours", "2").stdout.startswith("sagemaker-api-key-")
        runtime.mode = "embedding"

    def test_endpoint_command_without_run_requires_region(self, runtime, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        done = CliRunner().invoke(application(("endpoint",)), ["endpoint", "url", "small"])
        assert "no run of small in this folder names its region" in str(done.exception)
