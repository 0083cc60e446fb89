"""The page before the confirmation: changes in the account, cost per hour, and refusals."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.cdk.commands import Assembly
from launcher.cdk.difference import Change, ResourceChange, StackChange
from launcher.cdk.runner import RecordingRunner
from launcher.model.bundle import Bundle
from launcher.model.errors import AwsError, DeclinedError, ImpossibleError, InterruptedAtQuestionError
from launcher.model.update import KeyChange, Needs
from launcher.records import run_folder
from launcher.records.deploy_lock import deploying
from launcher.records.run_folder import undone_if_declined
from launcher.workflow.deploy.assembly_difference import AssemblyDifference, all_new, compare_assembly, difference_of
from launcher.workflow.deploy.context import DeployContext, DeployOptions
from launcher.workflow.deploy.deployment import show_deployment
from launcher.workflow.deploy.difference import approved_deployment, refuse_update, shown_only
from launcher.workflow.deploy.difference_text import difference_lines
from launcher.workflow.deploy.stack_deployment import Deployment
from launcher.workflow.doctor.rates import UNCOUNTED, hourly_rate
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.emulators import aws_account
from tests.plans import EXAMPLES, NOW

GOLDEN = Path(__file__).parents[3] / "golden/infra"
REGION = "us-east-2"
TOPIC = {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "told"}}
GUARD = {"Type": "AWS::Lambda::Function", "Properties": {"Environment": {"Variables": {"USD_PER_NODE_HOUR": "20"}}}}
NAT = {"Type": "AWS::EC2::NatGateway", "Properties": {}}
PLAN = """
slipway: 1
name: team
workload: {train: {model: {params_b: 0.1}, hours: 1}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-2}
purchase: {option: on-demand, price_overrides: {p5.48xlarge/on-demand: "50"}}
"""
QUOTED = price(EXAMPLES / "tiny-gpt.yaml", NOW, PriceOptions()).quote(1)


@pytest.fixture
def account_session(account):
    return Session(environment=account.environment, region=REGION)


@pytest.fixture
def first_quote(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    return pick(price(tmp_path / "plan.yaml", datetime(2026, 11, 20, tzinfo=UTC), PriceOptions()), None)[1]


def context(account, messages, root=None, approve=lambda: None):
    return DeployContext(
        runner=RecordingRunner(),
        environment=account.environment,
        account=None,
        zone=None,
        catalog=load(),
        queues=None,
        notify=messages.append,
        approve=approve,
        root=root,
    )


def assembly(folder, **templates):
    """An assembly of stacks `slipway-team-<part>`, as the CDK leaves one."""
    folder.mkdir()
    artifacts = {}
    for part, template in templates.items():
        (folder / f"{part}.json").write_text(json.dumps(template))
        properties = {"stackName": f"slipway-team-{part}", "templateFile": f"{part}.json"}
        artifacts[part] = {"type": "aws:cloudformation:stack", "properties": properties}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return Assembly.read(folder)


def there(account, name, template):
    """Make a stack in the account."""
    client = boto3.client(
        "cloudformation",
        endpoint_url=account.moto,
        region_name=REGION,
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    tags = [{"Key": "slipway:plan", "Value": "team"}, {"Key": "owner", "Value": "ada"}]
    client.create_stack(StackName=name, TemplateBody=json.dumps(template), Tags=tags)
    return client


def topics(**properties):
    return {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "told", **properties}}}}


def test_difference_of_an_update_lists_replacements_first_with_counts(account, account_session, tmp_path):
    there(account, "slipway-team-training", topics())
    template = topics(TopicName="other")
    template["Resources"]["More"] = {"Type": "AWS::SNS::Topic"}
    difference = difference_of(assembly(tmp_path / "cdk.out", training=template), account_session)
    lines = [line.strip() for line in difference_lines(difference, context(account, []), REGION, ["in words"], QUOTED)]
    assert lines[:2] == ["changes: in words", "slipway-team-training: 1 new, 1 replaced"]
    assert lines[2].split() == ["replaced", "AWS::SNS::Topic", "Topic:", "TopicName"]
    assert lines[3].split() == ["new", "AWS::SNS::Topic", "More"]


def test_unchanged_stack_has_no_difference(account, account_session, tmp_path):
    there(account, "slipway-team-training", topics())
    assert difference_of(assembly(tmp_path / "cdk.out", training=topics()), account_session).none
    assert not difference_of(assembly(tmp_path / "more", training=topics(), network=topics()), account_session).none


@pytest.mark.parametrize("status, whole", [("UPDATE_ROLLBACK_COMPLETE", True), ("UPDATE_ROLLBACK_FAILED", False)])
def test_stack_after_a_rolled_back_update_is_whole(account, account_session, tmp_path, status, whole):
    """The CDK deploys no stack without a change, so the state stays until the next update."""
    there(account, "slipway-team-training", topics())
    same = assembly(tmp_path / "cdk.out", training=topics())
    rolled_back = replace(stacks.find(account_session, "slipway-team-training"), status=status)
    states = {"slipway-team-training": rolled_back}
    assert compare_assembly(same, states, {"slipway-team-training": topics()}).none is whole


def test_hourly_price_before_and_after_is_stated(account, account_session, tmp_path):
    def stack(count):
        nodes = {"Name": "n", "InstanceType": "p5.48xlarge", "MaxCount": count}
        configuration = {
            "HeadNode": {"InstanceType": "m6i.xlarge"},
            "Scheduling": {"SlurmQueues": [{"Name": "q", "ComputeResources": [nodes]}]},
        }
        cluster = {"Type": "Custom::PclusterCluster", "Properties": {"ClusterConfiguration": configuration}}
        return {"Resources": {"Cluster": cluster, "Guard": GUARD}}

    catalog = load()
    one, four = (hourly_rate([stack(count)], catalog, REGION) for count in (1, 4))
    head = catalog.on_demand("m6i.xlarge", REGION).usd
    assert (one.usd, four.usd, one.unknown) == (20 + head, 80 + head, ())
    new_assembly = assembly(tmp_path / "cdk.out", training=stack(4))
    before = {"slipway-team-training": stack(1)}
    comparison = compare_assembly(new_assembly, dict.fromkeys(before), before)
    lines = [line.strip() for line in difference_lines(comparison, context(account, []), REGION, ["in words"], QUOTED)]
    assert lines[-2] == f"${four.usd:,.2f} an hour while all nodes run, without {UNCOUNTED}; before: ${one.usd:,.2f}"
    assert lines[-1] == f"this changes existing resources: ${one.usd:,.2f} an hour becomes ${four.usd:,.2f}"
    new = difference_lines(all_new(new_assembly, "no account"), context(account, []), REGION, ["in words"], QUOTED)
    nodes, stays = QUOTED.usd_per_hour, QUOTED.left_up_usd_per_hour
    assert [*new][-1].endswith(f"in 1 new stack; ${nodes + stays:,.2f} an hour while all nodes run")


@pytest.mark.parametrize(
    "variant, targets, words",
    [
        ({"InitialInstanceCount": 1}, (4,), "$20.00 an hour with 1 of at most 4"),
        ({"InitialInstanceCount": 2}, (), "$40.00 an hour with 2 instances"),
        (
            {"InitialInstanceCount": 1, "ManagedInstanceScaling": {"MaxInstanceCount": 2}},
            (6,),
            "$20.00 an hour with 1 of at most 2",
        ),
    ],
)
def test_hourly_rate_of_an_endpoint_names_the_instances(variant, targets, words):
    config = {"ProductionVariants": [{"InstanceType": "ml.g6.2xlarge", **variant}]}
    resources = {
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": config},
        "Guard": GUARD,
        **{
            f"Target{most}": {
                "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
                "Properties": {"MaxCapacity": most},
            }
            for most in targets
        },
    }
    assert hourly_rate([{"Resources": resources}], load(), REGION).sentence == words


def test_resource_without_a_price_is_named_and_not_counted_as_zero():
    rate = hourly_rate([json.loads((GOLDEN / "hyperpod-p5-plan/training.json").read_text())], load(), REGION)
    assert rate.unknown == ("2 x p5.48xlarge",)
    assert rate.usd > 0
    assert "not priced" in rate.text
    assert hourly_rate([{"Resources": {"N": NAT}}], load(), "us-east-1").usd > 0


def test_hourly_rate_counts_a_nat_instance_its_address_and_interface_endpoints():
    catalog = load()
    nat = {"InstanceType": "m6i.large", "NetworkInterfaces": [{"AssociatePublicIpAddress": True}]}
    endpoint = {"VpcEndpointType": "Interface", "SubnetIds": ["a", "b"]}
    resources = {
        "Nat": {"Type": "AWS::EC2::Instance", "Properties": nat},
        "Logs": {"Type": "AWS::EC2::VPCEndpoint", "Properties": endpoint},
        "S3": {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Gateway"}},
    }
    rate = hourly_rate([{"Resources": resources}], catalog, "us-east-1", nodes=False)
    address, interface = (
        catalog.bill_item(f"vpc.{name}", "us-east-1").usd for name in ("public-ipv4", "interface-endpoint")
    )
    assert rate.usd == catalog.on_demand("m6i.large", "us-east-1").usd + address + 2 * interface
    assert rate.unknown == ()


def test_hourly_rate_of_eks_is_node_groups_plus_control_plane():
    eks = json.loads((GOLDEN / "eks-p5-block/training.json").read_text())
    catalog = load()
    expected = catalog.on_demand("m6i.xlarge", REGION).usd + catalog.bill_item("eks.cluster", REGION).usd
    rate = hourly_rate([eks], catalog, REGION)
    assert (rate.usd, rate.unknown) == (expected, ("2 x p5.48xlarge",))


def test_stack_in_progress_is_refused_with_the_user_and_the_plan(account, account_session, tmp_path):
    state = {
        "StackName": "slipway-team-training",
        "StackId": "arn:aws:cloudformation:us-east-2:123456789012:stack/x/1",
        "CreationTime": datetime(2026, 11, 20, 9, 30, tzinfo=UTC),
        "StackStatus": "UPDATE_IN_PROGRESS",
        "Tags": [{"Key": "slipway:plan", "Value": "big"}, {"Key": "owner", "Value": "ada"}],
    }
    account.canned["cloudformation.DescribeStacks"] = {"Stacks": [state]}
    with pytest.raises(ImpossibleError) as caught:
        difference_of(assembly(tmp_path / "cdk.out", training=topics()), account_session)
    assert "is UPDATE_IN_PROGRESS, since 2026-11-20 09:30 UTC, plan big, of ada" in caught.value.message
    state["StackStatus"] = "REVIEW_IN_PROGRESS"
    assert difference_of(assembly(tmp_path / "again", training=topics()), account_session).stacks[0].new


def test_stack_changed_during_the_approval_is_not_deployed(account, account_session, tmp_path, first_quote):
    client = there(account, "slipway-team-training", topics())
    difference = difference_of(assembly(tmp_path / "cdk.out", training=topics(TopicName="other")), account_session)

    def another():
        client.update_stack(StackName="slipway-team-training", TemplateBody=json.dumps(topics(DisplayName="x")))

    with pytest.raises(ImpossibleError, match="changed since the difference was shown"):  # noqa: SIM117 - what is entered last raises
        with approved_deployment(difference, first_quote, context(account, [], approve=another), ["in words"]):
            pytest.fail("it was deployed")


def test_replaced_export_in_use_is_refused_with_the_reason(account, account_session, tmp_path, first_quote):
    export = {"Id": {"Value": {"Ref": "Topic"}, "Export": {"Name": "told"}}}
    there(account, "slipway-team-network", topics() | {"Outputs": export})
    user = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"Tags": [{"Fn::ImportValue": "told"}]}}}}
    account.canned["cloudformation.GetTemplate"] = lambda sent: {
        "TemplateBody": json.dumps(user if "training" in sent["StackName"] else topics() | {"Outputs": export})
    }
    there(account, "slipway-team-training", topics(TopicName="unused"))
    new_assembly = assembly(tmp_path / "cdk.out", network=topics(TopicName="new") | {"Outputs": export}, training=user)
    difference, messages = difference_of(new_assembly, account_session), []
    with pytest.raises(ImpossibleError, match="Topic is replaced: CloudFormation refuses this"):  # noqa: SIM117
        with approved_deployment(difference, first_quote, context(account, messages), ["in words"]):
            pytest.fail("it was deployed")
    assert any("1 replaced" in line for line in messages)


@pytest.mark.parametrize(
    "ended", [DeclinedError("nothing was done"), InterruptedAtQuestionError()], ids=["no", "ctrl-c"]
)
def test_declined_deployment_leaves_no_files(account, account_session, tmp_path, first_quote, ended):
    def no():
        raise ended

    difference = difference_of(assembly(tmp_path / "cdk.out", training=topics()), account_session)
    earlier = run_folder.create("team", datetime(2026, 11, 1, tzinfo=UTC), tmp_path)
    for name, before in (("team", earlier.path), ("lonely", None)):
        folder = run_folder.create(name, datetime(2026, 11, 20, tzinfo=UTC), tmp_path)
        with pytest.raises(type(ended)), undone_if_declined(folder):  # noqa: SIM117
            with approved_deployment(difference, first_quote, context(account, [], tmp_path, no), ["in words"]):
                pytest.fail("it was deployed")
        assert not folder.path.exists()
        assert (
            name not in run_folder.names(tmp_path)
            if before is None
            else run_folder.latest(name, tmp_path).path == before
        )
    # The name is free again.
    with deploying(tmp_path, "team", REGION):
        pass


def test_dry_run_without_credentials_reports_the_unread_account(account, tmp_path, first_quote):
    account.canned["cloudformation.DescribeStacks"] = aws_account.DENIED
    messages = []
    new_assembly = assembly(tmp_path / "cdk.out", training=topics())
    shown_only(
        new_assembly,
        Session(environment=account.environment, region=REGION),
        context(account, messages),
        ["in words"],
        first_quote,
    )
    assert any("Slipway cannot read what exists in AWS" in line for line in messages)
    assert "  1 resource in 1 new stack; nothing in these stacks is billed by the hour" in messages
    with pytest.raises(AwsError):
        difference_of(new_assembly, Session(environment=account.environment, region=REGION))


def test_dry_run_reads_an_existing_sandbox_and_reports_a_new_one_as_empty(account, tmp_path, first_quote):
    there(account, "slipway-team-training", topics())
    new_assembly = assembly(tmp_path / "cdk.out", training=topics(TopicName="new"))
    folder = run_folder.create("team", datetime(2026, 11, 20, tzinfo=UTC), tmp_path)
    emulator = SimpleNamespace(process_environment=lambda base: base | account.environment)
    empty, bundle = {"XDG_CACHE_HOME": str(tmp_path)}, Bundle(digest=first_quote.digest, files=())
    for sandbox, line in ((emulator, "  slipway-team-training: 1 replaced"), (None, "a new sandbox is empty")):
        messages = []
        options = DeployOptions(
            root=tmp_path, sandbox=True, dry_run=True, notify=messages.append, emulator=sandbox, environment=empty
        )
        deployment = Deployment(
            folder=folder,
            quoted=first_quote,
            bundle=bundle,
            context=context(account, messages),
            assembly=new_assembly,
        )
        show_deployment(deployment, ["it"], options)
        assert any(line in message for message in messages), messages


HOLDER = """
import sys
from pathlib import Path
from launcher.records.deploy_lock import deploying
with deploying(Path(sys.argv[1]), "team", "us-east-2"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_deployment_of_a_name_is_refused_with_the_first_one_named(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout.readline() == "held\n"
            with pytest.raises(ImpossibleError, match=f"process {first.pid} of "), deploying(tmp_path, "team", REGION):
                pytest.fail("both had it")
            with deploying(tmp_path, "team", "us-west-2"), deploying(tmp_path, "other", REGION):
                pass
        finally:
            first.kill()
            first.wait()
    with deploying(tmp_path, "team", REGION):
        pass


@pytest.mark.parametrize(
    "type_, owner", [("AWS::SageMaker::EndpointConfig", "endpoint"), ("AWS::EKS::Nodegroup", "cluster")]
)
def test_refused_change_names_what_it_would_replace(type_, owner):
    key = KeyChange(path="Type", old="a", new="b", needs=Needs.NEW_CLUSTER, plan_key="target.instance_type")
    resource = ResourceChange(stack="s", logical_id="Nodes", type=type_, change=Change.REPLACED, keys=(key, key))
    stack = StackChange(name="s", new=False, same=False, resources=(resource,))
    templates = {"s": {"Resources": {}}}
    difference = AssemblyDifference(states={"s": None}, before=templates, after=templates, stacks=(stack,))
    with pytest.raises(ImpossibleError, match=f"^{owner} chat cannot be changed") as refused:
        refuse_update(difference, "chat")
    (finding,) = refused.value.findings
    assert finding.message == f"Type: a -> b: an existing {owner} keeps it"
    assert finding.hint == f"target.instance_type: a keeps the {owner}"
