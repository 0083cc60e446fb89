"""An agent whose parent is killed, as slurmstepd on a node may be, and a node's log without a reader."""

import io
import os
import sys

import pytest

from launcher.agent.events import EventLog

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_NUM_NODES": "1"}


@pytest.mark.parametrize("code, event", [(0, "requeued"), (1, "requeue-failed")])
def test_ended_slurmstepd_requeues_job(node, bucket, code, event):
    scontrol = node.folder / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >>{node.folder}/asked\nexit {code}\n')
    scontrol.chmod(0o755)
    path = f"{node.folder}:{os.environ['PATH']}"
    node.job(100_000, 0.1, 1000)
    node.program = ["sh", "-c", '"$@" & wait', "slurmstepd", sys.executable, "-m", "launcher.agent"]
    starter = node.start(**STEP, PATH=path)
    node.wait_for("checkpoint-uploaded")
    starter.kill()
    starter.wait()
    node.wait_for(event)
    assert (node.folder / "asked").read_text() == "requeue 7\n"
    ended = node.events("interrupted")[0]
    assert (ended["exit_code"], ended["reason"]) == (75, "the slurmstepd process of this node ended")
    assert bucket.whole()[-1] == node.last_step()


def test_closed_standard_error_does_not_stop_job(tmp_path, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with io.TextIOWrapper(os.fdopen(writer, "wb", buffering=0), write_through=True) as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        EventLog(tmp_path / "events.jsonl", run="r1").append("notice")
        monkeypatch.undo()
    assert '"event": "notice"' in (tmp_path / "events.jsonl").read_text()
