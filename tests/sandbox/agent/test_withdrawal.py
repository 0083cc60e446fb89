"""A job begins at an earlier checkpoint: the later ones are out of the running, and stay in the store."""

import json
import sys
from datetime import UTC, datetime

import pytest

from launcher.agent.checkpoint import inspection
from launcher.agent.checkpoint.retention import Retention, retained_form
from launcher.agent.withdrawn import WITHDRAWN_KEY, withdrawn_manifests, withdrawn_text
from launcher.model.errors import ImpossibleError
from launcher.workflow.run.checkpoints import choose_checkpoint, superseded_keys, survey
from launcher.workflow.run.earlier_step import begin_at, begin_text
from tests.sandbox.agent.checkpoints import whole

POISONED = """
import os
from pathlib import Path
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step = int(resume.rpartition("-")[2]) if resume else 0
print("resumes", step, Path(resume, "data").read_text() if resume else "", flush=True)
while step < int(os.environ["STEPS"]):
    step += 1
    (folder / "tmp").mkdir()
    (folder / "tmp" / "data").write_text("nan" if step > 2 and not os.environ.get("MENDED") else "1.5")
    (folder / "tmp").rename(folder / f"step-{step}")
    import time; time.sleep(0.7)
"""
"""Its weights are NaN from step 3 on, until it is mended."""


def begin(objects, step):
    messages = []
    begun = begin_at(objects, step, datetime.now(UTC), messages.append)
    assert messages == []
    return begin_text(*begun, what="this job")


def train(node, *, attempt, run="r1", **environment):
    """An attempt of the trainer on an empty node; what it resumed from."""
    node.job(command=(sys.executable, "-c", POISONED), keep=9, run=run)
    assert node.run(attempt=attempt, **environment) == 0
    return node.output()[-1]


class TestAgent:
    def test_job_from_step_resumes_there_and_later_saves_count(self, node, bucket, objects):
        assert train(node, attempt=1, STEPS="5") == "resumes 0 "
        before = set(bucket.keys())
        assert begin(objects, 2) == "this job resumes from step 2; out of the running, not deleted: 5, 4, 3"
        node.lose()
        assert train(node, attempt=2, run="r2", STEPS="4", MENDED="1") == "resumes 2 1.5"
        assert before <= set(bucket.keys())
        assert {step: one.withdrawn for step in (3, 4, 5) for one in survey(objects) if one.step == step} == {
            3: False,
            4: False,
            5: True,
        }
        node.lose()
        assert train(node, attempt=3, run="r2", STEPS="4") == "resumes 4 1.5"
        assert {event["reason"] for event in node.events("restore-skipped")} == {
            "launch --from-step took it out of the running"
        }

    def test_copy_on_node_withdrawn_by_from_step_is_not_resumed(self, node, bucket, objects, front):
        """Step 4 was finished on the node, and no attempt could store it."""
        front.rule = lambda method, path: 503 if method == "PUT" and "/step-4/" in path else None
        node.job(command=(sys.executable, "-c", POISONED), final_upload_s=1.0)
        assert node.run(STEPS="4") == 74
        front.rule = lambda *_: None
        assert begin(objects, 2).endswith("not deleted: 3")
        assert train(node, attempt=2, STEPS="2") == "resumes 2 1.5"
        assert "copy on this node" in node.events("restore-skipped", 2)[0]["reason"]
        assert begin(objects, 3) == "this job resumes from step 3, the last one in the running"
        assert train(node, attempt=3, STEPS="3") == "resumes 3 nan"

    def test_unusable_withdrawal_record_stops_job(self, node, bucket):
        whole(bucket, 1)
        bucket.write(WITHDRAWN_KEY, b'{"schema": "slipway.withdrawn/1"}')
        node.job(1, 0, 10)
        assert node.run() not in (0, 75)
        assert "withdrawn.json is unusable: manifests must be list, got NoneType" in node.events()[-1]["reason"]


class TestStore:
    def test_withdrawn_checkpoints_and_referenced_objects_do_not_expire(self, store, bucket):
        shared = "step-2/r1.a1/0-beef/data"
        newest = whole(bucket, 1)
        whole(bucket, 2)
        whole(bucket, 3, keys=(shared,))
        inspect = inspection.inspect(store, withdrawn=frozenset({"step-3/manifest.json"}))
        policy = Retention(store, keep=1, inspect=inspect, newest=retained_form(newest))
        policy.record_commit(retained_form(whole(bucket, 4)))
        assert dict(policy.superseded_steps()) == {
            1: sorted({"step-1/manifest.json", "step-1/r1.a1/0-beef/data"}),
            2: ["step-2/manifest.json"],
        }

    def test_prune_deletes_withdrawn_and_keeps_newest_valid_checkpoint(self, bucket, objects):
        for step in (1, 2, 3):
            whole(bucket, step)
        begin(objects, 2)
        surveyed = survey(objects)
        assert choose_checkpoint(surveyed, None).step == 2
        assert {key.partition("/")[0] for key in superseded_keys(surveyed, bucket.all_keys(), 1)} == {
            "step-1",
            "step-3",
        }

    def test_expiring_checkpoint_untagged_by_from_step(self, bucket, objects):
        for step in (1, 2):
            whole(bucket, step)
        for key in ("step-1/manifest.json", "step-1/r1.a1/0-beef/data"):
            bucket.supersede(key)
        bucket.write("superseded.json", json.dumps({"schema": "slipway.superseded/1", "steps": {"1": []}}).encode())
        begin(objects, 1)
        assert bucket.expiring() == set()

    def test_withdrawn_step_restored_by_later_from_step(self, bucket, objects):
        for step in (1, 2, 3):
            whole(bucket, step)
        begin(objects, 1)
        assert begin(objects, 3) == "this job resumes from step 3, the last one in the running"
        assert choose_checkpoint(survey(objects), None).step == 3
        assert withdrawn_manifests(bucket.read(WITHDRAWN_KEY).decode()) == {"step-2/manifest.json"}

    @pytest.mark.parametrize(
        "step, message", [(7, "no checkpoint of step 7"), (2, "step 2 is not complete: .*data is missing")]
    )
    def test_from_step_missing_or_incomplete_refused_with_complete_steps(self, bucket, objects, step, message):
        whole(bucket, 1)
        whole(bucket, 2)
        bucket.delete("step-2/r1.a1/0-beef/data")
        with pytest.raises(ImpossibleError, match=message) as refused:
            begin(objects, step)
        assert refused.value.hint == "complete steps: 1"
        assert WITHDRAWN_KEY not in bucket.all_keys()

    def test_from_step_refused_while_job_writes(self, bucket, objects):
        whole(bucket, 1)
        bucket.write("claim.json", json.dumps({"released": False, "run": "llm-1"}).encode())
        with pytest.raises(ImpossibleError, match="llm-1 is writing checkpoints to"):
            begin(objects, 1)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "slipway.withdrawn/2", "manifests": []}', withdrawn_text(["x"])]
)
def test_invalid_withdrawal_record_is_error(text):
    with pytest.raises(Exception, match=r"withdrawn\.json is unusable"):
        withdrawn_manifests(text)
