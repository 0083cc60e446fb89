"""An endpoint's template agrees with its quote: each quantity, and each one changed in turn."""

import copy
import json

import pytest

from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.infra.serving.agreement import USAGE, differences, resources, unknown
from tests.infra.serving.conftest import FILES
from tests.plans import NOW

SIZED = ["asynchronous-inf2", "llama31-8b-g6e", "llama31-8b-inf2"]
"""Examples whose largest number of instances is the one that their traffic needs."""


@pytest.fixture(scope="module")
def serving_sides(synthesised, catalog):
    """Of an example: its template as the launcher deploys it, and its quote's JSON."""
    done = {}

    def both(name):
        if name not in done:
            priced_plan = price(FILES[name], NOW, PriceOptions())
            (rank,) = [
                index for index, candidate in enumerate(priced_plan.candidates, 1) if candidate.place.instance_type
            ]
            quoted = priced_plan.quote(rank)
            endpoint = synthesised(quoted.plan, usd_per_hour=f"{quoted.price.usd:f}")
            document = json.loads(json.dumps(quote_document(quoted, rank, catalog.instance_types)))
            done[name] = endpoint.template("serving"), document
        return copy.deepcopy(done[name])

    return both


@pytest.mark.parametrize("name", FILES)
def test_deployed_endpoint_equals_quote(serving_sides, name):
    template, quote = serving_sides(name)
    assert quote["usd"] is not None
    assert differences(template, quote) == []
    assert template["Outputs"]["PlanDigest"]["Value"] == quote["digest"]


@pytest.mark.parametrize("name", SIZED)
def test_plan_file_through_cdk_app_has_quoted_digest(serving_sides, endpoint_stack, name):
    assert (
        endpoint_stack(name).template("serving")["Outputs"]["PlanDigest"]["Value"] == serving_sides(name)[1]["digest"]
    )


@pytest.mark.parametrize("name", FILES)
def test_every_resource_type_is_priced_or_known_free(serving_sides, name):
    assert unknown(serving_sides(name)[0]) == set()


@pytest.mark.parametrize("name", FILES)
def test_copies_and_shape_equal_estimate(serving_sides, name):
    template, quote = serving_sides(name)
    serving = quote["serving"]
    for component in resources(template, "AWS::SageMaker::InferenceComponent"):
        needs = component["Specification"]["ComputeResourceRequirements"]
        assert needs["NumberOfAcceleratorDevicesRequired"] * 2 == serving["tensor_parallel"]
    (model,) = resources(template, "AWS::SageMaker::Model")
    environment = model["PrimaryContainer"]["Environment"]
    names = [
        ("SM_ON_TENSOR_PARALLEL_SIZE", "SM_VLLM_TENSOR_PARALLEL_SIZE", serving["tensor_parallel"]),
        ("SM_ON_BATCH_SIZE", "SM_VLLM_MAX_NUM_SEQS", serving["batch_size"]),
        ("SM_ON_SEQUENCE_LENGTH", "SM_VLLM_MAX_MODEL_LEN", serving["sequence_length"]),
    ]
    for neuron, gpu, value in names:
        assert (environment.get(neuron) or environment[gpu]) == str(value)


# ------------------------------------------------------------------------------------------- each quantity, changed


def one(template, kind):
    """The properties of the one resource of a type."""
    (resource,) = resources(template, kind)
    return resource


def variant(template):
    return one(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]


def target(template):
    return one(template, "AWS::ApplicationAutoScaling::ScalableTarget")


def function(template):
    return one(template, "AWS::Lambda::Function")


def more(kind):
    """A second one of something."""
    return lambda template: template["Resources"].update(
        OneMore={"Type": kind, "Properties": copy.deepcopy((resources(template, kind) or [{}])[0])}
    )


def none(kind):
    """None of something is made."""

    def change(template):
        template["Resources"] = {
            key: resource for key, resource in template["Resources"].items() if resource["Type"] != kind
        }

    return change


