"""What every example's stacks and training jobs request, under policies of organizations (organization_policies.py)."""

from dataclasses import replace

import pytest

from launcher.planning.pin import pinned_plan
from tests.checks import some
from tests.infra.conftest import FILES
from tests.infra.organization_policies import (
    ENCRYPTED,
    IN_VPC,
    KEY,
    NETWORK,
    TAGGED,
    TAGS,
    TRAFFIC,
    job_request,
    launches,
    refused,
    sagemaker_requests,
    stacks_of,
)


@pytest.mark.parametrize("kind", FILES)
def test_launches_of_every_example_have_the_tags_that_an_organization_demands(synthesised, plan_at, catalog, kind):
    untaggable, evaluated = set(), 0
    for name, path in some(FILES[kind].items()):
        plan = plan_at(path)
        if not any(list(launches(stack)) for stack in stacks_of(synthesised(plan))):
            continue  # tags add no launch
        tagged = pinned_plan(replace(plan.request, tags=TAGS), catalog)
        requests = [request for stack in stacks_of(synthesised(tagged)) for request in launches(stack)]
        evaluated += len(requests)
        without = refused(TAGGED, requests)
        untaggable |= {name} if without else set()
        assert {arn.rpartition(":")[2] for _, arn in without} <= {"network-interface/*"}, name
    assert bool(evaluated) == (kind in ("eks", "pcs", "ec2"))
    # docs/clusters.md says that an organization's policy refuses the interface of a NAT instance.
    assert untaggable == ({"nat-instance"} if kind == "ec2" else set())


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks"])
def test_hyperpod_clusters_name_the_vpc_that_an_organization_demands(synthesised, plan_at, kind):
    for path in some(FILES[kind].values()):
        requests = [request for stack in stacks_of(synthesised(plan_at(path))) for request in sagemaker_requests(stack)]
        assert "sagemaker:CreateCluster" in {action for action, _, _ in requests}
        assert refused(IN_VPC, requests) == []


def test_training_jobs_meet_an_organization_that_demands_vpc_and_encryption(plan_at, catalog):
    demanded = [TRAFFIC, *IN_VPC]
    for name, path in some(FILES["sagemaker-training"].items()):
        plan = plan_at(path)
        assert refused(demanded, [job_request(plan, catalog)])
        request = replace(
            plan.request,
            tags=TAGS,
            network=replace(plan.request.network, nat=type(plan.request.network)().nat, endpoints=(), **NETWORK),
            security=replace(plan.request.security, encrypt_traffic=True),
            storage=replace(plan.request.storage, kms_key_arn=KEY),
        )
        job = job_request(pinned_plan(request, catalog), catalog)
        assert refused(demanded, [job]) == [], name
        # SageMaker takes no key for local disks, which their hardware encrypts: no job on such a type meets the demand.
        local = bool(catalog.instance_types[plan.place.instance_type].nvme_gb)
        assert bool(refused([ENCRYPTED], [job])) == local, name
