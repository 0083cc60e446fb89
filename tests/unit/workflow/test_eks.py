"""What is refused of jobs for Kubernetes before anything is deployed, with the way to do it by hand."""

import pytest

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.workflow.deploy.eks import api, refuse_job, unreached, ways_in
from tests.plans import request_of

BASE = {"slipway": 1, "name": "small", "workload": {"train": {"hours": 1}}, "purchase": {"option": "on-demand"}}
TARGET = {"kind": "eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2}
OUTPUTS = {
    "Connect": "aws eks update-kubeconfig",
    "ClusterEndpoint": "https://abc.us-east-2.eks.amazonaws.com",
    "StartFleet": "aws eks update-nodegroup-config",
}


def plan(**sections):
    return pinned_plan(request_of({**BASE, "target": TARGET, **sections}), load())


def test_a_job_that_could_not_be_sent_is_refused_with_the_way_by_hand():
    with pytest.raises(ImpossibleError) as refusal:
        refuse_job(plan(), {})
    hint = str(refusal.value.hint)
    assert "kubectl create -f kubernetes/job.yaml" in hint
    assert "slipway deploy" in hint
    assert "plugins.yaml" in hint


def refused(plan):
    """Whether a job is refused."""
    try:
        refuse_job(plan, {})
    except ImpossibleError:
        return True
    return False


def test_a_job_for_a_cluster_that_exists_is_sent_whatever_the_plan_says_of_a_network():
    assert refused(plan())
    assert not refused(plan(target={**TARGET, "cluster": "shared"}))


@pytest.mark.parametrize(
    "network",
    [
        {"api_cidrs": ["198.51.100.0/24"]},
        {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]},
    ],
)
def test_an_api_that_may_answer_from_here_gets_its_job(network):
    assert not refused(plan(network=network))


def test_a_job_for_its_api_goes_there_as_the_role_that_was_made_for_it():
    outputs = {"ClusterName": "slipway-small", "AccessRoleArn": "arn:aws:iam::123456789012:role/access"}
    found = api(plan(), outputs, Session(environment={}, region="us-east-2"))
    assert (found.via, found.host, found.region) == ("eks", "slipway-small", "us-east-2")
    assert found.role == outputs["AccessRoleArn"]


@pytest.mark.parametrize(
    "cidrs,said", [([], "AWS-StartPortForwardingSessionToRemoteHost"), (["198.51.100.0/24"], "198.")]
)
def test_an_api_that_does_not_answer_has_a_way_there(cidrs, said):
    assert said in unreached(plan(network={"api_cidrs": cidrs}), OUTPUTS)


@pytest.mark.parametrize("cidrs,tunnel", [([], True), (["198.51.100.0/24"], False)])
def test_a_private_api_is_reached_through_a_tunnel(cidrs, tunnel):
    found = ways_in(plan(network={"api_cidrs": cidrs}), OUTPUTS)
    assert any("AWS-StartPortForwardingSessionToRemoteHost" in command for _what, command in found) is tunnel
    assert all("https://" not in command for _what, command in found)
