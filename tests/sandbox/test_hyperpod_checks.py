"""HyperPod in the sandbox while deep health checks run: the service refuses changes, and a deployment asks before."""

import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.model.hyperpod import CHECKING
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.waiting import until

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("hyperpod")]

REGION, NAME = "us-east-2", "slipway-checked"
PLAN = """
slipway: 1
name: checked
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: hyperpod-slurm, region: us-east-2, instance_type: g5.xlarge, nodes: {nodes}}}
purchase: {{option: on-demand, price_overrides: {{ml.g5.xlarge/on-demand: 1.4}}}}
checkpoint: {{interval: 30}}
"""


class Deployed:
    """A deployed cluster with two workers, in a sandbox that keeps running."""

    def __init__(self, sandbox, root):
        self.sandbox, self.root, self.lines = sandbox, root, []
        self.client = Session(environment=sandbox.process_environment({}), region=REGION).client
        self.sagemaker = self.client("sagemaker")

    def deploy(self, nodes, *, dry_run=False):
        path = self.root / "plan.yaml"
        path.write_text(PLAN.format(nodes=nodes))
        priced = price(path, datetime.now(UTC), PriceOptions(any_age=True))
        options = DeployOptions(
            root=self.root, sandbox=True, dry_run=dry_run, notify=self.lines.append, emulator=self.sandbox
        )
        return deploy_quote(priced, *pick(priced, None), options)

    def workers(self):
        nodes = self.sagemaker.list_cluster_nodes(ClusterName=NAME, InstanceGroupNameContains="workers")
        return {node["InstanceId"]: node["InstanceStatus"]["Status"] for node in nodes["ClusterNodeSummaries"]}

    def groups(self):
        return self.sagemaker.describe_cluster(ClusterName=NAME)["InstanceGroups"]

    def check(self):
        checks = {"InstanceGroupName": "workers", "DeepHealthChecks": ["InstanceStress"]}
        self.sagemaker.start_cluster_health_check(ClusterName=NAME, DeepHealthCheckConfigurations=[checks])


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    with Sandbox(region=REGION, scheduler="local") as sandbox:
        deployed = Deployed(sandbox, tmp_path_factory.mktemp("checked"))
        deployed.deploy(2)
        on_start = set(deployed.workers().values())
        until(lambda: set(deployed.workers().values()) == {"Running"})
        deployed.check()
        assert on_start == set(deployed.workers().values()) == {CHECKING}
        yield deployed


def test_sagemaker_refuses_updates_while_checks_run(checked):
    with pytest.raises(ClientError, match="deep health checks are in progress") as refused:
        checked.sagemaker.update_cluster(ClusterName=NAME, NodeRecovery="None")
    assert refused.value.response["Error"]["Code"] == "ConflictException"
    with pytest.raises(ClientError, match="deep health checks are in progress"):
        checked.check()
    first, second = checked.workers()
    for call in (checked.sagemaker.batch_reboot_cluster_nodes, checked.sagemaker.batch_replace_cluster_nodes):
        answer = call(ClusterName=NAME, NodeIds=[first, second])
        assert answer["Successful"] == []
        assert [failure["ErrorCode"] for failure in answer["Failed"]] == ["InvalidInstanceStatus"] * 2
    node = checked.sagemaker.describe_cluster_node(ClusterName=NAME, NodeId=first)["NodeDetails"]
    assert node["InstanceStatus"]["Status"] == CHECKING


def test_cloudformation_rolls_an_update_back_while_checks_run(checked):
    cloudformation, stack = checked.client("cloudformation"), f"{NAME}-training"
    template = cloudformation.get_template(StackName=stack)["TemplateBody"]
    text = json.dumps(template).replace('"InstanceCount": 2', '"InstanceCount": 3')
    parameters = [
        {"ParameterKey": name, "ParameterValue": parameter["Default"]}
        for name, parameter in template.get("Parameters", {}).items()
    ]
    cloudformation.update_stack(
        StackName=stack, TemplateBody=text, Parameters=parameters, Capabilities=["CAPABILITY_NAMED_IAM"]
    )
    until(lambda: "ROLLBACK" in cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    assert any("deep health checks are in progress" in event.get("ResourceStatusReason", "") for event in events)


@pytest.mark.parametrize("dry_run", [False, True])
def test_deployment_that_changes_the_cluster_is_refused_while_checks_run(checked, dry_run):
    with pytest.raises(ImpossibleError, match="deep health checks run on 2 instances of HyperPod") as refused:
        checked.deploy(3, dry_run=dry_run)
    assert "they take seconds in a sandbox, and 53 to 112 minutes on AWS" in refused.value.hint
    assert "meanwhile the cluster costs $" in refused.value.hint
    assert not any(line.startswith("stack ") for line in checked.lines[-3:])
    assert [group["TargetCount"] for group in checked.groups()] == [1, 2]


def test_deployment_that_does_not_change_the_cluster_passes_while_checks_run(checked):
    assert checked.deploy(2)
    assert set(checked.workers().values()) == {CHECKING}
