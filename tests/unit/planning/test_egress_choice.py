"""`network.nat: auto`: the cheapest way that works, for each target, purchase option and number of nodes."""

import pytest

from launcher.model.enums import Egress, NatMode, PurchaseOption, TargetKind
from launcher.planning.egress_choice import EgressOptions
from launcher.planning.nat import interface_endpoints
from launcher.targets.registry import target_of
from tests.plans import request_of

ON_DEMAND, SPOT = PurchaseOption.ON_DEMAND, PurchaseOption.SPOT
FROM_S3 = {"data": [{"uri": "s3://team-data/inputs", "path": "/scratch/in", "gib": 5}]}


@pytest.fixture
def egress_choice(catalog):
    """The ways of an hour on nodes of a type, with other keys of the plan."""

    def make(instance_type="g5.2xlarge", nodes=1, hours=1.0, region="us-east-1", **keys):
        train = keys.pop("train", {"hours": hours})
        target = {"region": region, "instance_type": instance_type}
        data = {"slipway": 1, "name": "n", "workload": {"train": train} if train else {}, "target": target, **keys}
        return EgressOptions(request_of(data), catalog).on_nodes(catalog.instance_types[instance_type], nodes, hours)

    return make


@pytest.mark.parametrize("kind", [TargetKind.EC2, TargetKind.PARALLELCLUSTER, TargetKind.PCS])
def test_single_card_nodes_take_public_addresses(egress_choice, kind):
    assert egress_choice().choose(kind, ON_DEMAND) is Egress.PUBLIC_ADDRESSES
    assert egress_choice().mode(kind, ON_DEMAND) is None


@pytest.mark.parametrize("kind", [TargetKind.EKS, TargetKind.HYPERPOD_EKS, TargetKind.HYPERPOD_SLURM])
@pytest.mark.parametrize("hours, taken", [(1.0, NatMode.INSTANCE), (400.0, None)])
def test_short_jobs_of_other_targets_take_nat_instance_and_long_ones_the_gateway(egress_choice, kind, hours, taken):
    assert egress_choice(hours=hours).mode(kind, ON_DEMAND) is taken


def test_expensive_nodes_do_not_wait_behind_nat_instance(egress_choice):
    # Eight p5 wait 11 minutes longer behind an m6i.large: $80 against $7 for the gateway's data.
    assert egress_choice("p5.48xlarge", 8).choose(TargetKind.EKS, ON_DEMAND) is Egress.NAT_GATEWAY
    assert egress_choice("trn1.32xlarge", 1).choose(TargetKind.EKS, SPOT) is Egress.NAT_INSTANCE


@pytest.mark.parametrize("hours, taken", [(5.0, Egress.PUBLIC_ADDRESSES), (2000.0, Egress.NAT_GATEWAY)])
def test_sixty_four_nodes_take_addresses_until_their_hours_cost_more_than_the_data(egress_choice, hours, taken):
    assert egress_choice("g6e.16xlarge", 64, hours).choose(TargetKind.PARALLELCLUSTER, ON_DEMAND) is taken


@pytest.mark.parametrize(
    "instance_type, nodes, network", [("g5.2xlarge", 1, {"private": True}), ("p5.48xlarge", 2, {})]
)
def test_job_whose_inputs_are_in_s3_takes_endpoints_without_public_addresses(
    egress_choice, instance_type, nodes, network
):
    choice = egress_choice(instance_type, nodes, network=network, run=FROM_S3)
    assert choice.choose(TargetKind.EC2, ON_DEMAND) is Egress.ENDPOINTS
    assert choice.mode(TargetKind.EC2, ON_DEMAND) is NatMode.NONE


@pytest.mark.parametrize(
    "run",
    [
        {},
        FROM_S3 | {"setup": ["pip install trl"]},
        FROM_S3 | {"command": "pip install -e . && python train.py"},
        FROM_S3 | {"before": [{"command": "hf download a/b"}]},
        FROM_S3 | {"env": {"WANDB_PROJECT": "p"}},
        FROM_S3 | {"secrets": {"HF_TOKEN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf"}},
        FROM_S3 | {"image": "nvcr.io/nvidia/pytorch:25.01-py3"},
        FROM_S3 | {"image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team:1"},
    ],
)
def test_job_that_may_need_the_internet_keeps_a_nat(egress_choice, run):
    choice = egress_choice(network={"private": True}, run=run)
    assert Egress.ENDPOINTS not in choice.able(TargetKind.EC2)
    assert choice.choose(TargetKind.EC2, ON_DEMAND) is Egress.NAT_INSTANCE


@pytest.mark.parametrize(
    "keys, taken",
    [
        ({"network": {"nat": "gateway"}}, Egress.NAT_GATEWAY),
        ({"network": {"nat": "instance"}}, Egress.NAT_INSTANCE),
        ({"network": {"name": "team", "az_ids": ["use1-az1", "use1-az2"]}}, Egress.NAT_GATEWAY),
        ({"train": None}, Egress.NAT_GATEWAY),
    ],
)
def test_plan_shared_network_or_cluster_without_job_decides_alone(egress_choice, keys, taken):
    choice = egress_choice(**keys)
    assert (choice.able(TargetKind.EKS), choice.choose(TargetKind.EKS, ON_DEMAND)) == ((taken,), taken)


CLOSED = {"nat": "none", "private": True}


@pytest.mark.parametrize("run", [{}, FROM_S3, {"image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/team:1"}])
def test_closed_training_job_has_endpoints_of_its_logs_and_metrics(egress_choice, run):
    choice = egress_choice(network=CLOSED, run=run)
    assert choice.choose(TargetKind.SAGEMAKER_TRAINING, ON_DEMAND) is Egress.ENDPOINTS
    request = request_of(
        {"slipway": 1, "name": "n", "workload": {"train": {"hours": 1}}, "network": CLOSED, "run": run}
    )
    endpoints = interface_endpoints(request, target_of(TargetKind.SAGEMAKER_TRAINING), Egress.ENDPOINTS)
    assert endpoints == ("logs", "monitoring")


def test_closed_training_job_has_endpoints_of_its_secrets_and_the_plan(egress_choice):
    run = {"secrets": {"KEY": "arn:aws:secretsmanager:us-east-1:123456789012:secret:k"}}
    train, network = {"train": {"hours": 1}}, {**CLOSED, "endpoints": ["sts"]}
    request = request_of({"slipway": 1, "name": "n", "workload": train, "network": network, "run": run})
    endpoints = interface_endpoints(request, target_of(TargetKind.SAGEMAKER_TRAINING), Egress.ENDPOINTS)
    assert endpoints == ("sts", "logs", "monitoring", "secretsmanager")


@pytest.mark.parametrize(
    "keys", [{}, {"nat": "none"}, {"private": True}, {"nat": "gateway"}, {"nat": "instance", "private": True}]
)
def test_training_job_without_a_closed_network_stays_in_the_services_own(egress_choice, keys):
    assert egress_choice(network=keys).choose(TargetKind.SAGEMAKER_TRAINING, ON_DEMAND) is None


def test_training_job_in_service_network_has_no_egress(egress_choice):
    choice = egress_choice()
    assert (choice.able(TargetKind.SAGEMAKER_TRAINING), choice.choose(TargetKind.SAGEMAKER_TRAINING, ON_DEMAND)) == (
        (),
        None,
    )
    assert choice.mode(TargetKind.SAGEMAKER_TRAINING, ON_DEMAND) is None
