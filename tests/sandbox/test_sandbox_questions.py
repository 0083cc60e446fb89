"""Requests that a sandbox answers and refuses, and what is visible from outside."""

import contextlib
import json
import socket
from pathlib import Path

import pytest

from launcher.model.errors import AwsError, ImpossibleError
from launcher.sandbox.control import ControlClient, ControlError
from launcher.sandbox.sandbox import Sandbox
from launcher.sandbox.slurm import daemons

REGION = "us-east-1"


class TestQuestions:
    def test_unknown_cluster_refused(self, sandbox):
        with pytest.raises(ImpossibleError, match="no cluster 'demo' in this sandbox, there are: none"):
            sandbox.head_node("demo", {})

    def test_unknown_node_refused(self, sandbox):
        with pytest.raises(AwsError, match="no cluster 'demo'"):
            sandbox.notify("demo", "node-1")

    def test_control_socket_answers_only_owner(self, sandbox):
        address = json.loads((sandbox._folder / "ready.json").read_text())["control"]
        with pytest.raises(ControlError, match="digest"):
            ControlClient(address, "guessed").call("clusters")
        # What does not even begin as a caller does takes nothing away from the next one.
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(address)
            stranger.sendall(b"POST /clusters HTTP/1.0\r\n\r\n")
        assert sandbox.clusters() == ()

    def test_control_socket_refuses_unknown_operation(self, sandbox):
        with pytest.raises(AwsError, match="no operation unheard-of"):
            sandbox.call("unheard-of")

    def test_sandbox_folder_is_private(self, sandbox):
        assert sandbox._folder.stat().st_mode & 0o077 == 0

    def test_sandbox_environment_has_no_user_credentials_or_proxy(self, sandbox):
        environment = sandbox.process_environment({"AWS_PROFILE": "prod", "HTTPS_PROXY": "http://p:1", "PATH": "/bin"})
        assert "AWS_PROFILE" not in environment
        assert "HTTPS_PROXY" not in environment
        assert environment["PATH"] == "/bin"
        assert environment["AWS_ENDPOINT_URL"] == sandbox.endpoint

    def test_sandbox_listens_only_on_loopback(self, sandbox):
        port = int(sandbox.endpoint.rpartition(":")[2])
        listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        bound = {
            local.split(":")[0]
            for _, local, _, state, *_ in listening
            if state == "0A" and int(local.split(":")[1], 16) == port
        }
        assert bound == {"0100007F"}

    def test_slurm_scheduler_without_slurm_refused(self):
        expected = (
            contextlib.nullcontext() if daemons.available() else pytest.raises(ImpossibleError, match="not installed")
        )
        with expected:
            Sandbox(scheduler="slurm")

    def test_sandbox_without_proc_refused(self, monkeypatch, tmp_path):
        monkeypatch.setattr("launcher.sandbox.processes._PROC", tmp_path)
        with pytest.raises(ImpossibleError, match="which this system does not have"):
            Sandbox()

    def test_unknown_scheduler_refused(self):
        with pytest.raises(ImpossibleError, match="allowed: auto, slurm, local"):
            Sandbox(scheduler="pbs")


class TestPort:
    def test_occupied_port_refused_by_number(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with (
                pytest.raises(ImpossibleError, match=f"port {port} on 127.0.0.1 cannot be used") as refused,
                Sandbox(port=port),
            ):
                pytest.fail("it started")
        assert refused.value.exit_code == 5

    def test_free_port_is_used(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with Sandbox(port=port, scheduler="local") as sandbox:
            assert sandbox.endpoint == f"http://localhost:{port}"
