"""Another user and a web page on the same machine: a sandbox admits neither."""

import contextlib
import json
import os
import traceback
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing.connection import Client
from pathlib import Path
from threading import Barrier
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from launcher.aws.eks import token
from launcher.aws.session import Session
from launcher.sandbox import running_sandbox
from launcher.sandbox.cluster.existing import ExistingCluster
from launcher.sandbox.sandbox import Sandbox
from tests.sandbox.clients import ONE_TRY, client
from tests.sandbox.slurm_cluster import deploy

NEIGHBOUR = 54321
CLUSTER = ExistingCluster(
    name="team",
    managed=False,
    instance_type="p5.48xlarge",
    count=1,
    capacity_type="ON_DEMAND",
    zone_id="use1-az1",
    namespace="default",
    operators=(),
    queue=None,
    priority=None,
)
PROOF = "proof"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="being another user takes root")


@pytest.fixture(scope="module")
def lasting_sandbox(tmp_path_factory):
    """One that stays, with a cluster of each kind, as its owner has it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    sandbox = Sandbox.attach(running_sandbox.start(os.environ, scheduler="local"), region="us-east-1")
    sandbox.create_prerequisites(cluster=CLUSTER)
    deploy(sandbox)
    client(sandbox, "s3").create_bucket(Bucket="store")
    yield sandbox
    running_sandbox.stop(os.environ)
    patch.undo()


def as_neighbour(attempt):
    """What an attempt gives when another user makes it, in a process of theirs; its exception's text where it fails."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NEIGHBOUR)
            os.setuid(NEIGHBOUR)
            answer = attempt()
        except BaseException:  # noqa: BLE001 - it is told to the test
            answer = traceback.format_exc()
        os.write(writer, json.dumps(str(answer)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = json.loads(stream.read())
    os.waitpid(child, 0)
    return answer


def ports():
    """The ports on loopback that somebody listens on, as everybody can read them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return sorted({int(line[1].partition(":")[2], 16) for line in lines if line[3] == "0A"})


def stranger(sandbox, service):
    """A client with keys that somebody might guess."""
    return client(sandbox, service, aws_access_key_id="SANDBOX", aws_secret_access_key="sandbox", config=ONE_TRY)


def refusal(call):
    """The code with which a call is refused."""
    try:
        call()
    except ClientError as problem:
        return problem.response["Error"]["Code"]
    return PROOF


def api_of(sandbox, credentials):
    """The client of the cluster's Kubernetes, with a token that `credentials` have signed."""
    import kubernetes  # half a second of processor time: not for every worker that collects this file

    address = client(sandbox, "eks").describe_cluster(name="team")["cluster"]["endpoint"]
    signs = Session(environment={**credentials, "AWS_ENDPOINT_URL": sandbox.endpoint}, region="us-east-1")
    configuration = kubernetes.client.Configuration(host=address)
    configuration.api_key = {"authorization": f"Bearer {token(signs, 'team')}"}
    configuration.retries = False
    return kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))


POD = {
    "metadata": {"name": "theirs"},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1", "command": ["id"]}]},
}


@as_root
def test_other_user_can_read_and_write_no_sandbox_resource(lasting_sandbox):
    from kubernetes.client.exceptions import ApiException  # here, for the neighbour cannot read its files

    def attempt():
        s3, sts = stranger(lasting_sandbox, "s3"), stranger(lasting_sandbox, "sts")
        results = {
            "list": refusal(s3.list_buckets),
            "put": refusal(lambda: s3.put_object(Bucket="store", Key="k", Body=b"theirs")),
            "role": refusal(lambda: sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="abc")),
            "stack": refusal(
                lambda: stranger(lasting_sandbox, "cloudformation").create_stack(
                    StackName="theirs", TemplateBody=json.dumps({"Resources": {"C": {"Type": "AWS::EKS::Cluster"}}})
                )
            ),
        }
        try:
            guessed = {"AWS_ACCESS_KEY_ID": "SANDBOX", "AWS_SECRET_ACCESS_KEY": "sandbox"}
            api_of(lasting_sandbox, guessed).create_namespaced_pod("default", POD)
            results["pod"] = PROOF
        except ApiException as problem:
            results["pod"] = problem.status
        return json.dumps(results)

    document = json.loads(as_neighbour(attempt))
    assert document == {
        "list": "InvalidAccessKeyId",
        "put": "InvalidAccessKeyId",
        "role": "InvalidClientTokenId",
        "stack": "InvalidClientTokenId",
        "pod": 401,
    }
    # The owner does all of it.
    assert client(lasting_sandbox, "s3").list_objects_v2(Bucket="store")["KeyCount"] == 0
    assert api_of(lasting_sandbox, lasting_sandbox.environment).list_namespaced_pod("default").items == []


