"""Messages for people that the agent leaves in the store for the guard, and messages it does not send."""

import json

import pytest

from launcher.agent.events import NEWER, EventLog
from launcher.agent.store import guard_messages
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

FOLDER = ".guard/stack/messages"
URI = f"s3://{BUCKET}/{PREFIX}{FOLDER}"
FIFO = 'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir tmp; mkfifo tmp/x; mv tmp step-3'


def stored_messages(bucket):
    keys = (key for key in bucket.all_keys() if key.startswith(FOLDER) and "/running/" not in key)
    return [json.loads(bucket.read(key)) for key in keys]


def test_dropped_checkpoint_message_is_stored(node, bucket):
    node.job(command=("bash", "-c", FIFO), message_uri=URI)
    assert node.run() == 74
    (message,) = stored_messages(bucket)
    assert (message["schema"], message["job"], message["attempt"], message["what"]) == (
        "slipway.message/1",
        "tiny",
        1,
        "step 3",
    )
    assert message["reason"] == node.events("checkpoint-dropped")[0]["reason"]


def test_dropped_checkpoint_message_is_stored_during_command(node, bucket):
    node.job(command=("bash", "-c", f"{FIFO}; exec sleep 60"), message_uri=URI)
    agent = node.start()
    node.wait_until(lambda: stored_messages(bucket))
    agent.terminate()
    assert agent.wait() == 143
    assert [word["what"] for word in stored_messages(bucket)].count("step 3") == 1


def test_message_refused_by_store_is_sent_at_end(node, bucket, front):
    front.rule = lambda method, path: 503 if method == "PUT" and FOLDER in path else None
    node.job(command=("bash", "-c", f"{FIFO}; until [ -e ../../../../go ]; do sleep 0.1; done"), message_uri=URI)
    agent = node.start()
    node.wait_for("checkpoint-dropped")
    assert stored_messages(bucket) == []
    front.rule = lambda *_: None
    (node.folder / "go").touch()
    assert agent.wait() == 74
    assert len(stored_messages(bucket)) == 1


def test_first_node_sends_message_once_for_two_nodes(node, bucket):
    script = (
        'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir tmp; echo w >tmp/data; [ $SLURM_NODEID = 0 ] || mkfifo tmp/x; '
        "mv tmp step-3; sleep 2"
    )
    node.job(command=("bash", "-c", script), message_uri=URI)
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
    assert [agent.wait(timeout=90) for agent in agents] == [74, 74]
    (message,) = stored_messages(bucket)
    assert "its part cannot be used: step-3 holds 'x', a FIFO" in message["reason"]


class TestGuardMessages:
    @pytest.fixture
    def log(self, tmp_path):
        return EventLog(tmp_path / "events.jsonl", run="r", attempt=2, node="n")

    def test_superseded_dropped_checkpoint_sends_no_message(self, store, bucket, log):
        with guard_messages.forwarding(URI, "tiny", log):
            log.append("checkpoint-dropped", step=1, reason=NEWER)
            log.append("checkpoint-uploaded", step=2)
            log.append("checkpoint-dropped", folder="step-9", reason="half written")
        (message,) = stored_messages(bucket)
        assert (message["what"], message["reason"]) == ("step-9", "half written")

    def test_forecast_message_is_stored(self, store, bucket, log):
        with guard_messages.forwarding(URI, "tiny", log):
            log.append("forecast", kind="budget", reason="$120 at the end")
        (message,) = stored_messages(bucket)
        assert (message["event"], message["what"], message["reason"]) == ("forecast", None, "$120 at the end")

    def test_number_of_messages_is_limited(self, store, bucket, log):
        with guard_messages.forwarding(URI, "tiny", log):
            for step in range(guard_messages.MAX_MESSAGES + 5):
                log.append("checkpoint-dropped", step=step, reason="odd")
        assert len(stored_messages(bucket)) == guard_messages.MAX_MESSAGES

    def test_no_guard_folder_writes_no_messages(self, store, bucket, log):
        with guard_messages.forwarding(None, "tiny", log):
            log.append("checkpoint-dropped", step=1, reason="odd")
        assert stored_messages(bucket) == []
