"""A real Slurm on a head node behind a real sshd, on loopback and below temporary folders."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.sandbox.cluster.specification import ClusterSpec, NodeGroup, Queue
from launcher.sandbox.slurm.daemons import PrivateSlurm, client_environment
from launcher.sandbox.slurm.files import SlurmPlaces, node_environment, write_node_environment
from launcher.submit.shell import LocalShell
from launcher.submit.slurm import Slurm
from launcher.submit.ssh import SshShell
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.emulators.moto_server import moto_server, s3_client
from tests.sandbox.agent.conftest import nursery  # noqa: F401  a fixture
from tests.waiting import until

PATIENCE_S = 120.0
KEY_ID, KEY = "AKIAFARAWAYTEST00000", "wJalrXUtnFEMIK7MDENGfarawaytestsecret000"
BUCKET = "far-checkpoints"
PLAN = """
slipway: 1
name: far
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: parallelcluster, region: us-east-2, instance_type: trn1.2xlarge, nodes: 1, {where}}}
purchase: {{option: on-demand, price_overrides: {{trn1.2xlarge/on-demand: "1.34"}}}}
checkpoint: {{uri: {uri}, interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: {command}, workdir: work, secrets: {secrets}}}
"""
TYPE = "p5.48xlarge"


def group(instance_type, nodes, **more):
    """The nodes of one type, in the queue that ParallelCluster's configuration gives them."""
    return NodeGroup(
        queue=instance_type.replace(".", "-"),
        name="nodes",
        instance_type=instance_type,
        capacity_type="SPOT",
        min_count=0,
        max_count=nodes,
        subnet_id="subnet-1",
        security_groups=(),
        placement_group=True,
        memory_mib=32768,
        **{"efa": False, "cpus": 8, "gpus": 0, "settings": {}, **more},
    )


GROUP = group(
    TYPE, 2, efa=True, cpus=192, gpus=8, settings={"Sockets": "2", "CoresPerSocket": "48", "ThreadsPerCore": "2"}
)
GROUPS = (GROUP, group("trn1.2xlarge", 1), group("p4d.24xlarge", 1))
SPEC = ClusterSpec(
    name="head",
    head_instance_type="m5.large",
    head_subnet_id="subnet-1",
    head_security_groups=(),
    queues=tuple(Queue(name=node_group.queue, exclusive=True, settings={}) for node_group in GROUPS),
    groups=GROUPS,
    settings=(("JobRequeue", "1"), ("RequeueExit", "75")),
    tags={},
    left_out=(),
)


@pytest.fixture(scope="session")
def running():
    """A private Slurm with two nodes."""
    # Sockets need a short path.
    folder = Path(tempfile.mkdtemp(prefix="slt-", dir="/tmp"))
    places = SlurmPlaces(folder=folder, nodes=folder / "n")
    for name in [name for node_group in GROUPS for name in node_group.node_names()]:
        scratch = folder / "n" / name / "scratch"
        scratch.mkdir(parents=True)
        environment = node_environment(
            metadata="http://127.0.0.1:9", scratch=str(scratch), life=f"{folder.name}-{name}"
        )
        write_node_environment(places, name, environment)
    slurm = PrivateSlurm(places, SPEC, "test-submit")
    slurm.start()
    yield slurm
    slurm.stop()
    shutil.rmtree(folder)


