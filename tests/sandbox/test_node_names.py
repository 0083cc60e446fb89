"""Nodes with host names and hosts files of their own: each target's names, and nodes in networks of their own."""

import json
import os
import secrets
import subprocess
import sys

import pytest

from launcher.sandbox import namespaces
from tests.plans import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not namespaces.can_name_hosts(), reason="creating namespaces takes root"),
]

NAMES = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"
CONTAINER = """
import importlib.util, json, os, runpy, sys
def module(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
root, config, script = sys.argv[1:]
sys.path.insert(0, root)
environment = dict(os.environ, SLIPWAY_OPERATOR="job", SLIPWAY_RUN_KEY="run")
module(root + "/templates/sagemaker/entry.py").write_placement(json.loads(config), environment)
module(root + "/templates/kubernetes/start.py").rendezvous(environment)
from launcher.agent.node.peers import Peers, own_address
from launcher.agent.node.placement import placement
print("announces", own_address(environment["SLIPWAY_NODE"]), flush=True)
peers = Peers(None, placement("run", environment), None, on_notice=print)
os.environ.update({**peers.meeting_variables, **environment})
sys.argv = ["torchrun", "--nnodes=2", "--nproc-per-node=1", script]
runpy.run_module("torch.distributed.run", run_name="__main__")
"""
TRAINER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
seen = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(seen)
print(f"rank {dist.get_rank()} at {os.environ['MASTER_ADDR']} sums to {seen.item():g}", flush=True)
dist.destroy_process_group()
"""


def output(command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout.split()


def test_node_resolves_only_local_hostname():
    where = namespaces.address("gpu-1", 1)
    assert output(namespaces.with_own_name_only([sys.executable, "-c", NAMES], "gpu-1")) == ["gpu-1", where]
    other = f"import socket; socket.gethostbyname('{'gpu-2'}')"
    with pytest.raises(subprocess.CalledProcessError):
        output(namespaces.with_own_name_only([sys.executable, "-c", other], "gpu-1"))
    # This computer keeps its own name and file.
    assert os.uname().nodename != "gpu-1"


def test_training_job_container_resolves_only_algo_names():
    hosts = {"algo-1": "127.64.0.1", "algo-2": "127.64.0.2"}
    with pytest.raises(subprocess.CalledProcessError) as failed:
        output(namespaces.on_node([sys.executable, "-c", NAMES], name="aws", hosts=hosts))
    assert "gaierror" in failed.value.stderr
    named = "import socket; print(*(socket.gethostbyname(name) for name in ('algo-1', 'algo-2')))"
    assert output(namespaces.on_node([sys.executable, "-c", named], name="aws", hosts=hosts)) == list(hosts.values())


def test_process_in_namespace_keeps_process_id():
    process = subprocess.Popen(
        namespaces.with_own_name_only(["sh", "-c", "echo $$"], "gpu-1"), stdout=subprocess.PIPE, text=True
    )
    out, _ = process.communicate()
    assert int(out) == process.pid


@pytest.fixture
def networks():
    """Two network namespaces with one cable between them: their names, and the address of each."""
    mark = secrets.token_hex(3)
    names, addresses = [f"sl{mark}{side}" for side in "ab"], ["10.231.7.1", "10.231.7.2"]

    def run(*command):
        subprocess.run(command, check=True, capture_output=True)

    try:
        for name in names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for name, address in zip(names, addresses, strict=True):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", link, "up")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network namespace can be made here")
    else:
        yield dict(zip(names, addresses, strict=True))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@pytest.mark.torch
def test_training_job_containers_in_separate_networks_connect(networks, tmp_path):
    """As on SageMaker: every container is called "aws", and finds algo-1 and algo-2 in its hosts file alone."""
    (tmp_path / "train.py").write_text(TRAINER)
    hosts = {f"algo-{number}": address for number, address in enumerate(networks.values(), start=1)}
    containers = []
    for name, host in zip(networks, hosts, strict=True):
        config = {"hosts": list(hosts), "current_host": host, "network_interface_name": "eth0"}
        command = [sys.executable, "-c", CONTAINER, str(ROOT), json.dumps(config), str(tmp_path / "train.py")]
        inside = ["ip", "netns", "exec", name, *namespaces.on_node(command, name="aws", hosts=hosts)]
        containers.append(subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [container.communicate(timeout=120)[0] for container in containers]
    assert [container.returncode for container in containers] == [0, 0], outputs
    for rank, text in enumerate(outputs):
        assert f"rank {rank} at algo-1 sums to 3\n" in text
    for address, text in zip(hosts.values(), outputs, strict=True):
        assert f"announces {address}\n" in text
