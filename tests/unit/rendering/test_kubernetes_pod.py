"""What a manifest starts in a pod: the init container fetches the job folder, the first process becomes the agent."""

import hashlib
import io
import json
import os
import runpy
import subprocess
import sys
import tarfile
from dataclasses import replace

import boto3
import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError

from launcher.agent.exits import GAVE_UP
from launcher.catalog.assets import asset
from launcher.model.enums import Operator
from launcher.model.secret import secret_reference
from launcher.rendering.batch import JobArchive
from launcher.rendering.kubernetes_job import FETCH_SCRIPT, START_SCRIPT, job_manifests
from launcher.rendering.names import symbolic_names
from launcher.sandbox.keys import AccessKey
from launcher.sandbox.server import pod_environment
from tests.emulators.loopback import QuietHandler, listening
from tests.emulators.moto_server import moto_server
from tests.unit.rendering.conftest import JOB


@pytest.fixture
def job_archive():
    """A job folder as it is shipped, without a folder of the command's own."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as packed:
        for name, text, mode in (("job.json", b"{}", 0o644), ("kubernetes/start.py", b"print()", 0o755)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), mode
            packed.addfile(member, io.BytesIO(text))
    return target.getvalue()


@pytest.fixture
def signed_store(job_archive):
    """S3 as far as a pod asks it: the signature is held to botocore's own of the same request."""
    answers = {"/bucket/jobs/.work/it.tar.gz": job_archive}

    class Handler(QuietHandler):
        def do_GET(self):
            request = AWSRequest("GET", f"http://{self.headers['host']}{self.path}")
            for name in ("x-amz-content-sha256", "x-amz-date", "x-amz-security-token"):
                if self.headers[name]:
                    request.headers[name] = self.headers[name]
            request.headers["host"] = self.headers["host"]
            request.context["timestamp"] = self.headers["x-amz-date"]
            signer = SigV4Auth(Credentials("key", "secret"), "s3", "us-east-2")
            signer._should_sha256_sign_payload = lambda _: False
            text = signer.string_to_sign(request, canonical(request, signer))
            good = self.headers["Authorization"].endswith(f"Signature={signer.signature(text, request)}")
            body = answers.get(self.path) if good else b"SignatureDoesNotMatch"
            self.send_response(403 if not good else 200 if body else 404)
            self.end_headers()
            self.wfile.write(body or b"NoSuchKey")

    with listening(Handler) as address:
        yield address


def canonical(request, signer):
    """The canonical request of S3: its path is signed as it is sent, its payload is not."""
    headers = signer.headers_to_sign(request)
    path = request.url.split("/", 3)[3]
    lines = [request.method, f"/{path}", "", f"{signer.canonical_headers(headers)}\n", signer.signed_headers(headers)]
    return "\n".join([*lines, request.headers["x-amz-content-sha256"]])


