"""Faults of the agent or of a trainer's files end neither the command nor the uploads, and are reported."""

import os
import signal
import sys
import time

import pytest

from launcher.agent.node.process import group_lives

ODD = """
import os
with open(os.environ["SLIPWAY_METRICS"], "a") as file:
    for line in ('{"step": 1, "checkpoint_seconds": 1%s}' % ("0" * 400), "[" * 100000, "NaN", '{"step": "x"}'):
        file.write(line + "\\n")
"""


def test_invalid_metrics_do_not_stop_agent(node, bucket):
    trainer = str(node.folder / "train.py")
    (node.folder / "odd.py").write_text(ODD)
    script = f"python3 odd.py; sleep 2; exec python3 {trainer} 2 0 1000"
    node.job(command=("sh", "-c", script), hung_minutes=10.0, mtbf_s=3600.0)
    assert node.run() == 0
    assert bucket.whole()[-1] == 2
    assert node.events("metrics-skipped")[-1]["lines"] == 4


BROKEN = """
import sys
from launcher.agent import program, supervision
from launcher.agent.checkpoint import {module}
def broken(*_, **__):
    raise RuntimeError("a defect")
{patch} = broken
sys.exit(program.main(sys.argv[1:]))
"""


class TestDefect:
    """A part of the agent is made to fail for good."""

    def start(self, node, module, patch):
        program = BROKEN.format(module=module, patch=patch)
        node.program = [sys.executable, "-c", program]
        return node.run()

    def test_defect_in_metrics_stores_checkpoints_and_exits_with_70(self, node, bucket):
        node.job(3, 0.1, 1000)
        assert self.start(node, "watch", "supervision.Supervision._poll_metrics") == 70
        assert bucket.whole()[-1] == 3
        assert node.output()[-1] == "step 3"
        assert len(node.events("watching-failed")) == 1
        reason = "the command completed, but the agent failed while looking at the metrics: RuntimeError('a defect')"
        assert node.events()[-1]["reason"] == reason

    def test_defect_in_checkpoint_watch_lets_command_finish(self, node, bucket):
        node.job(3, 0.1, 1000)
        assert self.start(node, "watch", "watch.CheckpointWatch.poll") == 70
        assert node.output()[-1] == "step 3"
        assert bucket.whole()[-1] == 3  # the last check for checkpoints still found it

    def test_defect_in_upload_drops_checkpoint_and_exits_with_74(self, node, bucket):
        node.job(1, 0.1, 1000)
        assert self.start(node, "uploader", "uploader.Sender.send") == 74
        (dropped,) = node.events("checkpoint-dropped")
        assert dropped["reason"] == "the agent failed to store it: RuntimeError('a defect')"


class TestTheCommandOfAKilledAgent:
    @pytest.fixture
    def command(self, node, bucket):
        node.job(command=("sleep", "300"))
        agent = node.start()
        (started,) = node.wait_for("command-started")
        yield agent, started["pid"]
        if group_lives(started["pid"]):
            os.killpg(started["pid"], signal.SIGKILL)

    def test_killed_agent_ends_command(self, command):
        agent, pid = command
        agent.kill()
        agent.wait()
        patience = time.monotonic() + 10
        while group_lives(pid):
            assert time.monotonic() < patience, "the command outlives its agent"
            time.sleep(0.01)

    def test_command_process_group_is_recorded_before_start(self, node, bucket):
        """The command itself finds its process group in the agent's folder."""
        node.job(command=("sh", "-c", 'grep -c "\\"pid\\": $$," "$SLIPWAY_CHECKPOINT_DIR/../owner.json"'))
        assert node.run() == 0
        assert node.output() == ["1"]