def expiry(template):
    one(template, "AWS::S3::Bucket")["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] += 1


def log_days(template):
    for resource in resources(template, "AWS::Logs::LogGroup"):
        resource["RetentionInDays"] = 400


def schedule(template):
    (rule,) = [resource for resource in resources(template, "AWS::Events::Rule") if "ScheduleExpression" in resource]
    rule["ScheduleExpression"] = "rate(10 minutes)"


def at_once(template):
    one(template, "AWS::SageMaker::Endpoint")["DeploymentConfig"] = {"BlueGreenUpdatePolicy": {}}


def share(template):
    policy = one(template, "AWS::SageMaker::InferenceComponent")["DeploymentConfig"]["RollingUpdatePolicy"]
    policy["MaximumBatchSize"]["Value"] = 10


BUCKET = "AWS::S3::Bucket"
CHANGES = {
    ("instance type", "llama31-8b-g6e"): lambda template: variant(template).update(InstanceType="ml.g6e.4xlarge"),
    ("instances", "llama31-8b-g6e"): lambda template: variant(template).update(InitialInstanceCount=2),
    ("instances", "embedding-inf2"): lambda template: target(template).update(MaxCapacity=4),
    ("instances", "asynchronous-inf2"): lambda template: target(template).update(MinCapacity=1),
    ("deployment hours", "llama33-70b-inf2"): at_once,
    ("deployment hours", "llama31-8b-inf2"): share,
    ("volume GB-months", "embedding-inf2"): lambda template: variant(template).update(VolumeSizeInGB=50),
    ("volume GB-months", "llama31-8b-g6e"): lambda template: variant(template).update(VolumeSizeInGB=60),
    ("volume GB-months", "llama33-70b-inf2"): lambda template: variant(template).pop("VolumeSizeInGB"),
    ("kept GB-months", "embedding-inf2"): none(BUCKET),
    ("kept GB-months", "llama31-8b-g6e"): lambda template: template["Resources"].update(
        OneMore={"Type": BUCKET, "Properties": {"LifecycleConfiguration": {"Rules": [{"ExpirationInDays": 30}]}}}
    ),
    ("kept GB-months", "asynchronous-inf2"): expiry,
    ("uploads", "asynchronous-inf2"): lambda template: one(template, "AWS::SageMaker::EndpointConfig").pop(
        "AsyncInferenceConfig"
    ),
    ("log GB-months", "llama31-8b-g6e"): log_days,
    ("alarms", "llama31-8b-inf2"): more("AWS::CloudWatch::Alarm"),
    ("alarms", "asynchronous-inf2"): none("AWS::CloudWatch::Alarm"),
    ("dashboards", "embedding-inf2"): more("AWS::CloudWatch::Dashboard"),
    ("dashboards", "llama33-70b-inf2"): none("AWS::CloudWatch::Dashboard"),
    ("functions", "llama31-8b-g6e"): more("AWS::Lambda::Function"),
    ("function price", "llama31-8b-g6e"): lambda template: function(template).update(MemorySize=512),
    ("function price", "asynchronous-inf2"): schedule,
    ("CloudWatch requests", "embedding-inf2"): schedule,
    ("budgets", "llama31-8b-inf2"): none("AWS::Budgets::Budget"),
    ("budgets", "llama31-8b-g6e"): more("AWS::Budgets::Budget"),
    ("custom metrics", "llama31-8b-g6e"): lambda template: function(template)["Environment"]["Variables"].pop(
        "USD_PER_NODE_HOUR"
    ),
}


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: "-".join(case).replace(" ", "-"))
def test_changed_deployment_differs_from_quote(serving_sides, case):
    quantity, name = case
    template, quote = serving_sides(name)
    CHANGES[case](template)
    assert quantity in differences(template, quote)


@pytest.mark.parametrize("name", FILES)
def test_changed_or_unknown_quote_line_differs_from_deployment(serving_sides, name):
    """Of every line that the template decides: more of it, none of it; and a line that nobody knows."""
    template, quote = serving_sides(name)
    decided = 0
    for index, line in enumerate(quote["components"]):
        grown, shortened = copy.deepcopy(quote), copy.deepcopy(quote)
        grown["components"][index]["quantity"] *= 1.01
        del shortened["components"][index]
        if line["name"] not in USAGE:
            assert all(differences(template, changed_quote) for changed_quote in (grown, shortened)), line["name"]
            decided += 1
    assert decided >= 8
    quote["components"].append({**quote["components"][-1], "name": "something new", "quantity": 1.0})
    assert differences(template, quote) == ["something new"]


def test_changed_range_type_or_price_of_quote_differs_from_deployment(serving_sides):
    template, quote = serving_sides("embedding-inf2")
    for name, old, new, expected in [
        ("policies", "1 to 3", "0 to 3", "instances"),
        ("components", "inf2.xlarge", "inf2.8xlarge", "instance type"),
    ]:
        changed = {**quote, name: json.loads(json.dumps(quote[name]).replace(old, new))}
        assert differences(template, changed) == [expected]
    (line,) = [component for component in quote["components"] if component["name"].startswith("guard")]
    line["unit_price_usd"] = str(2 * float(line["unit_price_usd"]))
    assert differences(template, quote) == ["function price"]