@as_root
def test_no_sandbox_port_gives_another_user_credentials(lasting_sandbox):
    """Every port of the sandbox is asked for what a metadata service gives, by every path that can be known."""
    paths = ("/latest/api/token", "/latest/meta-data/iam/security-credentials/", "/moto-api/data.json", "/api/v1/pods")
    api = client(lasting_sandbox, "eks").describe_cluster(name="team")["cluster"]["endpoint"]
    sandbox_ports = {
        urlsplit(url).port
        for url in (lasting_sandbox.endpoint, api, *(node.metadata for node in lasting_sandbox.nodes("demo")))
    }

    def attempt():
        messages = []
        for port, path, method in product(sandbox_ports & set(ports()), paths, ("GET", "PUT")):
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers)
            with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(request, timeout=2) as answer:
                messages.append((port, path, answer.status))
        return json.dumps(messages)

    assert sandbox_ports <= set(ports())
    assert json.loads(as_neighbour(attempt)) == []


@as_root
def test_other_user_can_read_no_file_and_reach_no_socket(lasting_sandbox):
    place, record = running_sandbox.folder_of(os.environ), lasting_sandbox.record

    def attempt():
        messages = []
        for path in (place, Path(record.folder) / "ready.json", Path(f"/proc/{record.pid}/environ")):
            with contextlib.suppress(OSError):
                messages.append(path.read_text(encoding="utf-8"))
        with contextlib.suppress(OSError), Client(record.control, "AF_UNIX", authkey=b"guessed"):
            messages.append("control")
        return json.dumps(messages)

    # The folder above the file is the owner's as well in a home; here pytest's may be open.
    assert place.stat().st_mode & 0o077 == 0
    assert json.loads(as_neighbour(attempt)) == []


@pytest.mark.parametrize("headers", [{"Origin": "https://example.org"}, {"Host": "rebound.example.org"}])
def test_web_page_with_valid_keys_is_refused(lasting_sandbox, headers):
    """A presigned address that leaks into a page is of no use to it."""
    client(lasting_sandbox, "s3").put_object(Bucket="store", Key="seen", Body=b"x")
    url = client(lasting_sandbox, "s3").generate_presigned_url("get_object", Params={"Bucket": "store", "Key": "seen"})
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert answer.read() == b"x"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5)
    with caught.value:
        assert caught.value.code == 403
    client(lasting_sandbox, "s3").delete_object(Bucket="store", Key="seen")


def test_credentials_of_the_emulated_iam_and_sts_are_accepted(lasting_sandbox):
    sts, iam = client(lasting_sandbox, "sts"), client(lasting_sandbox, "iam")
    iam.create_user(UserName="ada")
    lasting = iam.create_access_key(UserName="ada")["AccessKey"]
    given = [
        sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="abc")["Credentials"],
        sts.get_session_token()["Credentials"],
        sts.get_federation_token(Name="ada")["Credentials"],
    ]
    for session in given:
        keys = {"aws_access_key_id": session["AccessKeyId"], "aws_secret_access_key": session["SecretAccessKey"]}
        opened = client(lasting_sandbox, "s3", **keys, aws_session_token=session["SessionToken"])
        assert [bucket["Name"] for bucket in opened.list_buckets()["Buckets"]] == ["store"]
        assert refusal(client(lasting_sandbox, "s3", **keys, config=ONE_TRY).list_buckets) == "InvalidToken"
    keys = {"aws_access_key_id": lasting["AccessKeyId"], "aws_secret_access_key": lasting["SecretAccessKey"]}
    assert client(lasting_sandbox, "sts", **keys).get_caller_identity()["Arn"].endswith(":user/ada")
    iam.update_access_key(UserName="ada", AccessKeyId=lasting["AccessKeyId"], Status="Inactive")
    assert refusal(client(lasting_sandbox, "sts", **keys, config=ONE_TRY).get_caller_identity) == "InvalidClientTokenId"


def test_node_metadata_credentials_are_accepted(lasting_sandbox, monkeypatch):
    (node, *_) = lasting_sandbox.nodes("demo")
    for name in [variable for variable in os.environ if variable.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", node.metadata)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    s3 = boto3.Session(region_name="us-east-1").client("s3", endpoint_url=lasting_sandbox.endpoint)
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["store"]


def test_sandbox_listens_on_loopback_only(lasting_sandbox):
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    listening = [
        line[1]
        for line in lines
        if line[3] == "0A" and int(line[1].partition(":")[2], 16) == lasting_sandbox.record.port
    ]
    assert [address.partition(":")[0] for address in listening] == ["0100007F"]


def test_concurrent_first_launches_get_one_reachable_cluster(lasting_sandbox):
    """Whoever comes second waits until it is there: before that EKS names a host of AWS."""
    api, together = client(lasting_sandbox, "eks"), Barrier(4)

    def launch(name):
        together.wait()
        lasting_sandbox.create_prerequisites(cluster=replace(CLUSTER, name=name))
        return api.describe_cluster(name=name)["cluster"]["endpoint"]

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            (address,) = set(pool.map(launch, [f"shared-{number}"] * 4))
            assert address.startswith("http://127.0.0.1:")