class HeadNode:
    """The machine that people log in to: a home folder, Slurm's commands, and whatever a test puts in their way."""

    def __init__(self, folder, slurm):
        self.folder = folder
        self.home = folder / "home"
        self.bin = self.home / "bin"
        self.bin.mkdir(parents=True)
        self.slurm = slurm
        variables = client_environment(slurm.places.configuration)
        self.environment = {
            **variables,
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{os.environ['PATH']}:{variables['PATH']}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        # A login shell sets PATH anew; the profile is where a head node puts its own.
        (self.home / ".bash_profile").write_text(f'echo "welcome to the cluster"\nexport PATH="{self.bin}:$PATH"\n')

    def jobs(self, *options):
        """Name and state of every job that Slurm remembers."""
        printed = self.slurm.run("squeue", "--noheader", "--states=all", "--format=%j %i %T", *options)
        return [line.split() for line in printed.splitlines()]

    def folder_with(self, text, *options, name="job"):
        """A job folder with a batch script, as an archive of it would be unpacked."""
        folder = self.home / name
        folder.mkdir()
        lines = "".join(
            f"#SBATCH {option}\n" for option in ("--output=slurm-%j.out", "--nodes=1", "--exclusive", *options)
        )
        (folder / "job.sbatch").write_text(f"#!/bin/bash\n{lines}{text}\n")
        return str(folder)

    def shadow_program(self, program, text):
        """A program that is found before the real one; {real} in its text is the real one's path."""
        real = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
        path = self.bin / program
        path.write_text("#!/bin/bash\n" + text.replace("{real}", str(real)))
        path.chmod(0o755)


@pytest.fixture
def head(tmp_path, running):
    node = HeadNode(tmp_path, running)
    yield node
    for _, job, state in node.jobs():
        if state in ("PENDING", "RUNNING", "COMPLETING"):
            running.run("scancel", job)
    until(lambda: not running.run("squeue", "--noheader", "--format=%i").strip())


@pytest.fixture
def local(head):
    return Slurm(shell=LocalShell(head.environment), sleep=lambda _: time.sleep(0.2))


def is_free(port):
    """Whether nothing listens on a port; those below 32768 are given to no server that asks for any port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class Sshd:
    """A server of one's own: throwaway keys, on loopback, for this user alone."""

    def __init__(self, folder, head):
        folder.mkdir()
        self.folder, self.head = folder, head
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
            )
        self.port = next(filter(is_free, secrets.SystemRandom().sample(range(20000, 30000), 100)))
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        self.known = folder / "known_hosts"
        key = (folder / "host.pub").read_text().split()
        self.known.write_text(f"[127.0.0.1]:{self.port} {key[0]} {key[1]}\n")
        self.configuration = folder / "ssh_config"
        self.configuration.write_text(
            f"Host gpu1\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known}\n  GlobalKnownHostsFile /dev/null\n"
        )
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SLIPWAY_SSH_CONFIG": str(self.configuration),
        }
        self.daemon = None

    def start(self, **variables):
        """Start it; sessions get these variables beside the head node's."""
        pairs = {**self.head.environment, **variables}
        assignments = " ".join(json.dumps(f"{name}={value}") for name, value in pairs.items())
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            f"PermitRootLogin prohibit-password\nMaxSessions 20\nSetEnv {assignments}\n"
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / "sshd_config")], stdout=log, stderr=log
            )
        until(self.answers)

    def answers(self):
        assert self.daemon.poll() is None, (self.folder / "log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def stop(self):
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
            self.daemon = None


@pytest.fixture
def sshd(tmp_path, head):
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("not installed: sshd (apt-get install openssh-server)")
    server = Sshd(tmp_path / "sshd", head)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def shell(sshd):
    ssh_shell = SshShell("gpu1", sshd.environment)
    yield ssh_shell
    ssh_shell.close()


@pytest.fixture
def remote(shell):
    return Slurm(shell=shell, sleep=lambda _: time.sleep(0.2))


@pytest.fixture(scope="session")
def s3_endpoint():
    """An S3 on loopback."""
    with moto_server() as address:
        yield address


@pytest.fixture
def keys(s3_endpoint):
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-2",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }


@pytest.fixture
def s3(keys):
    client = s3_client(keys)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    yield client
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    for entry in [content for page in pages for content in page.get("Contents", ())]:
        client.delete_object(Bucket=BUCKET, Key=entry["Key"])
    client.delete_bucket(Bucket=BUCKET)
    client.close()


@pytest.fixture
def far(s3, sshd, keys, tmp_path):
    """The head node with what its jobs need, and a plan whose work lies in a git tree."""
    # An instance role is what gives nodes and head node their access to AWS; nothing of the head node's reaches a job.
    for file in sshd.head.slurm.places.nodes.glob("*/environment"):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("AWS_") or "METADATA" in line]
        file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in keys.items())]) + "\n")
    sshd.stop()
    sshd.start(**keys, SLIPWAY_PYTHON=sys.executable, SLIPWAY_AGENT_CACHE=os.environ["SLIPWAY_AGENT_CACHE"])
    return Far(sshd, keys, tmp_path / "user", s3)


class Far:
    def __init__(self, sshd, keys, root, s3):
        self.sshd, self.head, self.root, self.s3 = sshd, sshd.head, root, s3
        self.environment = {**sshd.environment, **keys}
        self.work = root / "work"
        self.work.mkdir(parents=True)
        self.messages = []

    def plan(self, command, secrets=None, where="ssh_host: gpu1", uri=f"s3://{BUCKET}/team"):
        text = PLAN.format(command=json.dumps(command), secrets=json.dumps(secrets or {}), where=where, uri=uri)
        (self.root / "plan.yaml").write_text(text)
        return self.root / "plan.yaml"

    def launch(self, path, **changes):
        priced = price(path, datetime.now(UTC), PriceOptions())
        rank, quoted = pick(priced, None)
        assert quoted.gate.allows_launch, quoted.gate.reason
        setting = {
            "root": self.root,
            "environment": self.environment,
            "notify": self.messages.append,
            "progress": lambda now: self.messages.append(str(now)),
            "poll_s": 0.5,
        }
        return launch_quote(priced, rank, quoted, LaunchOptions(**setting | changes))

    def stored(self):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [content["Key"] for page in pages for content in page.get("Contents", ())]


RUNUSER = """[ "$1 $2 $3" = "-l ubuntu -c" ] || exit 64
exec env -i HOME="$HOME" SLURM_CONF="$SLURM_CONF" PATH="$PATH" bash -c "$4"
"""
