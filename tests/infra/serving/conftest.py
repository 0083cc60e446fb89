"""The endpoint examples and small changes of a plan, each synthesised once; and readers of their stacks."""

import re

import pytest
import yaml

from launcher import plan_file
from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.serving import load_serving
from launcher.planning.endpoint_pin import pinned_serving
from tests.infra.conftest import ROOT

FILES = {
    path.stem: path
    for path in sorted((ROOT / "examples/serve/pinned").glob("*.yaml"))
    if not path.stem.endswith("-eks")
}
"""The examples that stacks are made of; those for EKS are manifests alone."""
CONFIG, ENDPOINT = "AWS::SageMaker::EndpointConfig", "AWS::SageMaker::Endpoint"
COMPONENT, MODEL = "AWS::SageMaker::InferenceComponent", "AWS::SageMaker::Model"
TARGET, POLICY = "AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy"
PINNED = {
    "model": "llama-3.1-8b",
    "artifacts_uri": "s3://models-of-the-team/llama",
    "input_tokens": 1500,
    "output_tokens": 250,
    "requests_per_s": 1,
}


@pytest.fixture(scope="session")
def endpoint_stack(synthesised, catalog):
    """The stack of an example by its name, or of changes to a small plan; each synthesised once."""

    def make(name=None, *, place=None, rest=None, context=None, **serve):
        request = plan_file.load(FILES[name]) if name else plan_file.loads(text(place or {}, serve, rest or {}))
        plan = pinned_serving(request, catalog, BedrockCatalog(), load_serving())
        return synthesised(plan, **(context or {}))

    return make


def text(place, serve, rest):
    target = {"kind": "sagemaker-endpoint", "region": "us-east-1", "instance_type": "inf2.8xlarge", **place}
    data = {"slipway": 1, "name": "small", "workload": {"serve": {**PINNED, **serve}}, "target": target}
    return yaml.safe_dump({**data, "purchase": {"option": "on-demand"}, **rest})


@pytest.fixture(params=sorted(FILES))
def serving_example(request, endpoint_stack):
    """Every example in turn."""
    return endpoint_stack(request.param)


def only(assembly, kind):
    return assembly.only("serving", kind)


def variant(assembly):
    (production_variant,) = only(assembly, CONFIG)["ProductionVariants"]
    return production_variant


def container(assembly):
    return only(assembly, MODEL)["PrimaryContainer"]


def alarms(assembly):
    resources = assembly.resources("serving", "AWS::CloudWatch::Alarm")
    return {re.sub(r"^Alarms(.*?)[0-9A-F]{8}$", r"\1", key): alarm for key, alarm in resources.items()}


def statements(assembly, sid):
    """The statements of a name in every role and policy of the stack."""
    roles = assembly.resources("serving", "AWS::IAM::Role").values()
    documents = [policy["PolicyDocument"] for role in roles for policy in role.get("Policies", [])]
    documents += [
        resource["PolicyDocument"] for resource in assembly.resources("serving", "AWS::IAM::ManagedPolicy").values()
    ]
    return [statement for document in documents for statement in document["Statement"] if statement.get("Sid") == sid]
