"""HyperPod's elastic agent under the signal that means "save": the published program, driven over its HTTP interface.

hyperpod-elastic-agent 1.1.3 asks for PyTorch below 2.12; here it runs with the tests' own, whose torchrun has an option
of the name of one of its options: the later one replaces the other.
"""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.rendering.kubernetes_job import LOG_PATTERN
from launcher.rendering.kubernetes_pod import ELASTIC_AGENT_ENVIRONMENT
from tests.plans import ROOT

pytestmark = [pytest.mark.elastic, pytest.mark.torch]

HYPERPODRUN = """
from hyperpod_elastic_agent import run

torchrun = run.get_args_parser

def parser():
    found = torchrun()
    found.conflict_handler = found._optionals.conflict_handler = "resolve"
    return found

run.get_args_parser = parser
run.main()
"""
TRAINER = """
import pathlib, signal, sys, time

here = pathlib.Path(sys.argv[1])

def save(*_):
    (here / "saved").touch()
    sys.exit(0)

signal.signal(signal.SIGUSR1, save)
print('{"step": 3, "loss": 2.5}', flush=True)
(here / "started").touch()
while True:
    time.sleep(0.05)
"""
START = {
    "rank": 0,
    "nnodes": 1,
    "faultCount": 0,
    "master_addr": "127.0.0.1",
    "rankIps": [{"rank": 0, "ip": "127.0.0.1"}],
}
RULES = [{"name": "steps", "logPattern": LOG_PATTERN, "expectedRecurringFrequencyInSeconds": 1}]
LONG_S = 120


class ElasticAgent:
    """One of them with one trainer, in a process group of its own."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "hyperpodrun.py").write_text(HYPERPODRUN, encoding="utf-8")
        (folder / "train.py").write_text(TRAINER, encoding="utf-8")
        arguments = ["--nnodes=1", "--nproc-per-node=1", "--rdzv-backend=hyperpod", "--shutdown-timeout=60"]
        arguments += ["--server-host=127.0.0.1", f"--server-port={self.port}", str(folder / "train.py"), str(folder)]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(ROOT / ".venv-elastic" / "bin" / "python"), str(folder / "hyperpodrun.py"), *arguments],
                env={**os.environ, "NNODES": "1", "TMPDIR": str(folder), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Its answer; no body is a GET."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            content: bytes = answer.read()
        return content

    def status(self) -> str:
        """Its state; empty while nobody answers."""
        try:
            return str(json.loads(self.ask("/status"))["status"])
        except urllib.error.URLError:
            return ""

    def until(self, condition: Any) -> None:
        """Wait for something to be true."""
        end = time.monotonic() + LONG_S
        while not condition():
            assert time.monotonic() < end, (self.folder / "log").read_text(encoding="utf-8")[-2000:]
            time.sleep(0.05)

    def has(self, name: str) -> bool:
        """Whether the trainer has left this mark."""
        return (self.folder / name).exists()


@pytest.fixture
def elastic_agent(request: pytest.FixtureRequest) -> Iterator[ElasticAgent]:
    variables, rules = request.param
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        elastic_agent = ElasticAgent(Path(folder), variables)
        try:
            elastic_agent.until(lambda: elastic_agent.status() == "ready")
            start = {**START, "master_port": elastic_agent.port + 1, "log_monitoring_configuration": rules}
            elastic_agent.ask("/start", start)
            elastic_agent.until(lambda: elastic_agent.has("started"))
            yield elastic_agent
        finally:
            subprocess.run(["pkill", "-KILL", "-f", str(elastic_agent.folder / "train.py")], check=False)
            if elastic_agent.process.poll() is None:
                os.killpg(elastic_agent.process.pid, signal.SIGKILL)
            elastic_agent.process.wait()


@pytest.mark.parametrize("elastic_agent", [({}, [])], indirect=True)
def test_elastic_agent_without_variable_dies_of_signal_without_save(elastic_agent: ElasticAgent) -> None:
    os.killpg(elastic_agent.process.pid, signal.SIGUSR1)
    assert elastic_agent.process.wait(LONG_S) == -signal.SIGUSR1
    assert not elastic_agent.has("saved")


@pytest.mark.parametrize("elastic_agent", [(ELASTIC_AGENT_ENVIRONMENT, [])], indirect=True)
def test_elastic_agent_with_pod_variables_saves_on_signal(elastic_agent: ElasticAgent) -> None:
    os.killpg(elastic_agent.process.pid, signal.SIGUSR1)
    elastic_agent.until(lambda: elastic_agent.has("saved"))
    assert elastic_agent.process.wait(LONG_S) > 0


@pytest.mark.parametrize("elastic_agent", [(ELASTIC_AGENT_ENVIRONMENT, [])], indirect=True)
def test_elastic_agent_graceful_stop_saves(elastic_agent: ElasticAgent) -> None:
    elastic_agent.ask("/stop", {"is_graceful": True, "timeout": 60})
    elastic_agent.until(lambda: elastic_agent.has("saved"))
    elastic_agent.until(lambda: elastic_agent.status() == "ready")
    assert elastic_agent.process.poll() is None


@pytest.mark.parametrize("elastic_agent", [(ELASTIC_AGENT_ENVIRONMENT, RULES)], indirect=True)
def test_elastic_agent_reports_steps_that_stop_as_hanging(elastic_agent: ElasticAgent) -> None:
    elastic_agent.until(lambda: b"LogHang_steps" in elastic_agent.ask("/status"))
