"""Steps before and after the command: each runs once per run, and after an interruption only the unfinished ones."""

import signal

import pytest

from launcher.agent.job import StepSpec
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

PLAN = {"plan_uri": f"s3://{BUCKET}/{PREFIX.rstrip('/')}"}
WAITS = "while [[ ! -e go ]]; do sleep 0.1; done; "


def step(name, then="", on="first"):
    line = f'{then} echo "{name} on $SLIPWAY_NODE_RANK" >>done-{name}-$SLIPWAY_NODE_RANK; echo {name}'
    return StepSpec(command=("bash", "-eo", "pipefail", "-c", line), on=on)


def command(name="train", then=""):
    return step(name, then).command


def done_steps(node):
    """How often each step was done, by its name and its node."""
    return {
        path.name.removeprefix("done-"): len(path.read_text().split("\n")) - 1 for path in node.folder.glob("done-*")
    }


@pytest.mark.parametrize("mode", ["agent", "none"])
def test_steps_run_around_command_and_results_are_outputs(node, bucket, mode):
    changes = {"before": (step("prepare"), step("tokens")), "after": (step("merge"), step("judge")), **PLAN}
    node.job(command=command(), outputs=("done-judge-0",), mode=mode, **changes)
    assert node.run() == 0
    assert node.output() == ["prepare", "tokens", "train", "merge", "judge"]
    assert node.events()[-1]["event"] == "completed"
    assert [event["files"] for event in node.events("outputs-stored")] == [1]
    assert not node.events("output-missing")
    assert {key for key in bucket.all_keys() if key.startswith("steps/")} == {
        f"steps/r1/{which}/0" for which in ("before-0", "before-1", "command", "after-0", "after-1")
    }


def test_failed_step_is_repeated_alone(node, bucket):
    node.job(command=command(), before=(step("prepare"),), after=(step("merge"), step("judge", "exit 4;")), **PLAN)
    assert node.run() == 4
    assert node.events("failed")[0]["reason"] == "after-1 ended with 4"
    node.job(command=command(), before=(step("prepare"),), after=(step("merge"), step("judge")), **PLAN)
    assert node.run(attempt=2) == 0
    assert done_steps(node) == {"prepare-0": 1, "train-0": 1, "merge-0": 1, "judge-0": 1}
    assert not node.events("command-ended", attempt=2)


def test_notice_during_step_resumes_at_step(node, bucket):
    node.job(command=command(), before=(step("prepare"), step("tokens", WAITS)), **PLAN)
    agent = node.start()
    node.wait_until(lambda: len(node.events("step-started")) == 2)
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=60) == 75
    (node.folder / "go").touch()
    assert node.run(attempt=2) == 0
    assert done_steps(node) == {"prepare-0": 1, "tokens-0": 1, "train-0": 1}


def test_second_node_waits_for_steps_of_first(node, bucket):
    node.job(command=command(), before=(step("shared", WAITS), step("own", on="all")), after=(step("merge"),), **PLAN)
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    agents = [node.start(node=f"vn{part}", SLURM_NODEID=str(part), **common) for part in (0, 1)]
    node.wait_for("step-started")
    node.wait_for("attempt-started", part=1)
    assert done_steps(node) == {}
    (node.folder / "go").touch()
    assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
    assert done_steps(node) == {"shared-0": 1, "own-0": 1, "own-1": 1, "train-0": 1, "train-1": 1, "merge-0": 1}


def test_store_without_step_marks_stops_job(node, bucket):
    node.job(command=command(), before=(step("prepare"),), plan_uri="s3://no-such-bucket/x")
    assert node.run() == 74
    assert done_steps(node) == {}
