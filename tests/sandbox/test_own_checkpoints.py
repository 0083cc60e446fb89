"""Mode `own` and `run.data` on every target: data is fetched first, the trainer resumes by itself."""

import json
import re
import sys
from datetime import UTC, datetime

import pytest

from launcher.model.report import RunStatus
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.sandbox.clients import client

REGION, STEPS = "us-east-2", 120
# As Megatron writes, to S3: iter_N, then the tracker.
TRAINER = """
import os, signal, sys, time
from pathlib import Path
import boto3
from botocore.config import Config
steps, data, stop = int(sys.argv[1]), Path(sys.argv[2]), []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
rank, nodes = int(os.environ["SLIPWAY_NODE_RANK"]), int(os.environ["SLIPWAY_NODES"])
shards = sorted(path.name for path in (data / "tokens").iterdir())
print("data", rank, *shards, (data / "base" / "weights").read_text(), flush=True)
bucket, _, prefix = os.environ["SLIPWAY_CHECKPOINT_URI"].removeprefix("s3://").partition("/")
s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
tracker = {"Bucket": bucket, "Key": f"{prefix}/latest_checkpointed_iteration.txt"}
try:
    step = int(s3.get_object(**tracker)["Body"].read())
except s3.exceptions.NoSuchKey:
    step = 0
print("begins", rank, step, flush=True)
while step < steps and not stop:
    time.sleep(0.5)
    step += 1
    if rank == 0:
        s3.put_object(Bucket=bucket, Key=f"{prefix}/iter_{step:07}/shard.pt", Body=b"x")
        s3.put_object(**tracker, Body=str(step).encode())
sys.exit(1 if stop else 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parallelcluster", "hyperpod-slurm", "eks", "hyperpod-eks"])
def test_trainer_with_own_checkpoints_resumes_from_checkpoint_uri(kind, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(TRAINER)
    plan = {
        "slipway": 1,
        "name": "own",
        "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
        "target": {"kind": kind, "region": REGION, "az_id": "use2-az1", "instance_type": "p5.48xlarge", "nodes": 2},
        "purchase": {"option": "on-demand" if "hyperpod" in kind else "spot"},
        "checkpoint": {"mode": "own", "uri": "s3://of-the-team/runs/a", "interval": 60, "grace_seconds": 10},
        "run": {
            "command": f"{sys.executable} train.py {STEPS} {tmp_path}/data",
            "workdir": str(tmp_path / "work"),
            "data": [
                {"uri": "s3://of-the-team/tokens", "path": f"{tmp_path}/data/tokens", "shard": True},
                {"uri": "s3://of-the-team/base", "path": f"{tmp_path}/data/base"},
            ],
        },
    }
    (tmp_path / "own.json").write_text(json.dumps(plan))
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        s3 = client(sandbox, "s3", region_name=REGION)
        s3.create_bucket(Bucket="of-the-team", CreateBucketConfiguration={"LocationConstraint": REGION})
        for name in ("tokens/0.bin", "tokens/1.bin", "tokens/2.bin", "base/weights"):
            s3.put_object(Bucket="of-the-team", Key=name, Body=b"weights")
        priced = price(tmp_path / "own.json", datetime.now(UTC), PriceOptions(any_age=True))
        messages = []
        options = LaunchOptions(
            root=tmp_path,
            sandbox=True,
            emulator=sandbox,
            notify=messages.append,
            progress=lambda _: None,
            interrupt_after_s=2.0,
        )

        folder, report = launch_quote(priced, *pick(priced, None), options)

        logs = [path.read_text() for path in sorted(folder.path.glob("logs/attempt-*.log"))]
        sys.stdout.write("\n".join([*messages, *logs]))
        assert report.status is RunStatus.SUCCEEDED
        assert [attempt.ended_by for attempt in report.attempts][1:] == ["completed"]
        keys = {content["Key"] for content in s3.list_objects_v2(Bucket="of-the-team", Prefix="runs/a/")["Contents"]}
        assert keys == {f"runs/a/iter_{n:07}/shard.pt" for n in range(1, STEPS + 1)} | {
            "runs/a/latest_checkpointed_iteration.txt"
        }
        begun = [int(step) for step in re.findall(r"begins 0 (\d+)", "\n".join(logs))]
        assert begun[0] == 0 < begun[1]
        assert (
            re.findall(r"data 0 (.*) weights", "\n".join(logs)) == ["0.bin 1.bin 2.bin"] * 2
        )  # one disk for both nodes
        assert "data-fetched data=run.data[0]" in logs[0]
