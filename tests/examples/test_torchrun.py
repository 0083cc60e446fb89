"""Jobs under torchrun: node ranks; of a notice the ranks get the signal that they catch, torchrun itself none."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from launcher.agent.node import peers
from launcher.agent.node.placement import Placement
from tests.examples.conftest import TORCHRUN, code_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

RANK = """
import json, os, signal, sys, time
from pathlib import Path
rank, stop = os.environ["RANK"], []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
place = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "checkpoint-7")
with open(os.environ["SLIPWAY_METRICS"], "a") as metrics:
    metrics.write(json.dumps({"step": 1, "loss": 1.0}) + "\\n")
while not stop:
    time.sleep(0.01)
place.mkdir(exist_ok=True)
for part in range(3):
    (place / f"shard-{rank}-{part}").write_text(rank)
    time.sleep(0.2)
(Path("left") / rank).touch()
while len(list(Path("left").iterdir())) < 2:
    time.sleep(0.01)
print(f"rank {rank} saved", flush=True)
sys.exit(1)
"""


def test_ranks_saving_on_sigterm_upload_the_last_step(start_trainer, s3_server):
    """As Megatron's --exit-signal-handler; its torchrun ends with 1."""
    environment, keys = s3_server
    run = start_trainer(
        "bash", "-c", f"{sys.executable} -m torch.distributed.run rank.py; exit $?", **TORCHRUN, **environment
    )
    (run.folder / "rank.py").write_text(RANK)
    (run.folder / "left").mkdir()
    agent = run.supervised(mode="agent")
    run.wait_until(lambda: len(run.metrics()) == 2)
    agent.send_signal(signal.SIGUSR1)
    assert code_of(agent) == 75, run.output()
    (signalled,) = run.events("signalled")
    assert (signalled["signal"], len(signalled["processes"])) == ("SIGTERM", 2)
    assert [event["code"] for event in run.events("command-ended")] == [1]
    assert [event["step"] for event in run.events("checkpoint-uploaded")] == [7]
    assert {key.rpartition("/")[2] for key in keys()} >= {f"shard-{rank}-{part}" for rank in "01" for part in range(3)}


def test_command_that_asks_for_c10d_has_rank_0_on_the_first_node(monkeypatch):
    """torchrun orders the nodes of a c10d rendezvous by the text of their addresses."""
    addresses = ["127.70.9.1", "127.70.1.1"]
    with socket.socket() as free:
        free.bind((addresses[0], 0))
        endpoint = f"{addresses[0]}:{free.getsockname()[1]}"
    started = []
    for part, address in enumerate(addresses):
        monkeypatch.setattr(peers, "own_address", lambda _, address=address: address)
        place = Placement(run="r", attempt=1, part=part, parts=2, node=f"vn{part}", session="s")
        variables = peers.Peers(None, place, None, on_notice=print).meeting_variables
        options = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}"]
        command = [sys.executable, "-m", "torch.distributed.run", *options, "--no-python", "printenv", "RANK"]
        environment = os.environ | variables
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    assert [process.communicate(timeout=120)[0] for process in started] == [b"0\n", b"1\n"]
