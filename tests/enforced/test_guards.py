"""The guards of HyperPod, EKS and endpoints under the roles that their stacks give them.

ministack has no SageMaker, and takes every call of EKS for one on the cluster, whatever it is on
(core/iam_actions.extract_resource_arn): what a guard does there is asked of its simulation, which evaluates the same
policies by the same code, on the ARN that the Service Authorization Reference gives the call. It takes no context, so
that HyperPod's statement, which holds for machines of the plan's tag alone, is held once without its condition, and
refuses with it. All else is called.
"""

import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from launcher.aws import identity
from tests.enforced.conftest import ID, REGION
from tests.infra.guard_modules import guard_module
from tests.infra.iam import fits, formats
from tests.plans import ROOT

pytestmark = pytest.mark.iam

HYPERPOD, HYPERPOD_EKS = "hyperpod-p5-plan", "hyperpod-eks-p5en-spot"
EKS, ENDPOINT = "eks-p5-block", "serving-asynchronous-inf2"
GUARDS = {
    HYPERPOD: ("hyperpod", "HyperPodGuard", "HYPERPOD"),
    HYPERPOD_EKS: ("hyperpod_eks", "HyperPodEksGuard", "HYPERPOD_EKS"),
    EKS: ("eks", "EksGuard", "EKS"),
    ENDPOINT: ("endpoint", "EndpointGuard", "HYPERPOD"),
}
"""The module, the class and the variable of each example's guard."""
TOPIC = f"arn:aws:sns:{REGION}:{ID}:slipway-guarded"
LOG = f"arn:aws:logs:{REGION}:{ID}:log-group:slipway-guarded-guard:*"
COUNTS = f"arn:aws:lambda:us-west-2:{ID}:function:slipway-guarded-chart"
PODS = f"arn:aws:lambda:us-east-2:{ID}:function:slipway-guarded-pods"
"""What stands in a cluster's network and counts its pods, of HyperPod and of EKS."""
TAGGED = "aws:ResourceTag/slipway:cluster"
CLUSTER = {
    HYPERPOD: f"arn:aws:sagemaker:us-east-2:{ID}:cluster/abcdef123456",
    HYPERPOD_EKS: f"arn:aws:sagemaker:us-west-2:{ID}:cluster/abcdef123456",
}
GROUP = f"arn:aws:eks:us-east-2:{ID}:nodegroup/slipway-p5-eks/workers/8131d980-7fb5-11ee-9589-0a6424944f95"
QUEUED = f"arn:aws:sagemaker:us-east-2:{ID}:endpoint/slipway-summaries-inf2"
COPIES = f"arn:aws:sagemaker:us-east-2:{ID}:inference-component/slipway-summaries-inf2"
DOES = [
    (EKS, "eks:DescribeNodegroup", GROUP),
    (EKS, "eks:UpdateNodegroupConfig", GROUP),
    (EKS, "lambda:InvokeFunction", PODS),
    (ENDPOINT, "sagemaker:DescribeEndpoint", QUEUED),
    (ENDPOINT, "sagemaker:DeleteEndpoint", QUEUED),
    (ENDPOINT, "sagemaker:ListInferenceComponents", "*"),
    (ENDPOINT, "sagemaker:DeleteInferenceComponent", COPIES),
    (HYPERPOD, "cloudwatch:GetMetricStatistics", "*"),
    (HYPERPOD_EKS, "lambda:InvokeFunction", COUNTS),
]
"""What its own code calls (templates/guard), where no statement needs context."""
DOES_TO_ITS_OWN = [
    *(
        (example, f"sagemaker:{call}", CLUSTER[example])
        for example in (HYPERPOD, HYPERPOD_EKS)
        for call in ("ListClusterNodes", "BatchDeleteClusterNodes", "DescribeCluster")
    ),
    *(
        (HYPERPOD_EKS, f"sagemaker:{call}", CLUSTER[HYPERPOD_EKS])
        for call in ("ListClusterEvents", "DescribeClusterEvent")
    ),
]
MAY_NOT = [
    (EKS, "eks:UpdateNodegroupConfig", GROUP.replace("workers", "system")),
    (EKS, "eks:UpdateNodegroupConfig", GROUP.replace("slipway-p5-eks", "slipway-other")),
    (EKS, "eks:DeleteNodegroup", GROUP),
    (EKS, "lambda:InvokeFunction", COUNTS),
    (EKS, "eks:DeleteCluster", f"arn:aws:eks:us-east-2:{ID}:cluster/slipway-p5-eks"),
    (EKS, "ec2:TerminateInstances", f"arn:aws:ec2:us-east-2:{ID}:instance/i-00000000"),
    (ENDPOINT, "sagemaker:DeleteEndpoint", QUEUED.replace("summaries", "other")),
    (ENDPOINT, "sagemaker:UpdateEndpoint", QUEUED),
    (ENDPOINT, "sagemaker:InvokeEndpoint", QUEUED),
    (HYPERPOD, "sagemaker:DeleteCluster", CLUSTER[HYPERPOD]),
    (HYPERPOD, "sagemaker:UpdateCluster", CLUSTER[HYPERPOD]),
    (HYPERPOD, "ssm:StartSession", CLUSTER[HYPERPOD]),
    (HYPERPOD_EKS, "sagemaker:UpdateCluster", CLUSTER[HYPERPOD_EKS]),
    (HYPERPOD_EKS, "lambda:InvokeFunction", COUNTS.replace("chart", "other")),
    (HYPERPOD_EKS, "eks:DeleteCluster", f"arn:aws:eks:us-west-2:{ID}:cluster/slipway-p5en-hyperpod"),
    (HYPERPOD, "iam:PassRole", f"arn:aws:iam::{ID}:role/slipway-p5-plan-ExecutionRole"),
]


