"""An endpoint's template in the embedded AWS without the CDK: refusals, replacements, rollback."""

import copy
import json
import time
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from launcher.aws.endpoints import bearer_token, describe_endpoint
from launcher.aws.session import Session
from launcher.sandbox.cluster.training_plan import TrainingPlan
from launcher.sandbox.endpoint.model_server import Behaviour

REGION = "us-east-1"
NAME = "small"
pytestmark = pytest.mark.xdist_group("endpoints")

ALARM = {
    "Namespace": "AWS/SageMaker",
    "MetricName": "Invocation5XXErrors",
    "Statistic": "Average",
    "Period": 60,
    "EvaluationPeriods": 3,
    "Threshold": 0.1,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
}
ROLLBACK = {"Alarms": [{"AlarmName": {"Ref": "Errors"}}]}
VARIANT = {
    "VariantName": "main",
    "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
    "InitialVariantWeight": 1,
    "InstanceType": "ml.inf2.xlarge",
    "InitialInstanceCount": 1,
    "InferenceAmiVersion": "al2-ami-sagemaker-inference-neuron-2",
}
ABSENT = {"Subnets": ["subnet-0a1b2c3d"], "SecurityGroupIds": ["sg-0a1b2c3d"]}
"""A network that does not exist."""
DEPLOYMENT = {
    "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 900}},
    "AutoRollbackConfiguration": ROLLBACK,
}
TEMPLATE = {
    "Resources": {
        "Errors": {"Type": "AWS::CloudWatch::Alarm", "Properties": ALARM},
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {
                "ExecutionRoleArn": "arn:aws:iam::123456789012:role/containers",
                "PrimaryContainer": {
                    "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/engine:1",
                    "Environment": {"SM_VLLM_SERVED_MODEL_NAME": "little", "SM_VLLM_MAX_MODEL_LEN": "100"},
                },
            },
        },
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [VARIANT]}},
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointName": NAME,
                "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                "DeploymentConfig": DEPLOYMENT,
            },
        },
    },
    "Outputs": {"Alarm": {"Value": {"Ref": "Errors"}}},
}


@pytest.fixture(scope="module")
def sandbox_session(sandbox):
    return Session(environment=sandbox.process_environment({}), region=REGION)


@pytest.fixture
def put_stack(sandbox_session):
    """Makes or changes the one stack; its status, and why a resource failed. It goes with the test."""
    client = sandbox_session.client("cloudformation")

    def put(template, *, update=False):
        call = client.update_stack if update else client.create_stack
        call(StackName="stack", TemplateBody=json.dumps(template))
        events = client.describe_stack_events(StackName="stack")["StackEvents"]
        status = client.describe_stacks(StackName="stack")["Stacks"][0]["StackStatus"]
        return status, [
            event.get("ResourceStatusReason", "") for event in events if "_FAILED" in event["ResourceStatus"]
        ]

    yield put
    client.delete_stack(StackName="stack")


def with_change(**resources):
    """The template with properties of some resources replaced."""
    template_copy = copy.deepcopy(TEMPLATE)
    for name, properties in resources.items():
        template_copy["Resources"][name]["Properties"].update(properties)
    return template_copy


def with_image(tag):
    container = TEMPLATE["Resources"]["Model"]["Properties"]["PrimaryContainer"]
    image = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/engine:{tag}"
    return with_change(Model={"PrimaryContainer": {**container, "Image": image}})


P5 = {"InstanceType": "ml.p5.48xlarge", "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1"}


@pytest.fixture(scope="module")
def plan_arns(sandbox):
    """Purchased training plans of two p5.48xlarge each, by what they are for or their state."""
    moments = {"begun": -1, "later": 1, "other": -1, "small": -1}
    arns = {}
    for name, sign in moments.items():
        arns[name] = f"arn:aws:sagemaker:{REGION}:123456789012:training-plan/{name}"
        starts_at = datetime.now(UTC) + sign * timedelta(days=1)
        plan = TrainingPlan(
            arn=arns[name],
            instance_type="ml.p5.48xlarge",
            count=1 if name == "small" else 2,
            zone_id=None,
            starts_at=starts_at,
            ends_at=starts_at + timedelta(days=7),
            fee_usd="12000",
            target="training-job" if name == "other" else "endpoint",
        )
        sandbox.create_prerequisites(training_plans=[plan])
    return arns


