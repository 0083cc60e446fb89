"""Roles of the stacks under their own policies: the agent on a node, the guard, and CloudFormation."""

import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store
from launcher.model.enums import TargetKind
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.rendering.policies import BOUNDARY, TARGET_POLICIES, policy_name
from tests.enforced.conftest import ID, REGION
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.iam

BUCKET, OTHERS = "slipway-p5-spot-store", "slipway-other-store"
STORE = f"arn:aws:s3:::{BUCKET}"
TABLE = "parallelcluster-slipway-p5-spot"
TOPIC = f"arn:aws:sns:{REGION}:{ID}:slipway-p5-spot"
LOG = f"arn:aws:logs:{REGION}:{ID}:log-group:slipway-p5-spot-guard:*"
STATE = "/slipway/slipway-p5-spot-training/guard"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


@pytest.fixture(scope="module", autouse=True)
def stored_things(enforced):
    owner = enforced.owner.client
    for name in (BUCKET, OTHERS):
        owner("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    owner("s3").put_object(Bucket=OTHERS, Key="jobs/a/step-1/manifest.json", Body=b"{}")
    owner("s3").put_object(Bucket=BUCKET, Key="ledger/entry.json", Body=b"{}")
    owner("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "Id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "Id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for key in ("COMPUTE_FLEET", "CLUSTER_CONFIG"):
        data = {"M": {"status": {"S": "RUNNING"}}}
        owner("dynamodb").put_item(TableName=TABLE, Item={"Id": {"S": key}, "Data": data})
    owner("sns").create_topic(Name="slipway-p5-spot")
    owner("sns").create_topic(Name="payroll")
    for name in (STATE, STATE.replace("p5-spot", "other")):
        owner("ssm").put_parameter(Name=name, Value="{}", Type="String")


# ------------------------------------------------------------------------------------------------------------- a node


STORES = {
    "p5-spot": "slipway-p5-spot-checkpoints",
    "hyperpod-p5-plan": "slipway-p5-plan-checkpoints",
    "eks-p5-block": "slipway-p5-eks-checkpoints",
    "hyperpod-eks-p5en-spot": "slipway-p5en-hyperpod-checkpoints",
}
"""An example of each kind of cluster, and the stack of its store."""


IN_PODS = [example for example in STORES if "eks" in example]
"""Those whose jobs run in pods, each under an account that is called as its plan."""


@pytest.fixture(scope="module")
def job_user(enforced, golden_policies):
    """What a job of some plan may do, as the stack of an example gives it to a node or a pod.

    ministack knows no variables in policies: that of the session tag, which says whose pod it is, is filled in as IAM
    does (IAM user guide, reference_policies_variables).
    """
    environments = {}

    def user(example, plan):
        if (example, plan) not in environments:
            documents = golden_policies(example, "NodePolicy", {STORES[example]: STORE})
            text = json.dumps(documents).replace(f"${{{ACCOUNT_KEY}}}", plan)
            environments[example, plan] = enforced.user(f"job-{plan}-{example}", json.loads(text))
        return environments[example, plan]

    return user


@pytest.fixture(params=STORES)
def node_user(request, job_user):
    """What the jobs of plan `a` may do."""
    return job_user(request.param, "a")


@pytest.fixture
def store_of(node_user, monkeypatch):
    for name, value in node_user.items():
        monkeypatch.setenv(name, value)
    return lambda uri=f"s3://{BUCKET}/jobs/a": Store(uri, timeout_s=60)


def test_agent_role_allows_writing_once_reading_and_listing(enforced, store_of):
    mine = store_of()
    for key in (*mine.sizes(), "claim.json"):
        enforced.owner.client("s3").delete_object(Bucket=BUCKET, Key=f"jobs/a/{key}")
    assert mine.put_new("step-2/manifest.json", b'{"step": 2}') is True
    assert mine.put_new("step-2/manifest.json", b'{"step": 3}') is False
    assert mine.read_bytes("step-2/manifest.json") == b'{"step": 2}'
    assert mine.sizes() == {"step-2/manifest.json": 11}
    assert mine.find_text("claim.json") is None
    first = mine.swap_text("claim.json", "one", before=None)
    assert mine.swap_text("claim.json", "two", before=None) is None
    assert mine.swap_text("claim.json", "two", before=first).text == "two"


@pytest.mark.parametrize(
    "uri,call",
    [
        (f"s3://{OTHERS}/jobs/a", lambda store: store.read_bytes("step-1/manifest.json")),
        (f"s3://{OTHERS}/jobs/a", lambda store: store.write_text("x", "x")),
        (f"s3://{OTHERS}/jobs/a", lambda store: store.sizes()),
        (f"s3://{BUCKET}/ledger", lambda store: store.read_bytes("entry.json")),
        (f"s3://{BUCKET}/ledger", lambda store: store.write_text("entry.json", "{}")),
        (f"s3://{BUCKET}/ledger", lambda store: store.sizes()),
    ],
)
def test_node_role_reaches_only_the_jobs_of_one_store(store_of, uri, call):
    with pytest.raises(StoreError, match="not authorized"):
        call(store_of(uri))


def test_node_role_forbids_deleting(store_of, node_user, boto):
    store_of().write_text("kept.json", "{}")
    s3 = boto(node_user, "s3")
    with pytest.raises(ClientError, match="not authorized"):
        s3.delete_object(Bucket=BUCKET, Key="jobs/a/kept.json")
    with pytest.raises(ClientError, match="not authorized"):
        s3.delete_bucket(Bucket=BUCKET)


SCRIPTS = f"slipway-hyperpod/{'0' * 64}"
"""A folder of lifecycle scripts; a golden template has the digest as a word."""
REFERENCES = {
    "NodeSecurityGroup": "sg-0123",
    "EksCluster": f"arn:aws:eks:{REGION}:{ID}:cluster/slipway",
    "ExportsOutputRefNetworkPrivateSubnet": "subnet-0123",
    "slipway-p5": "subnet-0123",
}


@pytest.fixture(scope="module", params=["hyperpod-p5-plan", "hyperpod-eks-p5en-spot"])
def hyperpod_node(request, enforced, golden_policies):
    """S3 as the instances of a HyperPod cluster reach it while they start, and the bucket of the CDK's assets."""
    region = "us-west-2" if "eks" in request.param else REGION
    bucket, owner = f"cdk-hnb659fds-assets-{ID}-{region}", enforced.owner.client("s3")
    owner.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    for key in (f"{SCRIPTS}/on_create.sh", f"{SCRIPTS}/lib/mount.sh", "0123abcd.zip", "slipway-hyperpod/other/x.sh"):
        owner.put_object(Bucket=bucket, Key=key, Body=b"#!/bin/bash")
    documents = golden_policies(request.param, "ExecutionRole", REFERENCES)
    text = json.dumps(documents).replace("<sha256>", SCRIPTS.rpartition("/")[2])
    user = enforced.user(f"node-{request.param}", json.loads(text))
    return user, bucket


def test_hyperpod_instance_fetches_lifecycle_scripts_and_no_other_asset(hyperpod_node, boto):
    user, bucket = hyperpod_node
    s3 = boto(user, "s3")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{SCRIPTS}/")["Contents"]
    assert {entry["Key"] for entry in listed} == {f"{SCRIPTS}/on_create.sh", f"{SCRIPTS}/lib/mount.sh"}
    assert all(s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read() for entry in listed)
    for key in ("0123abcd.zip", "slipway-hyperpod/other/x.sh"):
        with pytest.raises(ClientError, match="not authorized"):
            s3.get_object(Bucket=bucket, Key=key)
    with pytest.raises(ClientError, match="not authorized"):
        s3.list_objects_v2(Bucket=bucket)


@pytest.fixture(params=IN_PODS)
def pod_stores(request, job_user, boto):
    """S3 as the pods of a plan reach it, and as those of plan `b` do."""
    return boto(job_user(request.param, "a"), "s3"), boto(job_user(request.param, "b"), "s3")


def changes(s3, key):
    """Everything that changes an object, or leaves one: each may be refused."""
    tags = {"TagSet": [{"Key": "slipway", "Value": "superseded"}]}
    return {
        "put": lambda: s3.put_object(Bucket=BUCKET, Key=key, Body=b"x"),
        "upload": lambda: s3.create_multipart_upload(Bucket=BUCKET, Key=key),
        "tag": lambda: s3.put_object_tagging(Bucket=BUCKET, Key=key, Tagging=tags),
        "delete": lambda: s3.delete_object(Bucket=BUCKET, Key=key),
    }


@pytest.mark.parametrize(
    "key", ["jobs/a/step-3/part-0/w", "jobs/a/.runs/a-1/life.json", "jobs/ab/step-3/w", "jobs/.budget/stop.json"]
)
def test_pod_role_forbids_changing_objects_of_another_plan(enforced, pod_stores, key):
    enforced.owner.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"mine")
    of_b = pod_stores[1]
    for call in changes(of_b, key).values():
        with pytest.raises(ClientError, match="not authorized"):
            call()
    assert of_b.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"mine", "it may read it, to go on from it"


def test_pod_role_allows_the_own_journal_and_guard_messages(pod_stores):
    of_a = pod_stores[0]
    journal = changes(of_a, "jobs/a/.runs/a-1/seat.json")
    journal["put"]()
    journal["delete"]()
    of_a.put_object(Bucket=BUCKET, Key="jobs/.guard/6f1d0f80/messages/a-1-1.json", Body=b"{}")
    for key in ("jobs/.guard/6f1d0f80/sent/x", "jobs/.guard/6f1d0f80/state.json"):
        with pytest.raises(ClientError, match="not authorized"):
            changes(of_a, key)["put"]()


def test_node_role_is_shared_by_the_jobs_of_a_machine(job_user, boto):
    """What docs/security.md says of Slurm: IAM cannot tell one job of a machine from another."""
    for example in sorted(set(STORES) - set(IN_PODS)):
        boto(job_user(example, "b"), "s3").put_object(Bucket=BUCKET, Key="jobs/a/step-9/w", Body=b"x")


# ---------------------------------------------------------------------------------------------------------- the guard


@pytest.fixture(scope="module")
def guard_stack(enforced):
    """The id of the guard's own stack."""
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    stacks = enforced.owner.client("cloudformation")
    return stacks.create_stack(StackName="slipway-p5-spot-training", TemplateBody=body)["StackId"]


@pytest.fixture(scope="module")
def guard_calls(enforced, golden_policies, boto, guard_stack):
    """Clients under the guard's role, as the stack of an example makes it."""
    references = {"GuardrailsTopic": TOPIC, "GuardrailsGuardLog": LOG, "AWS::StackId": guard_stack}
    keys = enforced.user("guard", golden_policies("p5-spot", "GuardrailsGuardRole", references))
    return lambda service: boto(keys, service)


def test_guard_role_allows_looking_stopping_and_notifying(guard_calls, guard_stack):
    settings = {
        "CLUSTER": "p5-spot",
        "PARALLELCLUSTER": "slipway-p5-spot",
        "STACK": guard_stack,
        "TOPICS": TOPIC,
        "AWS_REGION": REGION,
        "STATE": STATE,
        "PREPAID": "false",
        "IDLE_MINUTES": "60",
    }
    with guard_module("guard") as module:
        guard = module.Guard(module.Settings.of(settings), guard_calls, datetime.now(UTC))
        assert guard.nodes() == []
        assert guard.deployed_at() <= datetime.now(UTC)
        guard.stop("its time is over", 2)
        guard.state = module.State.read(guard.ssm, STATE)
        guard.state.spent_usd += 12.5
        guard.store()
    assert json.loads(guard_calls("ssm").get_parameter(Name=STATE)["Parameter"]["Value"])["spent_usd"] == 12.5
    item = guard_calls("dynamodb").get_item(TableName=TABLE, Key={"Id": {"S": "COMPUTE_FLEET"}}, ConsistentRead=True)
    assert item["Item"]["Data"]["M"]["status"]["S"] == "STOP_REQUESTED"


def test_guard_role_forbids_all_other_calls(guard_calls):
    client = guard_calls
    for call in (
        lambda: client("dynamodb").delete_item(TableName=TABLE, Key={"Id": {"S": "COMPUTE_FLEET"}}),
        lambda: client("dynamodb").scan(TableName=TABLE),
        lambda: client("dynamodb").get_item(TableName="payroll", Key={"Id": {"S": "COMPUTE_FLEET"}}),
        lambda: client("sns").publish(TopicArn=f"arn:aws:sns:{REGION}:{ID}:payroll", Message="x"),
        lambda: client("ec2").terminate_instances(InstanceIds=["i-00000000"]),
        lambda: client("cloudformation").delete_stack(StackName="slipway-p5-spot-training"),
        lambda: client("s3").list_objects_v2(Bucket=BUCKET),
        lambda: client("ssm").put_parameter(Name=STATE.replace("p5-spot", "other"), Value="{}", Overwrite=True),
        lambda: client("ssm").delete_parameter(Name=STATE),
        lambda: client("iam").list_users(),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call()


# ----------------------------------------------------------------------------------------------------- CloudFormation


@pytest.fixture(scope="module")
def execution(enforced):
    """Whose calls CloudFormation's role would make for a ParallelCluster."""
    return enforced.user("execution", enforced.policies(*TARGET_POLICIES[TargetKind.PARALLELCLUSTER]))


def test_execution_role_creates_roles_with_slipway_names_only(enforced, execution, boto):
    iam = boto(execution, "iam")
    iam.create_role(RoleName="slipway-a", AssumeRolePolicyDocument=TRUST)
    iam.delete_role(RoleName="slipway-a")
    arn = enforced.account.policy_arn(BOUNDARY)
    for call in (
        lambda: iam.create_role(RoleName="payroll", AssumeRolePolicyDocument=TRUST),
        lambda: iam.create_user(UserName="mallory"),
        lambda: iam.create_access_key(UserName="execution"),
        lambda: iam.create_policy_version(PolicyArn=arn, PolicyDocument="{}", SetAsDefault=True),
        lambda: iam.attach_role_policy(RoleName="payroll", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess"),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call()


@pytest.mark.parametrize(
    "service,make",
    [
        ("logs", lambda client, name: client.create_log_group(logGroupName=name)),
        ("sns", lambda client, name: client.create_topic(Name=name)),
        (
            "s3",
            lambda client, name: client.create_bucket(
                Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
            ),
        ),
    ],
)
def test_execution_role_creates_resources_with_slipway_names_only(execution, boto, service, make):
    make(boto(execution, service), "slipway-a-made")
    with pytest.raises(ClientError, match="not authorized"):
        make(boto(execution, service), "payroll-made")


def test_permissions_boundary_limits_an_administrator(enforced, boto):
    """Somebody with every right, under the boundary."""
    owner = enforced.owner.client("iam")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    document = enforced.policies(BOUNDARY)[policy_name(BOUNDARY)]
    boundary_arn = owner.create_policy(PolicyName=policy_name(BOUNDARY), PolicyDocument=document)["Policy"]["Arn"]
    assert boundary_arn == enforced.account.policy_arn(BOUNDARY)
    keys = enforced.user("bounded", {"all": everything})
    boto(keys, "iam").create_user(UserName="before")
    owner.put_user_permissions_boundary(UserName="bounded", PermissionsBoundary=boundary_arn)
    boto(keys, "s3").put_object(Bucket=BUCKET, Key="jobs/x", Body=b"x")
    boto(keys, "sns").publish(TopicArn=TOPIC, Message="x")
    for call in (
        lambda: boto(keys, "iam").create_user(UserName="mallory"),
        lambda: boto(keys, "iam").create_access_key(UserName="bounded"),
        lambda: boto(keys, "iam").delete_user_permissions_boundary(UserName="bounded"),
        lambda: boto(keys, "iam").create_policy_version(
            PolicyArn=boundary_arn, PolicyDocument=json.dumps(everything), SetAsDefault=True
        ),
        lambda: boto(keys, "organizations").list_accounts(),
    ):
        with pytest.raises(ClientError, match="not authorized"):
            call()
