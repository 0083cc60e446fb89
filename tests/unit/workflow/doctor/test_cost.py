"""What exists in an account and what it costs, against moto; nodes as the guard counts them."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from launcher.answers.cost import document, page
from launcher.aws.clients import Sessions
from launcher.catalog.load import load
from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.monitoring import GUARD_STOP, MESSAGE_FOLDER, SENT_FOLDER
from launcher.model.tags import CLUSTER_TAG, NETWORK_TAG, PURPOSE_TAG
from launcher.model.training_job import JOBS_OUTPUT
from launcher.workflow.doctor.running_costs import survey
from tests.emulators.aws_account import Refused
from tests.unit.workflow.doctor.conftest import NOW, REGION, client, stack
from tests.waiting import until

pytestmark = pytest.mark.server

ROLE = "arn:aws:iam::123456789012:role/guard-role"
JOBS = "arn:aws:sagemaker:us-east-2:123456789012:training-job"


ADDRESS = {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}
ADDRESS_USD = Decimal("0.005")
"""An hour of a public IPv4 address (VPC pricing)."""


def guard_function(account, **variables):
    client(account, "iam").create_role(RoleName="guard-role", AssumeRolePolicyDocument="{}")
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": "pass"},
            "Role": ROLE,
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Environment": {"Variables": {"CLUSTER": "probe", "PREPAID": "false", "TOPICS": "", **variables}},
        },
    }


@pytest.fixture
def standing(ready_account):
    """A cluster with its network and store, deployed ten hours ago by ada; its guard has reported nothing yet."""
    guard = {
        "PARALLELCLUSTER": "slipway-probe",
        "IDLE_MINUTES": "60",
        "TTL_HOURS": "24",
        "USD_PER_NODE_HOUR": "20.5",
        "STACK": "slipway-probe-training",
    }
    function = guard_function(ready_account, **guard)
    stack(ready_account, "training", {"GuardrailsGuardFunction236B99F4": function, "Address": ADDRESS})
    stack(ready_account, "network", {"Address": ADDRESS})
    bucket = {"Type": "AWS::S3::Bucket"}
    stack(ready_account, "checkpoints", {"Bucket": bucket}, {"BucketName": {"Value": "probe-checkpoints"}})
    return ready_account


@pytest.fixture
def running_cluster(standing):
    """The same cluster; its guard has reported two nodes."""
    put(standing, "Slipway", "RunningNodes", {"Cluster": "probe"}, value=2.0, when=NOW - timedelta(minutes=4))
    put(standing, "Slipway", "NodeHours", {"Cluster": "probe"}, value=11.0, when=NOW - timedelta(minutes=4))
    return standing


def start(account, role, type_, count):
    """Instances of the cluster, tagged as ParallelCluster tags them."""
    tags = {"parallelcluster:cluster-name": "slipway-probe", "parallelcluster:node-type": role}
    client(account, "ec2").run_instances(
        ImageId="ami-0123456789abcdef0",
        InstanceType=type_,
        MinCount=count,
        MaxCount=count,
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    )


def put(account, namespace, name, dimensions, *, value, when):
    point = {"MetricName": name, "Value": value, "Timestamp": when}
    point["Dimensions"] = [{"Name": key, "Value": dimension_value} for key, dimension_value in dimensions.items()]
    client(account, "cloudwatch").put_metric_data(Namespace=namespace, MetricData=[point])


@pytest.fixture
def surveyed(ready_account):
    def run_survey(only=REGION, cluster=None):
        return survey(Sessions(ready_account.environment), load(), NOW, only=only, cluster=cluster)

    return run_survey


def of(cost_survey, kind):
    return next(stack_cost for stack_cost in cost_survey.stacks if stack_cost.kind == kind)


def test_node_cost_follows_quote_and_ends_at_time_to_live(running_cluster, surveyed):
    stack_cost = of(surveyed(), "training")
    assert (stack_cost.owner, stack_cost.usd_per_hour) == ("ada", Decimal(41) + ADDRESS_USD)
    assert stack_cost.usd_so_far >= Decimal("225.5")
    assert stack_cost.ends_at == stack_cost.since + timedelta(hours=24)
    assert stack_cost.down_command == "slipway down probe --region us-east-2"
    assert stack_cost.note == "2 nodes at the quoted $20.5"


def test_nodes_counted_in_ec2_before_first_guard_report(standing, surveyed):
    assert of(surveyed(), "training").usd_per_hour == ADDRESS_USD
    start(standing, "HeadNode", "m6i.xlarge", 1)
    start(standing, "Compute", "p5.48xlarge", 3)
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == 3 * Decimal("20.5") + ADDRESS_USD
    assert stack_cost.usd_so_far is None
    assert stack_cost.note.startswith("3 nodes at the quoted $20.5, counted now: its guard has reported no number")


def test_endpoint_instances_counted_in_sagemaker_before_first_guard_report(ready_account, surveyed):
    guard = guard_function(ready_account, ENDPOINT="slipway-probe", USD_PER_NODE_HOUR="0.9")
    stack(ready_account, "serving", {"GuardrailsGuardFunction236B99F4": guard})
    assert of(surveyed(), "serving").usd_per_hour is None
    ended = {"stop_reason": "its 2 hours have ended", "stopped_at": "2126-01-01T00:00:00+00:00"}
    state = {"Name": "/slipway/slipway-probe-serving/guard", "Type": "String", "Overwrite": True}
    client(ready_account, "ssm").put_parameter(**state, Value=json.dumps(ended))
    gone = of(surveyed(), "serving")
    assert (gone.usd_per_hour, gone.note) == (0, "the guard stopped the endpoint: its 2 hours have ended")
    client(ready_account, "ssm").put_parameter(**state, Value="{}")
    sagemaker = client(ready_account, "sagemaker")
    sagemaker.create_model(ModelName="probe", ExecutionRoleArn=ROLE)
    variant = {
        "VariantName": "all",
        "ModelName": "probe",
        "InitialInstanceCount": 2,
        "InstanceType": "ml.inf1.xlarge",
        "InitialVariantWeight": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName="probe", ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName="slipway-probe", EndpointConfigName="probe")
    stack_cost = of(surveyed(), "serving")
    assert stack_cost.usd_per_hour == Decimal("1.8")
    assert stack_cost.note.startswith("2 nodes at the quoted $0.9, counted now")


def test_instances_of_plain_job_counted_before_first_guard_report(ready_account, surveyed):
    autoscaling, template = client(ready_account, "autoscaling"), {"LaunchTemplateName": "probe", "Version": "1"}
    data = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "g6e.xlarge"}
    client(ready_account, "ec2").create_launch_template(LaunchTemplateName="probe", LaunchTemplateData=data)
    autoscaling.create_auto_scaling_group(
        AutoScalingGroupName="probe",
        LaunchTemplate=template,
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=2,
        AvailabilityZones=["us-east-2a"],
    )
    guard = guard_function(ready_account, EC2="probe", USD_PER_NODE_HOUR="1.861")
    stack(ready_account, "training", {"GuardrailsGuardFunction236B99F4": guard}, {GROUP_OUTPUT: {"Value": "probe"}})
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == 2 * Decimal("1.861")
    assert stack_cost.note.startswith("2 nodes at the quoted $1.861, counted now")


def test_plain_instances_cost_the_rate_of_the_types_that_ec2_chose(ready_account, surveyed):
    """The guard has one rate, that of the dearest type."""
    tags = [{"Key": key, "Value": value} for key, value in ((CLUSTER_TAG, "probe"), (PURPOSE_TAG, "node"))]
    for type_ in ("g6.xlarge", "g6e.xlarge"):
        client(ready_account, "ec2").run_instances(
            ImageId="ami-0123456789abcdef0",
            InstanceType=type_,
            MinCount=1,
            MaxCount=1,
            Placement={"AvailabilityZone": "us-east-2a"},
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
    guard = guard_function(ready_account, EC2="probe", USD_PER_NODE_HOUR="1.861")
    stack(ready_account, "training", {"GuardrailsGuardFunction236B99F4": guard}, {GROUP_OUTPUT: {"Value": "probe"}})
    put(ready_account, "Slipway", "RunningNodes", {"Cluster": "probe"}, value=2.0, when=NOW - timedelta(minutes=4))
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == Decimal("0.8048") + Decimal("1.861")
    assert stack_cost.note == (
        "2 nodes at the quoted $1.861; EC2 runs g6.xlarge us-east-2a, g6e.xlarge us-east-2a: $1.3329 a node by the type"
    )


def test_cost_of_stopped_nodes_names_the_guards_reason(ready_account, surveyed):
    """A stop of an earlier deployment of the stack is not named."""
    s3 = client(ready_account, "s3")
    s3.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
    stop = json.dumps({"text": "its 2 hours have ended\nmore", "jobs_wait": False}).encode()
    key = f"jobs/.guard/a/{SENT_FOLDER}/{GUARD_STOP}"
    s3.put_object(Bucket="store", Key=key, Body=stop)
    guard = {"GuardrailsGuardFunction236B99F4": guard_function(ready_account, EC2="probe", USD_PER_NODE_HOUR="1.861")}
    outputs = {
        GROUP_OUTPUT: {"Value": "probe"},
        "GuardMessageUri": {"Value": f"s3://store/jobs/.guard/a/{MESSAGE_FOLDER}"},
    }
    stack(ready_account, "training", guard, outputs)
    put(ready_account, "Slipway", "RunningNodes", {"Cluster": "probe"}, value=0.0, when=NOW - timedelta(minutes=4))
    assert of(surveyed(), "training").note == "0 nodes at the quoted $1.861"

    def note_of_a_later_stop():
        # S3 counts whole seconds.
        s3.put_object(Bucket="store", Key=key, Body=stop)
        stopped = of(surveyed(), "training")
        return stopped.usd_per_hour == 0 and stopped.note

    said = re.compile(r"the guard stopped the nodes, 20\d\d-\d\d-\d\d \d\d:\d\d UTC: its 2 hours have ended")
    until(lambda: said.fullmatch(note_of_a_later_stop()))


def test_instances_of_training_job_counted_before_first_guard_report(ready_account, surveyed):
    guard = guard_function(ready_account, TRAINING_JOBS="probe", USD_PER_NODE_HOUR="1.515")
    outputs = {JOBS_OUTPUT: {"Value": f"{CLUSTER_TAG}=probe"}}
    stack(ready_account, "training", {"GuardrailsGuardFunction236B99F4": guard}, outputs)
    assert of(surveyed(), "training").usd_per_hour == 0
    summary = {
        "TrainingJobName": "probe-1",
        "TrainingJobArn": f"{JOBS}/probe-1",
        "TrainingJobStatus": "InProgress",
        "CreationTime": 0,
    }
    described = {
        "ResourceConfig": {"InstanceType": "ml.g5.2xlarge", "InstanceCount": 3, "VolumeSizeInGB": 1},
        "ModelArtifacts": {"S3ModelArtifacts": ""},
        "SecondaryStatus": "Training",
        "StoppingCondition": {},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
    }
    running = {"InProgress": [summary]}
    ready_account.canned.update(
        {
            "sagemaker.ListTrainingJobs": lambda sent: {"TrainingJobSummaries": running.get(sent["StatusEquals"], [])},
            "sagemaker.ListTags": {"Tags": [{"Key": CLUSTER_TAG, "Value": "probe"}]},
            "sagemaker.DescribeTrainingJob": {**summary, **described},
        }
    )
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == 3 * Decimal("1.515")
    assert stack_cost.note.startswith("3 nodes at the quoted $1.515, counted now")


def test_network_costs_by_hour_and_store_by_size(running_cluster, surveyed):
    put(
        running_cluster,
        "AWS/S3",
        "BucketSizeBytes",
        {"BucketName": "probe-checkpoints", "StorageType": "StandardStorage"},
        value=730.0 * 2**30,
        when=NOW - timedelta(hours=20),
    )
    cost_survey = surveyed()
    assert of(cost_survey, "network").usd_per_hour == ADDRESS_USD
    price = load().bill_item("s3.standard-storage", REGION).usd
    assert of(cost_survey, "checkpoints").usd_per_hour == price
    assert of(cost_survey, "checkpoints").down_command.endswith("--checkpoints")


@pytest.mark.parametrize("used", [True, False])
def test_shared_network_is_listed_with_its_clusters_and_what_removes_it(ready_account, surveyed, used):
    cloudformation = client(ready_account, "cloudformation")
    template = {
        "Resources": {"Address": ADDRESS},
        "Outputs": {"VpcId": {"Value": {"Ref": "Address"}, "Export": {"Name": "slipway-team-shared-network:VpcId"}}},
    }
    tags = [{"Key": NETWORK_TAG, "Value": "team"}]
    cloudformation.create_stack(StackName="slipway-team-shared-network", TemplateBody=json.dumps(template), Tags=tags)
    users = ["slipway-probe-training"] if used else []
    ready_account.canned["cloudformation.ListImports"] = {"Imports": users}
    shared = of(surveyed(), "network")
    assert shared.usd_per_hour == ADDRESS_USD
    who = "shared by slipway-probe-training, removed with the last of them" if used else "used by no cluster"
    assert shared.note == f"{who}; without its traffic"
    delete = f"aws cloudformation delete-stack --region {REGION} --stack-name slipway-team-shared-network"
    assert shared.down_command == (f"slipway down probe --region {REGION}" if used else delete)


def test_unknown_cost_is_named_and_never_zero(ready_account, surveyed):
    stack(ready_account, "training", {"Topic": {"Type": "AWS::SNS::Topic"}})
    stack_cost = of(surveyed(), "training")
    assert (stack_cost.usd_per_hour, stack_cost.usd_so_far) == (None, None)
    assert "it has no guard" in stack_cost.note
    assert "of unknown cost" in page(surveyed(), 100)[1]


def failed_stack(account, status, *resources):
    """A training stack in a state, of resources with their type and state."""
    body = {"Resources": {name: {"Type": type_, "Properties": {}} for name, type_, _ in resources}}
    account.canned["cloudformation.DescribeStacks"] = {
        "Stacks": [
            {
                "StackId": f"arn:aws:cloudformation:{REGION}:123456789012:stack/slipway-probe-training/1",
                "StackName": "slipway-probe-training",
                "StackStatus": status,
                "CreationTime": NOW - timedelta(hours=1),
                "Tags": [{"Key": CLUSTER_TAG, "Value": "probe"}],
            }
        ]
    }
    account.canned["cloudformation.DescribeStackEvents"] = {"StackEvents": []}
    account.canned["cloudformation.GetTemplate"] = {"TemplateBody": json.dumps(body)}
    account.canned["cloudformation.ListStackResources"] = {
        "StackResourceSummaries": [
            {
                "LogicalResourceId": name,
                "PhysicalResourceId": f"id-of-{name}",
                "ResourceType": type_,
                "ResourceStatus": state,
                "LastUpdatedTimestamp": NOW,
            }
            for name, type_, state in resources
        ]
    }


def test_stack_of_a_failed_deployment_costs_nothing_if_nothing_remains(ready_account, surveyed):
    failed_stack(ready_account, "ROLLBACK_COMPLETE", ("Address", "AWS::EC2::EIP", "DELETE_COMPLETE"))
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == 0
    assert stack_cost.note == "ROLLBACK_COMPLETE, and no resource remains"
    assert stack_cost.down_command == f"slipway down probe --region {REGION}"


def test_stack_of_a_failed_removal_costs_what_remains(ready_account, surveyed):
    failed_stack(
        ready_account,
        "DELETE_FAILED",
        ("Address", "AWS::EC2::EIP", "DELETE_FAILED"),
        ("Other", "AWS::EC2::EIP", "DELETE_COMPLETE"),
    )
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour == ADDRESS_USD
    assert stack_cost.note == "DELETE_FAILED, and AWS::EC2::EIP id-of-Address remain"


def test_remaining_cluster_whose_service_has_no_listed_price_is_of_unknown_cost(ready_account, surveyed):
    failed_stack(ready_account, "ROLLBACK_FAILED", ("Cluster", "AWS::PCS::Cluster", "DELETE_FAILED"))
    stack_cost = of(surveyed(), "training")
    assert stack_cost.usd_per_hour is None
    assert stack_cost.note.endswith("remain; without AWS::PCS::Cluster, which has no price")


def test_foreign_stacks_are_left_out(ready_account, surveyed):
    client(ready_account, "cloudformation").create_stack(
        StackName="slipway-imitation-training", TemplateBody='{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}'
    )
    assert surveyed().stacks == ()
    assert "Nothing of Slipway's" in page(surveyed(), 80)[1]


def test_cost_of_one_cluster_lists_only_cluster_stacks(running_cluster, surveyed):
    assert {cost.kind for cost in surveyed(cluster="probe").stacks} == {"training", "network", "checkpoints"}
    other = surveyed(cluster="other")
    assert other.stacks == ()
    assert "No stack of other exists" in page(other, 80)[1]


def test_unanswering_region_is_named_beside_others(running_cluster, surveyed):
    running_cluster.canned["ec2.DescribeRegions"] = {
        "Regions": [{"RegionName": name, "OptInStatus": "opted-in"} for name in (REGION, "eu-west-1")]
    }
    cost_survey = surveyed(only=None)
    assert {stack_cost.region for stack_cost in cost_survey.stacks} == {REGION}
    running_cluster.canned["cloudformation.DescribeStacks"] = Refused("AccessDenied", "not authorized", 403)
    cost_survey = surveyed(only=None)
    assert cost_survey.stacks == ()
    assert [region for region, _ in cost_survey.unanswered] == ["eu-west-1", REGION]


def test_total_of_a_store_alone_has_its_sign_before_the_number(running_cluster, surveyed):
    cost_survey = surveyed()
    store = next(cost for cost in cost_survey.stacks if cost.kind == "checkpoints")
    alone = replace(cost_survey, stacks=(replace(store, usd_per_hour=Decimal("0.00002")),))
    assert page(alone, 80)[1] == "  1 stack: <$0.0001 an hour now."


def test_cost_page_and_document_agree(running_cluster, surveyed):
    cost_survey = surveyed()
    text = "\n".join(page(cost_survey, 80))
    assert "slipway-probe-training" in text
    assert "; without volumes, logs and alarms." in " ".join(text.split())
    assert "slipway down probe --region us-east-2" in text
    json_document = document(cost_survey)
    keys = {"name", "kind", "region", "owner", "since", "usd_per_hour", "usd_so_far", "ends_at", "down_command"}
    assert json_document["schema"] == "slipway.cost/1"
    assert all(keys <= set(stack_cost) for stack_cost in json_document["stacks"])
    assert Decimal(json_document["usd_per_hour"]) == sum(
        stack_cost.usd_per_hour or 0 for stack_cost in cost_survey.stacks
    )
