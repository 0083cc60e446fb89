"""The compile job is priced beside the month, on Neuron alone."""

from dataclasses import replace

import pytest

from launcher.pricing.serving.compile_job import NAME, compile_lines
from tests.checks import some

TARGETS = [{"instance_type": "inf2.48xlarge"}, {"instance_type": "inf2.48xlarge", "kind": "eks"}]


@pytest.mark.parametrize("target", TARGETS, ids=["endpoint", "eks"])
def test_compile_job_is_one_ec2_hour_outside_the_monthly_bill(serving_priced, target):
    candidate = serving_priced(target=target, purchase={"option": "on-demand"})
    quoted = candidate.quote(1)
    (assumption,) = [assumption for assumption in quoted.assumptions if assumption.name == NAME]
    rate = candidate.catalog.on_demand("inf2.48xlarge", "us-east-1")
    assert assumption.value == f"${rate.usd:.2f}"
    assert rate.as_of.isoformat() in assumption.source
    assert sum(component.usd for component in quoted.components if component.usd is not None) == quoted.usd.mid
    assert NAME not in {component.name for component in quoted.components}


def test_gpu_and_bedrock_quotes_have_no_compile_job(serving_priced):
    for quoted in some(serving_priced(target={"instance_type": "g6e.12xlarge"}).quotes):
        assert NAME not in {assumption.name for assumption in quoted.assumptions}


def test_compile_job_without_a_rate_is_unpriced_with_the_reason(serving_priced):
    candidate = serving_priced(target=TARGETS[0], purchase={"option": "on-demand"})
    (compile_line,) = compile_lines(replace(candidate.quote(1).plan.place, region="eu-south-2"), candidate.catalog)
    assert compile_line.value == "unpriced"
    assert "eu-south-2" in compile_line.source