@pytest.fixture(scope="module")
def guards_stack(enforced):
    """The id of the guards' own stack."""
    enforced.owner.client("sns").create_topic(Name="slipway-guarded")
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    stacks = enforced.owner.client("cloudformation")
    return stacks.create_stack(StackName="slipway-guarded-training", TemplateBody=body)["StackId"]


def state_of(example):
    """The name of the parameter of an example's guard."""
    path = ROOT / "tests/golden/infra" / f"{example}.json"
    stack = json.loads((path if path.exists() else path.with_suffix("") / "training.json").read_text(encoding="utf-8"))
    (parameter,) = [item for item in stack["Resources"].values() if item["Type"] == "AWS::SSM::Parameter"]
    return parameter["Properties"]["Name"]


@pytest.fixture(scope="module", autouse=True)
def states(enforced):
    """The parameters of all guards, as their stacks create them."""
    for example in GUARDS:
        enforced.owner.client("ssm").put_parameter(Name=state_of(example), Value="{}", Type="String")


@pytest.fixture(scope="module")
def documents(golden_policies, guards_stack):
    """The policies of an example's guard."""
    references = {"GuardrailsTopic": TOPIC, "GuardrailsGuardLog": LOG, "AWS::StackId": guards_stack}
    references |= {"ChartFunction": COUNTS, "PodsFunction": PODS}
    return lambda example: golden_policies(example, "GuardrailsGuardRole", references)


@pytest.fixture(scope="module")
def users(enforced, documents):
    """The environment of each guard."""
    return {example: enforced.user(f"guard-{example}", documents(example)) for example in GUARDS}


@pytest.fixture
def simulate(enforced, users):
    """Whether IAM's simulation allows a guard an action."""

    def ask(example, action, arn, name=None):
        user = f"arn:aws:iam::{ID}:user/{name or f'guard-{example}'}"
        (simulation,) = identity.simulate_permissions(enforced.owner, user, [action], [arn])
        return simulation.allowed

    return ask