def in_plan(arn, *, count=1, tag="1", **variant):
    """The template with its instances in a training plan."""
    reserved = {"CapacityReservationPreference": "capacity-reservations-only", "MlReservationArn": arn}
    of_plan = {**VARIANT, **P5, "InitialInstanceCount": count, "CapacityReservationConfig": reserved, **variant}
    template = with_image(tag)
    template["Resources"]["Config"]["Properties"]["ProductionVariants"] = [of_plan]
    return template


@pytest.mark.parametrize(
    "plan, changes, message",
    [
        ("missing", {}, "Could not find training plan"),
        ("other", {}, "is for training-job, not for endpoint"),
        ("later", {}, "is Scheduled, and must be Active"),
        ("begun", {"InstanceType": "ml.p5en.48xlarge"}, "has ml.p5.48xlarge, the variant main has ml.p5en.48xlarge"),
        ("begun", {"count": 3}, "has 2 instances, 0 in use, and 3 more are to start"),
    ],
)
def test_endpoint_on_unfit_training_plan_refused(put_stack, plan_arns, plan, changes, message):
    status, reasons = put_stack(in_plan(plan_arns.get(plan, f"{plan_arns['begun']}-{plan}"), **changes))
    assert status == "ROLLBACK_COMPLETE"
    assert any(message in reason for reason in reasons), reasons


def test_update_in_training_plan_needs_room_for_both_versions(put_stack, plan_arns, sandbox_session):
    assert put_stack(in_plan(plan_arns["begun"]))[0] == "CREATE_COMPLETE"
    described = sandbox_session.client("sagemaker").describe_training_plan(TrainingPlanName="begun")
    assert (described["InUseInstanceCount"], described["AvailableInstanceCount"]) == (1, 1)
    assert put_stack(in_plan(plan_arns["begun"], tag="2"), update=True)[0] == "UPDATE_COMPLETE"
    status, reasons = put_stack(in_plan(plan_arns["small"], tag="3"), update=True)
    assert status == "UPDATE_COMPLETE", reasons
    status, reasons = put_stack(in_plan(plan_arns["small"], tag="4"), update=True)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert any("has 1 instances, 1 in use, and 1 more are to start" in reason for reason in reasons), reasons


def list_resources(session):
    """The names of the models and configurations that are there, and what the endpoint runs."""
    client = session.client("sagemaker")
    models = [model["ModelName"] for model in client.list_models()["Models"]]
    configs = [config["EndpointConfigName"] for config in client.list_endpoint_configs()["EndpointConfigs"]]
    endpoint = client.describe_endpoint(EndpointName=NAME)
    return models, configs, endpoint["EndpointConfigName"]


