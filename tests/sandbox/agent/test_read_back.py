"""Reading a checkpoint back while the command runs, to measure the restore time."""

from pathlib import Path

from launcher.agent.job import READ_BACK

ENV = {READ_BACK: "1"}


def test_first_checkpoint_is_read_back_once_and_removed(node, bucket):
    node.job(200, 0.1, 1000, env=ENV)
    process = node.start()
    (event,) = node.wait_for("read-back")
    node.wait_until(lambda: len(node.steps("checkpoint-uploaded")) > 2)
    assert (event["step"], event["bytes"]) == (node.steps("checkpoint-uploaded")[0], 2000)
    assert event["seconds"] > 0
    process.terminate()
    process.wait(timeout=90)
    assert len(node.events("read-back")) == 1
    assert list(Path(node.folder).glob("node/*/*/read-back")) == []


def test_first_checkpoint_is_requested_at_once_with_any_interval(node, bucket):
    script = 'until [ "$(cat "$SLIPWAY_CHECKPOINT_INTERVAL_FILE")" = 1 ]; do sleep 0.05; done; echo wanted'
    node.job(command=("sh", "-c", script), env=ENV, interval_s=600.0)
    assert node.run() == 0
    assert node.output() == ["wanted"]