class TestFetch:
    def run(self, root, store, archive, **more):
        environment = {
            "PATH": os.environ["PATH"],
            "SLIPWAY_ROOT": str(root),
            "SLIPWAY_JOB_URI": "s3://bucket/jobs/.work/it.tar.gz",
            "SLIPWAY_JOB_SHA256": hashlib.sha256(archive).hexdigest(),
            "SLIPWAY_JOB_BYTES": str(len(archive)),
            "SLIPWAY_RETRIES": "1",
            "SLIPWAY_SANDBOX": "1",
            "AWS_ENDPOINT_URL": store,
            "AWS_REGION": "us-east-2",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            **more,
        }
        script = asset(FETCH_SCRIPT).read_text(encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-I", "-c", script], env=environment, capture_output=True, text=True, check=False
        )

    def test_job_folder_is_fetched_and_unpacked_completely(self, tmp_path, signed_store, job_archive):
        done = self.run(tmp_path, signed_store, job_archive)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "job" / "job.json").read_text() == "{}"
        assert os.access(tmp_path / "job" / "kubernetes" / "start.py", os.X_OK)
        assert self.run(tmp_path, signed_store, job_archive, SLIPWAY_JOB_SHA256="0").returncode == 0, (
            "it exists already"
        )

    def ended(self, root, store, archive, *, operator="pytorchjob", **more):
        """How the pod's first process ends where nothing was fetched: its code, and its last word."""
        done = self.run(root, store, archive, SLIPWAY_OPERATOR=operator, **more)
        assert done.returncode == 0, done.stderr
        assert "try 2 of 2" in done.stdout
        environment = {**os.environ, "SLIPWAY_LAST_WORD": str(root / "word")}
        start = [sys.executable, str(root / "job" / "kubernetes" / "start.py")]
        first = subprocess.run(start, env=environment, capture_output=True, text=True, check=False)
        word = (root / "word").read_text(encoding="utf-8")
        assert word.startswith(GAVE_UP)
        assert word.removeprefix(GAVE_UP) in first.stdout, first.stderr
        return first.returncode, word

    def test_job_archive_with_another_hash_is_refused_and_removed(self, tmp_path, signed_store, job_archive):
        code, word = self.ended(tmp_path, signed_store, job_archive, SLIPWAY_JOB_SHA256="0" * 64)
        assert (code, "wanted" in word) == (0, True)
        assert [path.name for path in (tmp_path / "job").iterdir()] == ["kubernetes"]

    @pytest.mark.parametrize("operator, code", [("job", 78), ("pytorchjob", 0), ("hyperpod-pytorchjob", 0)])
    @pytest.mark.parametrize(
        "broken, why",
        [
            ({"AWS_SECRET_ACCESS_KEY": "other"}, "S3 answers 403"),
            ({"SLIPWAY_JOB_URI": "s3://bucket/none"}, "S3 answers 404"),
            ({"AWS_ACCESS_KEY_ID": ""}, "Pod Identity"),
        ],
    )
    def test_pod_without_a_job_archive_retries_and_then_ends_permanently(  # noqa: PLR0917
        self, tmp_path, signed_store, job_archive, operator, code, broken, why
    ):
        exit_code, word = self.ended(tmp_path, signed_store, job_archive, operator=operator, **broken)
        assert (exit_code, why in word) == (code, True), word

    def test_pod_identity_supplies_the_credentials(self, tmp_path, signed_store, job_archive):
        class Agent(QuietHandler):
            def do_GET(self):
                assert self.headers["Authorization"] == "a-token"
                self.send_response(200)
                self.end_headers()
                credentials = {"AccessKeyId": "key", "SecretAccessKey": "secret", "Token": ""}
                self.wfile.write(json.dumps(credentials).encode())

        token = tmp_path / "token"
        token.write_text("a-token\n", encoding="utf-8")
        with listening(Agent) as address:
            done = self.run(
                tmp_path,
                signed_store,
                job_archive,
                AWS_ACCESS_KEY_ID="",
                AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{address}/v1/credentials",
                AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(token),
            )
        assert done.returncode == 0, done.stderr

    def test_manifest_contains_the_fetch_script_unchanged(self, plan_of, catalog):
        plan = plan_of()
        job = replace(JOB, archive=JobArchive(uri="s3://b/k", sha256="a", size="7"))
        _, manifest = job_manifests(
            plan, instances=catalog.instance_types, names=symbolic_names(plan), job=job, operator=Operator.JOB
        )
        (first,) = list(yaml.safe_load_all(manifest))[-1]["spec"]["template"]["spec"]["initContainers"]
        assert first["command"][2] == asset(FETCH_SCRIPT).read_text(encoding="utf-8")
        values = {variable["name"]: variable["value"] for variable in first["env"]}
        assert (values["SLIPWAY_JOB_URI"], values["SLIPWAY_JOB_BYTES"]) == ("s3://b/k", "7")