@pytest.mark.parametrize(
    "template, message",
    [
        (
            with_change(Config={"ProductionVariants": [{**VARIANT, "InstanceType": "ml.inf2.7xlarge"}]}),
            "ml.inf2.7xlarge is not a valid enum value",
        ),
        (
            with_change(Config={"ProductionVariants": [{**VARIANT, "VolumeSizeInGB": 4096}]}),
            "4096 is more than the maximum of 512",
        ),
        (with_change(Config={"ProductionVariants": [{**VARIANT, "Instances": 1}]}), "extraneous key [Instances]"),
        (
            with_change(Config={"ProductionVariants": [{**VARIANT, "ModelName": "another"}]}),
            "Could not find model arn:aws:sagemaker:us-east-1:123456789012:model/another",
        ),
        (with_change(Endpoint={"EndpointConfigName": "another"}), "Could not find endpoint configuration"),
        (with_change(Model={"VpcConfig": ABSENT}), "The subnet ID 'subnet-0a1b2c3d' does not exist."),
        (with_change(Config={"VpcConfig": ABSENT}), "The subnet ID 'subnet-0a1b2c3d' does not exist."),
        (
            with_change(
                Endpoint={"DeploymentConfig": {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "none"}]}}}
            ),
            "Could not find alarms: none",
        ),
        (
            with_change(
                Model={
                    "PrimaryContainer": {
                        "Image": "engine",
                        "ModelDataSource": {
                            "S3DataSource": {
                                "S3Uri": "s3://nobody/model/",
                                "S3DataType": "S3Prefix",
                                "CompressionType": "None",
                            }
                        },
                    }
                }
            ),
            "there is no bucket nobody",
        ),
    ],
)
def test_template_invalid_for_sagemaker_rolls_back(put_stack, template, message):
    status, why = put_stack(template)
    assert status == "ROLLBACK_COMPLETE"
    assert any(message in reason for reason in why), why


def test_changed_model_replaces_old_model(put_stack, sandbox_session):
    assert put_stack(TEMPLATE) == ("CREATE_COMPLETE", [])
    before = list_resources(sandbox_session)
    assert put_stack(with_image(2), update=True) == ("UPDATE_COMPLETE", [])
    models, configs, running = list_resources(sandbox_session)
    assert (len(models), configs) == (1, [running])
    assert (models, configs) != before[:2]


def test_alarm_during_update_rolls_back_to_old_config(put_stack, sandbox_session):
    put_stack(TEMPLATE)
    before = list_resources(sandbox_session)[2]
    outputs = sandbox_session.client("cloudformation").describe_stacks(StackName="stack")["Stacks"][0]["Outputs"]
    alarms = sandbox_session.client("cloudwatch")
    alarms.set_alarm_state(AlarmName=outputs[0]["OutputValue"], StateValue="ALARM", StateReason="a test")
    assert put_stack(with_image(2), update=True)[0] == "UPDATE_COMPLETE"
    assert list_resources(sandbox_session)[2] == before
    assert sandbox_session.client("sagemaker").describe_endpoint(EndpointName=NAME)["EndpointStatus"] == "InService"


def test_container_failing_to_start_rolls_back_stack(put_stack, sandbox_session, sandbox):
    put_stack(TEMPLATE)
    before = list_resources(sandbox_session)
    sandbox.behave(Behaviour(starts=False))
    try:
        status, why = put_stack(with_image(2), update=True)
    finally:
        sandbox.behave(Behaviour())
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert any("did not pass the ping health check" in reason for reason in why)
    assert list_resources(sandbox_session) == before


def ask(sandbox, path, body, token):
    """One request with a token; status and answer."""
    connection = HTTPConnection(urlsplit(sandbox.endpoint).netloc, timeout=20)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_endpoint_answers_only_valid_token_model_and_length(put_stack, sandbox_session, sandbox):
    put_stack(TEMPLATE)
    path, token = f"/endpoints/{NAME}/openai/v1/chat/completions", bearer_token(sandbox_session, 60)
    hello = {"model": "", "messages": [{"role": "user", "content": "one two three"}], "max_tokens": 5}
    status, text = ask(sandbox, path, hello, token)
    assert status == 200
    assert json.loads(text)["usage"] == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert ask(sandbox, path, {**hello, "model": "little"}, token)[0] == 200
    assert ask(sandbox, path, {**hello, "model": "large"}, token)[0] == 404
    status, text = ask(sandbox, path, {**hello, "max_tokens": 98}, token)
    assert (status, "maximum context length is 100" in text) == (400, True)
    assert ask(sandbox, path.replace(NAME, "nobody"), hello, token)[0] == 400
    assert ask(sandbox, path, hello, "sagemaker-api-key-bm8=")[0] == 403
    elsewhere = bearer_token(Session(environment=sandbox_session.environment, region="eu-west-1"), 60)
    assert ask(sandbox, path, hello, elsewhere)[0] == 400
    short = bearer_token(sandbox_session, 1)
    time.sleep(2.1)
    status, text = ask(sandbox, path, hello, short)
    assert (status, "has expired" in text) == (403, True)


