"""When two deployments are the same cluster, what a plan needs of an existing one, and how to connect."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.cdk.difference import without_job
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.readback.reading import QueueState
from launcher.workflow.cluster.readback.training import fits
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.plans import EXAMPLES

QUEUE = QueueState(name="p5", instance_type="p5.48xlarge", capacity_type="SPOT", maximum=4)


def quote_plan(path: Path):
    return pick(price(path, datetime(2026, 11, 20, tzinfo=UTC), PriceOptions(any_age=True)), None)[1]


@pytest.mark.parametrize(
    "instance_type,nodes,option,answer",
    [
        ("p5.48xlarge", 4, PurchaseOption.SPOT, True),
        ("p5.48xlarge", 1, PurchaseOption.SPOT, True),
        ("p5.48xlarge", 5, PurchaseOption.SPOT, False),
        ("p5.48xlarge", 1, PurchaseOption.ON_DEMAND, False),
        ("p5.48xlarge", 1, PurchaseOption.CAPACITY_BLOCK, False),
        ("p4d.24xlarge", 1, PurchaseOption.SPOT, False),
    ],
)
def test_queue_fits_by_type_count_and_purchase_option(instance_type, nodes, option, answer):
    assert fits(instance_type, nodes, option, (QUEUE,)) is answer


def test_commitment_fits_on_demand_queue():
    owned = QueueState(name="p5", instance_type="p5.48xlarge", capacity_type="ONDEMAND", maximum=1)
    for option in (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED):
        assert fits("p5.48xlarge", 1, option, (owned,))


def test_template_comparison_ignores_only_job_digest_and_rate():
    def template(digest, rate, idle):
        tags = [{"Key": "slipway:digest", "Value": digest}, {"Key": "slipway:cluster", "Value": "team"}]
        guard = {"Variables": {"USD_PER_NODE_HOUR": rate, "IDLE_MINUTES": idle}}
        return {
            "Resources": {"Guard": {"Properties": {"Environment": guard, "Tags": tags}}},
            "Outputs": {"PlanDigest": {"Value": digest}},
        }

    assert without_job(template("a", "1", "5")) == without_job(template("b", "2", "5"))
    assert without_job(template("a", "1", "5")) != without_job(template("a", "1", "6"))
    assert "slipway:cluster" in json.dumps(without_job(template("a", "1", "5")))


def test_deploy_for_existing_cluster_refused(tmp_path):
    (tmp_path / "plan.yaml").write_text(
        "slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, hours: 1}}\n"
        "target: {region: us-east-2, instance_type: p5.48xlarge, nodes: 1, cluster: team}\npurchase: {option: spot}\n"
    )
    options = DeployOptions(root=tmp_path, sandbox=False, dry_run=True, notify=lambda _: None)
    priced = price(tmp_path / "plan.yaml", datetime(2026, 11, 20, tzinfo=UTC), PriceOptions(any_age=True))
    with pytest.raises(ImpossibleError, match="cluster team exists") as caught:
        deploy_quote(priced, *pick(priced, None), options)
    assert "slipway launch" in caught.value.hint
    assert not (tmp_path / ".slipway").exists()


def test_access_commands_name_region_node_login_and_queue():
    outputs = {
        "Region": "us-west-2",
        "HeadNodeInstanceId": "i-0123456789abcdef0",
        "Connect": "aws ssm start-session --region us-west-2 --target i-0123456789abcdef0",
    }
    plan = quote_plan(EXAMPLES / "trn1-spot.yaml").plan
    commands = dict(cluster_of(plan).access_commands(plan, outputs))
    assert commands["shell"].endswith("then: sudo su - ec2-user")
    assert "--document-name AWS-StartSSHSession" in commands["ssh, step 2: within 60 s"]
    assert commands["ssh, step 2: within 60 s"].endswith("ec2-user@i-0123456789abcdef0")
    assert "--instance-id i-0123456789abcdef0 --instance-os-user ec2-user" in commands["ssh, step 1: send your key"]
    assert "--partition trn1-32xlarge" in commands["node shell, from that shell"]
    assert "sbatch job.sbatch" in commands["submit the job, from that shell"]


def test_access_commands_with_session_log_omit_ssh():
    outputs = {
        "Region": "us-west-2",
        "HeadNodeInstanceId": "i-0123456789abcdef0",
        "Connect": "aws ssm start-session --region us-west-2 --target i-0123456789abcdef0 --document-name own",
        "SessionDocument": "own",
    }
    plan = quote_plan(EXAMPLES / "trn1-spot.yaml").plan
    commands = dict(cluster_of(plan).access_commands(plan, outputs))
    assert "--document-name own, then: sudo su - ec2-user" in commands["shell"]
    assert not any("AWS-StartSSHSession" in command for command in commands.values())
