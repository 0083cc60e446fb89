"""The heartbeat of a job's nodes for the guard: while the command runs, and at its end."""

import json

from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

FOLDER = ".guard/stack/messages"
URI = f"s3://{BUCKET}/{PREFIX}{FOLDER}"


def beats(bucket):
    return [json.loads(bucket.read(key)) for key in bucket.all_keys() if key.startswith(f"{FOLDER}/running/")]


def test_heartbeat_written_during_command_and_marked_over_at_end(node, bucket):
    node.job(command=("sleep", "60"), message_uri=URI)
    agent = node.start()
    node.wait_until(lambda: beats(bucket))
    (heartbeat,) = beats(bucket)
    assert (heartbeat["schema"], heartbeat["job"], heartbeat["attempt"], heartbeat["part"]) == (
        "slipway.heartbeat/1",
        "tiny",
        1,
        0,
    )
    assert heartbeat["over"] is False
    agent.terminate()
    agent.wait()
    (heartbeat,) = beats(bucket)
    assert heartbeat["over"] is True


def test_refused_heartbeat_does_not_delay_job(node, bucket, front):
    front.rule = lambda method, path: 503 if method == "PUT" and "/running/" in path else None
    node.job(command=("true",), message_uri=URI)
    assert node.run() == 0
    assert beats(bucket) == []