def test_asynchronous_and_synchronous_invocations_not_mixed(put_stack, sandbox_session):
    put_stack(TEMPLATE)
    runtime = sandbox_session.client("sagemaker-runtime")
    with pytest.raises(ClientError, match="does not support this inference type"):
        runtime.invoke_endpoint_async(EndpointName=NAME, InputLocation="s3://somewhere/request.json")
    body = json.dumps({"messages": [{"role": "user", "content": "one"}], "max_tokens": 3})
    answer = runtime.invoke_endpoint(EndpointName=NAME, Body=body, ContentType="application/json")
    assert json.loads(answer["Body"].read())["usage"]["completion_tokens"] == 3


SCALED = {
    "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
    "DependsOn": "Endpoint",
    "Properties": {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{NAME}/variant/main",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "MinCapacity": 1,
        "MaxCapacity": 4,
        "RoleARN": "arn:aws:iam::123456789012:role/scaling",
    },
}


def variants(template, **changes):
    variant = {**VARIANT, **changes}
    template["Resources"]["Config"]["Properties"] = {
        "ProductionVariants": [{key: value for key, value in variant.items() if value is not None}]
    }
    return template


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"InstanceType": "ml.inf2.8xlarge"}, "is a target for automatic scaling"),
        ({"VariantName": "other", "InstanceType": "ml.inf2.8xlarge"}, "must have the same variants"),
        ({"ModelName": None}, "cannot change between a model and inference components"),
        ({"InstanceType": "ml.g5.xlarge", "without": "Range"}, "is a target for automatic scaling"),
    ],
)
def test_invalid_update_of_scaled_variant_rolls_back(put_stack, changes, message):
    changes = dict(changes)
    scaled = with_change()
    scaled["Resources"]["Range"] = SCALED
    assert put_stack(scaled)[0] == "CREATE_COMPLETE"
    other = copy.deepcopy(scaled)
    # CloudFormation removes the target only after it has updated the endpoint.
    other["Resources"].pop(changes.pop("without", ""), None)
    other = variants(other, **changes)
    if "ModelName" in changes:
        other["Resources"]["Config"]["Properties"]["ExecutionRoleArn"] = "arn:aws:iam::123456789012:role/containers"
    status, problems = put_stack(other, update=True)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert any(message in problem for problem in problems), problems


def test_instance_type_of_unscaled_variant_updates_in_place(put_stack):
    assert put_stack(TEMPLATE)[0] == "CREATE_COMPLETE"
    assert put_stack(variants(with_change(), InstanceType="ml.inf2.8xlarge"), update=True)[0] == "UPDATE_COMPLETE"


@pytest.mark.parametrize("retained, instances", [(True, 1), (None, 3)])
def test_update_retains_number_of_instances_only_if_asked(put_stack, sandbox_session, retained, instances):
    assert put_stack(TEMPLATE)[0] == "CREATE_COMPLETE"
    other = variants(with_change(), InitialInstanceCount=3)
    if retained is not None:
        other["Resources"]["Endpoint"]["Properties"]["RetainAllVariantProperties"] = retained
    assert put_stack(other, update=True)[0] == "UPDATE_COMPLETE"
    assert describe_endpoint(sandbox_session, NAME).instances == instances


def test_instance_type_of_scaled_variant_changes_after_target_removal(put_stack):
    scaled = with_change()
    scaled["Resources"]["Range"] = SCALED
    assert put_stack(scaled)[0] == "CREATE_COMPLETE"
    assert put_stack(TEMPLATE, update=True)[0] == "UPDATE_COMPLETE"
    other = variants(copy.deepcopy(scaled), InstanceType="ml.inf2.8xlarge")
    assert put_stack(other, update=True)[0] == "UPDATE_COMPLETE"
