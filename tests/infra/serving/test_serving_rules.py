"""External rules for endpoints: CDK's own validation, cdk-nag, cfn-lint, size limits; and snapshots."""

import json
import re

import pytest

from launcher.model.tags import CLUSTER_TAG
from tests.infra.accepted import ENDPOINTS, accepted
from tests.infra.linting import complaints
from tests.infra.organization_policies import (
    ENDPOINT_TAG,
    IN_VPC,
    NETWORK,
    TAGS,
    refused,
    sagemaker_requests,
    stacks_of,
)
from tests.infra.reading import OWN, lacking
from tests.infra.region_check import check_every_region
from tests.infra.serving.conftest import FILES


def test_every_finding_is_accepted_with_reason(serving_example):
    assert [violation for violation in serving_example.violations if accepted(ENDPOINTS, *violation) is None] == []


def test_every_accepted_finding_occurs(endpoint_stack):
    used = {accepted(ENDPOINTS, *violation) for name in FILES for violation in endpoint_stack(name).violations}
    assert used == set(range(len(ENDPOINTS)))


def test_cfn_lint_reports_no_findings(serving_example):
    assert complaints(serving_example.folder, serving_example.plan.place.region) == []


def test_endpoint_is_one_stack_below_60_resources(serving_example):
    (template,) = serving_example.templates.values()
    assert len(template["Resources"]) < 60
    assert len(json.dumps(template)) < 100_000


def test_template_contains_no_price_except_passed_rate(endpoint_stack):
    resources = endpoint_stack("llama31-8b-inf2").template("serving")["Resources"]
    assert not re.search(r"(?i)price|usd_per", json.dumps(resources))
    rated = endpoint_stack("llama31-8b-inf2", context={"usd_per_hour": "77.90"})
    assert set(re.findall(r"15\.58\d*", json.dumps(rated.templates))) == {"15.580000"}


@pytest.mark.parametrize("name", ["asynchronous-inf2", "llama31-8b-inf2", "llama33-70b-inf2"])
def test_serving_template_equals_golden(golden, endpoint_stack, name):
    template = endpoint_stack(name).template("serving")
    shown = json.dumps({key: template[key] for key in ("Resources", "Outputs")}, indent=2, sort_keys=True)
    golden(f"infra/serving-{name}.json", re.sub(r"\b[0-9a-f]{64}\b", "<sha256>", shown) + "\n")


def test_every_taggable_endpoint_resource_has_plan_tags(endpoint_stack):
    endpoint = endpoint_stack(rest={"tags": OWN})
    (name,) = {stack["properties"]["tags"][CLUSTER_TAG] for stack in endpoint.manifest.values()}
    assert name
    # The one that `report --billed` asks for is among them.
    assert lacking(endpoint, {**OWN, CLUSTER_TAG: name}) == []


def test_endpoints_in_every_region_are_deployable_or_refused(serving_example, catalog):
    check_every_region(serving_example, catalog)


@pytest.mark.parametrize("degree", [2, 8], ids=["components", "variant"])
def test_endpoints_meet_an_organization_that_demands_vpc_and_tags(endpoint_stack, degree):
    place = {"instance_type": "inf2.24xlarge"}
    demanded = [*IN_VPC, ENDPOINT_TAG]
    plain = endpoint_stack(tensor_parallel=degree, place=place)
    requests = [request for stack in stacks_of(plain) for request in sagemaker_requests(stack)]
    assert {action for action, _ in refused(demanded, requests)} == {
        "sagemaker:CreateModel",
        "sagemaker:CreateEndpoint",
    }
    rest = {
        "network": {key: value if isinstance(value, str) else list(value) for key, value in NETWORK.items()},
        "tags": TAGS,
    }
    stacks = stacks_of(endpoint_stack(tensor_parallel=degree, place=place, rest=rest))
    requests = [request for stack in stacks for request in sagemaker_requests(stack)]
    assert {"sagemaker:CreateModel", "sagemaker:CreateEndpointConfig", "sagemaker:CreateEndpoint"} <= {
        action for action, _, _ in requests
    }
    assert refused(demanded, requests) == []
