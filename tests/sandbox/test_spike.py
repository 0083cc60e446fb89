"""A spike and a new block in the sandbox: measurements before a run, and the capacity bought for it."""

import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import boto3
import pytest

from launcher.sandbox import running_sandbox

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def slipway(folder, *arguments, **more):
    """A command in a folder, beside the demo."""
    command = [sys.executable, "-m", "launcher", *arguments]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)} | more
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def demo(tmp_path):
    shutil.copytree(EXAMPLES / "tiny_gpt", tmp_path / "tiny_gpt")
    shutil.copy(EXAMPLES / "tiny-gpt.yaml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_spike_in_running_sandbox_leaves_no_stacks(demo):
    environment = {"XDG_CACHE_HOME": str(demo / "cache")}
    started = slipway(demo, "sandbox", "start", "--scheduler", "local", **environment)
    assert started.returncode == 0, started.stderr
    try:
        done = slipway(demo, "spike", "tiny-gpt.yaml", "--sandbox", "--yes", **environment)
        assert done.returncode == 0, done.stderr
        assert "removed what the spike created in us-east-2" in done.stderr
        assert "spike-p5" not in slipway(demo, "sandbox", "status", **environment).stdout
    finally:
        slipway(demo, "sandbox", "stop", **environment)


@pytest.mark.slow
def test_capacity_block_is_found_bought_and_used(demo):
    environment = {"XDG_CACHE_HOME": str(demo / "cache")}
    text = (demo / "tiny-gpt.yaml").read_text().replace("option: spot", "option: capacity-block")
    plan = demo / "block.yaml"
    plan.write_text(text.replace("max_usd: 100", "max_usd: 2000"))
    started = slipway(demo, "sandbox", "start", "--scheduler", "local", **environment)
    assert started.returncode == 0, started.stderr
    try:
        result = slipway(demo, "capacity", "block.yaml", "--sandbox", "--json", **environment)
        assert result.returncode == 0, result.stderr
        offer = json.loads(result.stdout)["offers"][0]
        assert offer["purchase_command"].endswith(f"--capacity-block-offering-id {offer['id']}")
        sandbox = running_sandbox.find(environment)
        assert sandbox is not None
        ec2 = boto3.client(
            "ec2",
            region_name=offer["region"],
            endpoint_url=f"http://127.0.0.1:{sandbox.port}",
            aws_access_key_id=sandbox.key_id,
            aws_secret_access_key=sandbox.key_secret,
        )
        bought = ec2.purchase_capacity_block(CapacityBlockOfferingId=offer["id"], InstancePlatform="Linux/UNIX")
        block = bought["CapacityReservation"]
        window = f"starts_at: {block['StartDate']:%Y-%m-%dT%H:%M:%SZ}, ends_at: {block['EndDate']:%Y-%m-%dT%H:%M:%SZ}"
        reservation = f"{{id: {block['CapacityReservationId']}, {window}, fee_usd: {offer['usd_fee']}}}"
        plan.write_text(
            plan.read_text().replace("option: capacity-block", f"option: capacity-block\n  reservation: {reservation}")
        )
        offers = json.loads(slipway(demo, "capacity", "block.yaml", "--sandbox", "--json", **environment).stdout)[
            "offers"
        ]
        assert block["CapacityReservationId"] in {offer["id"] for offer in offers}
        done = slipway(demo, "launch", "block.yaml", "--sandbox", "--yes", **environment)
        assert done.returncode == 0, done.stderr
        report = json.loads((demo / ".slipway" / "runs" / "tiny-gpt" / "latest" / "report.json").read_text())
        assert report["status"] == "succeeded"
        assert Decimal(report["quoted"]["usd"]) == pytest.approx(
            Decimal(offer["usd_total"]["mid"]), rel=Decimal("0.01")
        )
    finally:
        slipway(demo, "sandbox", "stop", **environment)


@pytest.mark.slow
def test_spike_of_demo_gives_measurement(demo):
    done = slipway(demo, "spike", "tiny-gpt.yaml", "--sandbox", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (only,) = document["measurements"]
    assert (document["schema"], only["schema"], document["unmeasured"]) == (
        "slipway.spike/1",
        "slipway.measurement/1",
        [],
    )
    assert 0 < only["tokens_per_s"]["low"] <= only["tokens_per_s"]["mid"] <= only["tokens_per_s"]["high"]
    assert (only["restore_s"] > 0, only["checkpoint_write_s"] > 0) == (True, True)
    assert (only["simulated"], only["global_batch_tokens"], only["step_s"] > 0) == (True, 1024.0, True)
    assert 0 < only["mfu"]["low"] <= only["mfu"]["mid"] <= only["mfu"]["high"]
    assert (only["parallelism"], sorted(only["software"])) == ({"data": 1}, ["numpy", "python"])
    assert len((demo / "measurements.jsonl").read_text().splitlines()) == 1
    # It was ended early: the demo has 900 steps.
    report = json.loads((demo / ".slipway" / "runs" / "tiny-gpt-spike-p5" / "latest" / "report.json").read_text())
    assert report["status"] == "cancelled"
    assert 100 <= report["attempts"][0]["last_step"] < 900


@pytest.mark.slow
def test_spike_dry_run_shows_every_quote_without_launch(demo):
    # Values over the plan file are in the plan of the spike.
    pinned = ["--set", "target.nodes=2", "--set", "run.env.SEEN=1"]
    done = slipway(demo, "spike", "tiny-gpt.yaml", "--sandbox", "--dry-run", "--json", *pinned)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["measurements"] == []
    assert document["unmeasured"] == [{"instance_type": "p5.48xlarge", "reason": "dry run: not launched"}]
    assert "Total to finish: $" in done.stderr or "Total  " in done.stderr
    spiked = json.loads((demo / ".slipway" / "spikes" / "tiny-gpt-spike-p5.json").read_text())
    assert (spiked["target"]["nodes"], spiked["run"]["env"]["SEEN"]) == (2, "1")
    assert "Nothing was deployed and nothing was measured" in done.stderr
    assert not (demo / "measurements.jsonl").exists()
