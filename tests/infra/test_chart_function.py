"""The function that installs HyperPod's chart, as Lambda runs it: moto emulates S3 and STS, helm is a script."""

import base64
import hashlib
import importlib.util
import io
import json
import sys
import threading
import zipfile
from http.server import HTTPServer

import boto3
import pytest
from moto import mock_aws

from launcher.catalog.assets import asset
from tests.emulators.loopback import QuietHandler

REGION, CLUSTER = "us-east-2", "slipway-x"
HELM = """#!/bin/sh
# helm upgrade --install NAME CHART ...: says what it was told, and fails as often as a file tells.
left=$(cat "{folder}/failures" 2>/dev/null || echo 0)
if [ "$left" -gt 0 ]; then echo $((left - 1)) > "{folder}/failures"; cat "{folder}/words" >&2; exit 1; fi
printf '%s\\n' "$@" > "{folder}/told"
printf '%s\\n' "$HELM_KUBEAPISERVER" "$HELM_KUBETOKEN" > "{folder}/environment"
cp "$HELM_KUBECAFILE" "{folder}/ca"
cp "$4/Chart.yaml" "{folder}/Chart.yaml"
cp "$8" "{folder}/values"
"""


@pytest.fixture
def function(tmp_path, monkeypatch):
    """The module, with a helm that leaves word in `tmp_path`."""
    helm = tmp_path / "helm"
    helm.write_text(HELM.format(folder=tmp_path))
    helm.chmod(0o700)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, REGION)
    monkeypatch.setenv("HELM_PROGRAM", str(helm))
    # As Lambda has it: beside what it imports.
    monkeypatch.syspath_prepend(str(asset("templates/chart")))
    spec = importlib.util.spec_from_file_location("chart_function", asset("templates/chart/chart.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with mock_aws():
        yield module
    sys.modules.pop("pods", None)


@pytest.fixture
def chart_properties(function):
    """The properties of the resource, with a chart in S3."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("Chart.yaml", "name: hyperpod\n")
    content = buffer.getvalue()
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="assets", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="assets", Key="c.zip", Body=content)
    return {
        "Bucket": "assets",
        "Key": "c.zip",
        "Sha256": hashlib.sha256(content).hexdigest(),
        "Release": "hyperpod-dependencies",
        "Namespace": "kube-system",
        "Values": "global: {region: us-east-2}\n",
        "Cluster": CLUSTER,
        "Endpoint": "https://api.example",
        "Authority": base64.b64encode(b"a certificate").decode(),
    }


def test_chart_function_runs_helm_with_given_values_as_lambda_role(function, chart_properties, tmp_path):
    function.install(chart_properties, boto3.client, lambda _: None)
    arguments = (tmp_path / "told").read_text().splitlines()
    assert arguments[:3] == ["upgrade", "--install", "hyperpod-dependencies"]
    assert arguments[4:7] == ["--namespace", "kube-system", "--values"]
    endpoint, token = (tmp_path / "environment").read_text().splitlines()
    assert endpoint == "https://api.example"
    url = base64.urlsafe_b64decode(token.removeprefix("k8s-aws-v1.") + "==").decode()
    assert "Action=GetCallerIdentity" in url
    assert "x-k8s-aws-id" in url
    assert (tmp_path / "ca").read_text() == "a certificate"
    assert (tmp_path / "values").read_text() == chart_properties["Values"]
    assert (tmp_path / "Chart.yaml").read_text() == "name: hyperpod\n"
    assert token not in " ".join(arguments), "arguments are for everybody to see"


def test_chart_with_wrong_digest_is_not_installed(function, chart_properties, tmp_path):
    with pytest.raises(function.ChartError, match="pinned is 0000"):
        function.install({**chart_properties, "Sha256": "0" * 64}, boto3.client, lambda _: None)
    assert not (tmp_path / "told").exists()


def test_chart_function_retries_until_access_entry_is_active(function, chart_properties, tmp_path):
    (tmp_path / "failures").write_text("2")
    (tmp_path / "words").write_text("Error: the server has asked for the client to provide credentials")
    pauses = []
    function.install(chart_properties, boto3.client, pauses.append)
    assert pauses == [function.PAUSE_S] * 2


def test_chart_function_fails_without_retry_on_template_error(function, chart_properties, tmp_path):
    (tmp_path / "failures").write_text("9")
    (tmp_path / "words").write_text("Error: template: no such value")
    pauses = []
    with pytest.raises(function.ChartError, match="no such value"):
        function.install(chart_properties, boto3.client, pauses.append)
    assert pauses == []


class Answers:
    """Where CloudFormation waits for an answer."""

    def __init__(self):
        answers = self.got = []

        class Handler(QuietHandler):
            def do_PUT(self):
                answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/answer"


@pytest.fixture
def answers():
    receiver = Answers()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def event(kind, properties, url):
    identifiers = {"StackId": "s", "RequestId": "r", "LogicalResourceId": "l", "ResponseURL": url}
    return {"RequestType": kind, "ResourceProperties": properties, **identifiers}


def test_cloudformation_gets_response_on_success_and_failure(function, chart_properties, answers, tmp_path):
    function.handler(event("Create", chart_properties, answers.url), None)
    with pytest.raises(function.ChartError):
        function.handler(event("Update", {**chart_properties, "Sha256": "0" * 64}, answers.url), None)
    assert [response["Status"] for response in answers.got] == ["SUCCESS", "FAILED"]
    assert "pinned is" in answers.got[1]["Reason"]
    assert {response["PhysicalResourceId"] for response in answers.got} == {f"{CLUSTER}/hyperpod-dependencies"}


def test_chart_deletion_always_succeeds_without_helm(function, answers, tmp_path):
    """The chart goes with its cluster: whatever was not made, there is nothing to undo."""
    properties = {"Cluster": CLUSTER, "Release": "hyperpod-dependencies"}
    function.handler(event("Delete", properties, answers.url), None)
    assert answers.got[0]["Status"] == "SUCCESS"
    assert not (tmp_path / "told").exists()


def test_guard_request_returns_pod_counts(function, monkeypatch):
    """What calls without a request of CloudFormation's is the guard."""
    requests = []

    class Api(QuietHandler):
        def do_GET(self):
            requests.append((self.path, self.headers["Authorization"]))
            spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
            metadata = {"name": "p", "creationTimestamp": "2026-11-23T10:00:00Z"}
            body = json.dumps({"items": [{"metadata": metadata, "spec": spec}], "metadata": {}}).encode()
            self.reply(200, body)

    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("CLUSTER_NAME", CLUSTER)
        monkeypatch.setenv("CLUSTER_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("CLUSTER_AUTHORITY", base64.b64encode(b"").decode())
        assert function.handler({}, None) == {"pods": 1, "others": 1, "stuck": []}
        server.shutdown()
    ((path, token),) = requests
    assert path.startswith("/api/v1/pods?fieldSelector=")
    assert token.startswith("Bearer k8s-aws-v1.")