@pytest.fixture(params=GUARDS)
def enforced_guard(request, users, boto, guards_stack):
    """Each guard's own code, with clients under its role."""
    module, kind, variable = GUARDS[request.param]
    settings = {
        "CLUSTER": "guarded",
        variable: "slipway-guarded",
        "STACK": guards_stack,
        "TOPICS": TOPIC,
        "AWS_REGION": REGION,
        "STATE": state_of(request.param),
        "PREPAID": "false",
        "IDLE_MINUTES": "60",
    }
    with guard_module(module) as loaded:
        parsed = loaded.Settings.of(settings)
        yield getattr(loaded, kind)(parsed, lambda service: boto(users[request.param], service), datetime.now(UTC))


def test_guard_role_allows_reading_the_age_and_notifying(enforced_guard):
    assert enforced_guard.deployed_at() <= datetime.now(UTC)
    enforced_guard.notify("nodes stopped", "its time is over")


def test_guard_role_allows_storing_the_state(enforced_guard):
    with guard_module("state") as module:
        name = enforced_guard.settings.parameter
        enforced_guard.state = module.State.read(enforced_guard.ssm, name)
        before = enforced_guard.state.spent_usd
        enforced_guard.state.spent_usd += 12.5
        enforced_guard.store()
        assert module.State.read(enforced_guard.ssm, name).spent_usd == before + 12.5


@pytest.mark.parametrize("example", GUARDS)
def test_guard_role_forbids_writing_the_state_of_another_guard(users, boto, example):
    client = boto(users[example], "ssm")
    for other in set(GUARDS) - {example}:
        with pytest.raises(ClientError, match="not authorized"):
            client.put_parameter(Name=state_of(other), Value="{}", Overwrite=True)


def test_eks_guard_role_allows_listing_nodes(users, boto):
    with guard_module("eks") as loaded:
        settings = {"CLUSTER": "p5-eks", "EKS": "slipway-p5-eks", "STACK": "x", "TOPICS": "", "AWS_REGION": REGION}
        settings |= {"STATE": state_of(EKS), "PREPAID": "false", "IDLE_MINUTES": "60"}
        parsed = loaded.Settings.of(settings)
        assert loaded.EksGuard(parsed, lambda service: boto(users[EKS], service), datetime.now(UTC)).nodes() == []


@pytest.mark.parametrize("example", GUARDS)
def test_guard_role_forbids_other_calls(users, boto, example):
    client = lambda service: boto(users[example], service)  # noqa: E731 - a name for one call
    for call in (
        lambda: client("sns").publish(TopicArn=TOPIC.replace("guarded", "payroll"), Message="x"),
        lambda: client("cloudformation").delete_stack(StackName="slipway-guarded-training"),
        lambda: client("ec2").terminate_instances(InstanceIds=["i-00000000"]),
        lambda: client("iam").list_users(),
        lambda: client("s3").list_buckets(),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call()


@pytest.mark.parametrize("example,action,arn", [*DOES, *DOES_TO_ITS_OWN])
def test_simulated_calls_use_resources_possible_for_the_action(example, action, arn):
    forms = formats(action)
    assert (arn == "*") == (not forms) or any(fits(arn, form) for form in forms), example


@pytest.mark.parametrize("example,action,arn", DOES)
def test_guard_calls_are_allowed_by_the_simulation(simulate, example, action, arn):
    assert simulate(example, action, arn)


@pytest.mark.parametrize("call", DOES_TO_ITS_OWN)
def test_hyperpod_stop_is_allowed_for_the_tag_of_the_plan_only(enforced, simulate, documents, call):
    example, action, arn = call
    assert not simulate(example, action, arn), "without the tag nothing is allowed"
    name = f"{example}-{action.partition(':')[2]}"
    bare = documents(example)
    for document in bare.values():
        for statement in document["Statement"]:
            if TAGGED in statement.get("Condition", {}).get("StringEquals", {}):
                del statement["Condition"]
    enforced.user(name, bare)
    assert simulate(example, action, arn, name)


@pytest.mark.parametrize("example,action,arn", MAY_NOT)
def test_unrelated_guard_calls_are_forbidden_by_the_simulation(simulate, example, action, arn):
    assert not simulate(example, action, arn)
