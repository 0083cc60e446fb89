"""The guard of HyperPod with EKS as Lambda runs it: nobody tells it of idleness, and its words are of pods."""

import pytest

from tests.infra.guard_modules import guard_module
from tests.infra.test_hyperpod_guard import LISTED, NOW, Account, aws, node  # noqa: F401 - `aws` is a fixture

pytestmark = pytest.mark.xdist_group("guard")


@pytest.fixture(scope="module")
def module():
    with guard_module("hyperpod_eks") as found:
        yield found


def guard(module, account: Account, **limits):
    told = {
        "CLUSTER": "tiny",
        "HYPERPOD_EKS": "slipway-tiny",
        "STACK": "s",
        "TOPICS": account.topic,
        "AWS_REGION": account.cloudwatch.meta.region_name,
        "PREPAID": "false",
        "IDLE_MINUTES": "5",
        **limits,
    }
    clients = {"sagemaker": account.sagemaker, "cloudwatch": account.cloudwatch}
    return module.HyperPodEksGuard(
        module.Settings.of(told), lambda service: clients.get(service) or module.boto3.client(service), NOW
    )


def test_its_name_is_its_own_variable(module, aws):  # noqa: F811 - the fixture
    assert guard(module, aws).settings.name == LISTED["ClusterName"]


def test_a_silent_queue_is_no_idleness(module, aws):  # noqa: F811 - the fixture
    """Slurm's controller would be believed: nobody reports pods, and deleting what works loses work."""
    aws.queued(*[0] * 12)
    assert not guard(module, aws).all_idle([node(1)])


def test_workers_are_deleted_and_people_told_what_goes_on(module, aws):  # noqa: F811 - the fixture
    aws.answers(node(1), node(2))
    ids = [node(number)["InstanceId"] for number in (1, 2)]
    asked = {"ClusterName": "slipway-tiny", "NodeIds": ids}
    aws.stub.add_response("batch_delete_cluster_nodes", {"Successful": ids}, asked)
    guard(module, aws).stop("its time is over", 2)
    ((subject, text),) = aws.messages
    assert "workers stopped" in subject
    assert "their pods wait as Pending" in text
    assert "Control plane, system node and network cost on" in text
