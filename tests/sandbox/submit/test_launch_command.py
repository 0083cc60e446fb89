"""`slipway launch`: prices from an emulator of AWS's price services, the job on a real Slurm over ssh."""

import json
import sys

import pytest

from tests.emulators.aws_prices import AwsPrices, served
from tests.emulators.price_entries import ec2_product, term
from tests.sandbox.submit.conftest import BUCKET
from tests.waiting import replace_sleep

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-commands")]
PLAN = f"""
slipway: 1
name: far
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: parallelcluster, region: us-east-2, instance_type: trn1.2xlarge, nodes: 1, ssh_host: gpu1}}
purchase: {{option: on-demand}}
checkpoint: {{uri: s3://{BUCKET}/team, interval: 30}}
budget: {{max_usd: 20}}
run: {{command: [{json.dumps(sys.executable)}, train.py], workdir: work}}
"""


@pytest.fixture
def priced_slipway(slipway, far, monkeypatch, tmp_path):
    """A command where AWS gives a price."""
    replace_sleep(monkeypatch, "botocore.endpoint")
    (far.root / "plan.yaml").write_text(PLAN)
    (far.work / "train.py").write_text("print('hello')\n")
    with served(AwsPrices()) as prices:
        prices.products = [ec2_product("trn1.2xlarge", "us-east-2", term("1.35"))]
        for name, value in {**prices.environment(tmp_path / "cache"), **far.environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(far.root)
        yield prices, slipway


def test_job_launches_at_refreshed_price(far, priced_slipway):
    prices, run = priced_slipway
    code, out, err = run("launch", "plan.yaml", "--yes", "--json")
    assert code == 0, out + err
    report = json.loads(out)
    assert (report["status"], report["simulated"], report["quoted"]["usd_per_hour"]) == ("succeeded", False, "1.35")
    assert prices.operations()
    lines = err.splitlines()
    order = [
        next(index for index, line in enumerate(lines) if text in line)
        for text in ("reading current prices", "run.workdir: ", "submitted: job ", "attempt 1 started", "completed")
    ]
    assert order == sorted(order)
    assert [line.strip() for line in lines[-2:]] == ["next: slipway logs far", "next: slipway down far"]


def test_price_above_budget_submits_no_job(far, priced_slipway):
    prices, run = priced_slipway
    # Four times the price that is known is believed, more than that would not be.
    prices.products = [ec2_product("trn1.2xlarge", "us-east-2", term("5.30"))]
    (far.root / "plan.yaml").write_text(PLAN.replace("max_usd: 20", "max_usd: 3"))
    before = far.head.jobs()
    code, out, _ = run("launch", "plan.yaml", "--yes", "--json")
    assert (code, json.loads(out)["exit_code"]) == (3, 3)
    assert far.head.jobs() == before
    assert not (far.root / ".slipway").exists()