class TestStart:
    @pytest.mark.parametrize(
        "driver, is_older",
        [
            ("NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024", True),
            ("NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", False),
            ("NVIDIA UNIX Open Kernel Module for x86_64  590.1  Release Build", False),
            ("another module", False),
        ],
    )
    def test_older_driver_uses_the_compat_libraries_of_the_image(self, tmp_path, driver, is_older):
        compat_libraries = runpy.run_path(str(asset(START_SCRIPT)))["compat_libraries"]
        assert compat_libraries(tmp_path / "version", tmp_path) == ""
        (tmp_path / "version").write_text(f"NVRM version: {driver}\nGCC version:  gcc 11.4.1\n")
        assert compat_libraries(tmp_path / "version", tmp_path) == ""
        (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.580.65.06")
        assert compat_libraries(tmp_path / "version", tmp_path) == (str(tmp_path) if is_older else "")

    def run(self, root, **more):
        """start.py with an agent in its place that prints what it finds."""
        (root / "job").mkdir(exist_ok=True)
        agent = root / "job" / "slipway-agent.pyz"
        agent.write_text("import json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))", encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "SLIPWAY_ROOT": str(root), "SLIPWAY_RUN_KEY": "r", **more}
        return subprocess.run(
            [sys.executable, str(asset(START_SCRIPT))], env=environment, capture_output=True, text=True, check=False
        )

    def environment_of(self, root, **more):
        done = self.run(root, **more)
        assert done.returncode == 0, done.stderr
        arguments, environment = json.loads(done.stdout)
        assert arguments == ["run", "--config", str(root / "job" / "job.json")]
        return environment

    def test_refused_secrets_are_requested_again_up_to_the_retries(self, monkeypatch):
        monkeypatch.setenv("SLIPWAY_SANDBOX", "1")
        secrets_problem = runpy.run_path(str(asset(START_SCRIPT)))["secrets_problem"]
        arn, requests = "arn:aws:secretsmanager:us-east-1:1:secret:a", []

        class Sdk:
            def client(self, service, region_name):
                requests.append((service, region_name))
                raise NoCredentialsError

        why = secrets_problem({"SLIPWAY_RETRIES": "2"}, {"TOKEN": arn}, Sdk())
        assert "run.secrets.TOKEN: Unable to locate credentials (try 3 of 3)" in why
        assert requests == [("secretsmanager", "us-east-1")] * 3

    def test_parts_of_secrets_are_read_from_secrets_manager(self, monkeypatch):
        monkeypatch.setenv("SLIPWAY_SANDBOX", "1")
        script = runpy.run_path(str(asset(START_SCRIPT)))
        secrets = script["secrets"]
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        with moto_server() as url:
            for name, value in {**keys, "AWS_ENDPOINT_URL": url}.items():
                monkeypatch.setenv(name, value)
            client = boto3.client("secretsmanager", region_name="us-east-2")
            old = json.dumps({"HF_TOKEN": "old", "N": 7})
            arn = client.create_secret(Name="team/hf", SecretString=old)["ARN"]
            version = client.put_secret_value(SecretId=arn, SecretString='{"HF_TOKEN": "new"}')["VersionId"]
            plain = client.create_secret(Name="plain", SecretString="text")["ARN"]
            references = {
                "CURRENT": f"{arn}:HF_TOKEN::",
                "PREVIOUS": f"{arn}:HF_TOKEN:AWSPREVIOUS:",
                "NUMBER": f"{arn}:N:AWSPREVIOUS:",
                "VERSION": f"{arn}:HF_TOKEN::{version}",
                "WHOLE": arn,
                "PLAIN": plain,
            }
            assert all(secret_reference(text).arn in {arn, plain} for text in references.values())
            assert secrets(references, boto3) == {
                "CURRENT": "new",
                "PREVIOUS": "old",
                "NUMBER": "7",
                "VERSION": "new",
                "PLAIN": "text",
                "WHOLE": '{"HF_TOKEN": "new"}',
            }
            environment = {"SLIPWAY_RETRIES": "0"}
            assert script["secrets_problem"](environment, references, boto3) == ""
            (remark,) = environment["SLIPWAY_REMARKS"].splitlines()
            assert remark.startswith("WHOLE is the whole JSON text of a secret with the keys ['HF_TOKEN']")
            with pytest.raises(ValueError, match=r"no key N in the secret; it has \['HF_TOKEN'\]"):
                secrets({"A": f"{arn}:N::"}, boto3)
            binary = client.create_secret(Name="binary", SecretBinary=b"\0\1")["ARN"]
            with pytest.raises(ValueError, match="A: the secret is binary"):
                secrets({"A": binary}, boto3)
            with pytest.raises(ValueError, match="no JSON object, and has no key K"):
                secrets({"A": f"{plain}:K::"}, boto3)

    def test_pod_of_a_job_gets_an_index_and_the_rendezvous_of_the_service(self, tmp_path):
        variables = {
            "SLIPWAY_OPERATOR": "job",
            "SLIPWAY_PARTS": "2",
            "SLIPWAY_MEETING": "j-0.j",
            "SLIPWAY_CHIPS": "neuron",
        }
        environment = self.environment_of(tmp_path, JOB_COMPLETION_INDEX="1", **variables)
        assert (environment["SLIPWAY_PART"], environment["PET_RDZV_ENDPOINT"]) == ("1", "j-0.j:29500")
        assert environment["PET_RDZV_BACKEND"] == "static"
        assert (environment["MASTER_ADDR"], environment["MASTER_PORT"], environment["PET_RDZV_ID"]) == (
            "j-0.j",
            "29500",
            "r",
        )
        assert (environment["SLIPWAY_MASTER_ADDR"], environment["SLIPWAY_MASTER_PORT"]) == ("j-0.j", "29500")
        assert environment["NEURON_RT_ROOT_COMM_ID"] == "j-0.j:62182"

    def test_pods_of_two_sandboxes_have_different_rendezvous_ports(self, tmp_path):
        job = {"SLIPWAY_OPERATOR": "job", "SLIPWAY_PARTS": "2", "SLIPWAY_MEETING": "j", "JOB_COMPLETION_INDEX": "1"}
        for port in (45_001, 45_002):
            sandbox_port = pod_environment(port, AccessKey.random(), "us-east-2")["SLIPWAY_SANDBOX_PORT"]
            environment = self.environment_of(tmp_path, **job, SLIPWAY_SANDBOX_PORT=sandbox_port)
            assert environment["PET_RDZV_ENDPOINT"] == f"j:{port - 20_000}"

    def test_pod_of_a_pytorchjob_gets_the_rendezvous_of_the_master(self, tmp_path):
        variables = {"MASTER_ADDR": "j-master-0", "MASTER_PORT": "23456", "PET_NODE_RANK": "1", "RANK": "8"}
        environment = self.environment_of(tmp_path, SLIPWAY_OPERATOR="pytorchjob", SLIPWAY_PARTS="2", **variables)
        assert (environment["SLIPWAY_PART"], environment["PET_RDZV_ENDPOINT"]) == ("1", "j-master-0:23456")
        assert environment["PET_RDZV_BACKEND"] == "static"

    def test_pod_of_the_hyperpod_operator_gets_no_rendezvous(self, tmp_path):
        environment = self.environment_of(tmp_path, SLIPWAY_OPERATOR="hyperpod-pytorchjob", SLIPWAY_PARTS="2")
        assert "PET_RDZV_ENDPOINT" not in environment

    def test_pod_with_missing_efa_interfaces_is_marked_unfit(self, tmp_path):
        devices = tmp_path / "infiniband"
        devices.mkdir()
        (devices / "uverbs0").touch()
        variables = {
            "SLIPWAY_OPERATOR": "job",
            "SLIPWAY_PARTS": "1",
            "SLIPWAY_MEETING": "j",
            "JOB_COMPLETION_INDEX": "0",
        }
        unfit = self.environment_of(tmp_path, SLIPWAY_EFA="2", SLIPWAY_DEVICES=str(devices), **variables)[
            "SLIPWAY_UNFIT"
        ]
        assert "needs 2 EFA interfaces and has 1" in unfit
        assert "SLIPWAY_UNFIT" not in self.environment_of(
            tmp_path, SLIPWAY_EFA="1", SLIPWAY_DEVICES=str(devices), **variables
        )
