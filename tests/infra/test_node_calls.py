"""Every call that a node, a pod or a container of a job makes is allowed to its role, with and without the boundary.

The calls are those of the agent, of the scripts that set up a node, and of the job's start. Pulling an image needs the
registry's token and its layers; an object in a bucket with a key of the account's needs the key.
"""

import ast
import json
import re
from dataclasses import replace

import pytest

from launcher.catalog.assets import asset, root
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.monitoring import STORE_TAG, SUPERSEDED
from launcher.planning.pin import pinned_plan
from launcher.workflow.deploy.policies import PolicyRequest, policies_of
from tests.checks import some
from tests.infra.guarded_plans import BOUNDARY, NAMES, RATE, guarded_plan
from tests.infra.iam import ACCOUNT, allows
from tests.infra.role_policies import REGION, STORE, UUID, aws_managed, managed_policies, roles

SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:hf-token-AbCdEf"
PARAMETER = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/team/token"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
KEY_OF_VALUES = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/9876fedc-12ab-34cd-56ef-1234567890ab"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/mine:1"
SERVICES = {"ec2.amazonaws.com", "pods.eks.amazonaws.com", "sagemaker.amazonaws.com"}
AGENT = {"get_object", "list_objects_v2", "put_object", "put_object_tagging"}
"""boto3's methods that the agent calls; uploads in parts are s3transfer's."""
COMMANDS = {
    "autoscaling complete-lifecycle-action",
    "autoscaling set-desired-capacity",
    "autoscaling terminate-instance-in-auto-scaling-group",
    "cloudwatch put-metric-data",
    "ec2 describe-instances",
    "ecr get-login-password",
    "logs create-log-stream",
    "logs put-log-events",
    "s3 cp",
    "s3 ls",
    "secretsmanager get-secret-value",
    "ssm get-parameter",
}
"""Commands of the AWS CLI in the scripts of nodes."""
NOT_ON_NODES = ("serving/compile.sh.j2", "parallelcluster/image.yaml.j2", "guard/")
"""A script for a computer of the user, comments for the user, and the guard's own code (test_guard_calls.py)."""
_CLI = re.compile(r'\baws\b["\'(]*,? ?["\']?([a-z0-9]+)["\']?,? ["\']?([a-z]+(?:-[a-z]+)*)')
WITHOUT_IMAGES = ("hyperpod-slurm", "pcs")
"""Kinds whose image has no program that runs containers."""
VIA_S3 = {"ViaService": f"s3.{REGION}.amazonaws.com"}


def test_call_table_lists_every_call_of_agent():
    called = set()
    for path in (root() / "launcher/agent").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                called |= {node.attr} if node.value.attr == "_client" else set()
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get_paginator":
                called.add(ast.literal_eval(node.args[0]))
    assert called - {"get_paginator", "meta"} == AGENT


def test_call_table_lists_every_command_of_node_scripts():
    found = set()
    folder = asset("templates")
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix not in (".sh", ".j2", ".py") or name.startswith(NOT_ON_NODES):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.lstrip().startswith("#"):
                found |= {" ".join(words) for words in _CLI.findall(line)}
    assert {words for words in found if words.split()[0] in {command.split()[0] for command in COMMANDS}} == COMMANDS


def job_calls(store, plan):
    """What a job does: its checkpoints and journal, its secrets."""
    own = f"{store}/jobs/{plan.name}/step-1/w"
    yield "s3:ListBucket", store, {"prefix": f"jobs/{plan.name}/step-1/"}
    for action in ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"):
        yield action, own, {}
    yield "s3:PutObjectTagging", own, {f"RequestObjectTag/{STORE_TAG}": SUPERSEDED}
    yield "s3:PutObject", f"{store}/jobs/.guard/{UUID}/messages/x.json", {}
    # The agent reads an earlier attempt's heartbeat, and lists it if S3 denies it (launcher/agent/store/heartbeat.py).
    for action in ("s3:PutObject", "s3:GetObject"):
        yield action, f"{store}/jobs/.guard/{UUID}/messages/running/run-0.json", {}
    yield "s3:ListBucket", store, {"prefix": f"jobs/.guard/{UUID}/messages/running/run-0.json"}
    for key in (f".guard/{UUID}/sent/guard-stop.json", f".budget/{UUID}/100.json"):
        yield "s3:GetObject", f"{store}/jobs/{key}", {}
        yield "s3:ListBucket", store, {"prefix": f"jobs/{key}"}
    yield "secretsmanager:GetSecretValue", SECRET, {}
    yield "ssm:GetParameter", PARAMETER, {}
    yield from decryptions()
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        yield action, KEY, VIA_S3


def decryptions(secret=SECRET, parameter=PARAMETER, key=KEY_OF_VALUES):
    """What Secrets Manager and Parameter Store do with the reader's rights for values with a key of their own."""
    via = {"ViaService": f"secretsmanager.{REGION}.amazonaws.com", "EncryptionContext_SecretARN": secret}
    yield "kms:Decrypt", key, via
    yield (
        "kms:Decrypt",
        key,
        {"ViaService": f"ssm.{REGION}.amazonaws.com", "EncryptionContext_PARAMETER_ARN": parameter},
    )


def boot_calls(store, plan):
    """The report of a boot."""
    yield "s3:PutObject", f"{store}/jobs/.guard/{UUID}/messages/boots/x-failed.txt", {}
    yield "kms:GenerateDataKey", KEY, VIA_S3


def volume_calls():
    """What SageMaker does with the execution role for a root volume's key (developer guide, smcluster-cmk)."""
    via = {"ViaService": f"sagemaker.{REGION}.amazonaws.com"}
    yield "kms:CreateGrant", KEY, {**via, "GrantIsForAWSResource": "true"}
    yield "kms:DescribeKey", KEY, via


def pulls():
    yield "ecr:GetAuthorizationToken", "*", {}
    for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"):
        yield action, f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/mine", {}


def reports(plan):
    yield "cloudwatch:PutMetricData", "*", {"namespace": f"Slipway/Nodes/{plan.cluster_name}"}


def instance_calls(store, plan):
    """What an instance of a job without a cluster does with its group, its log and the job's files."""
    place, name = f"{plan.place.region}:{ACCOUNT}", f"slipway-{plan.cluster_name}"
    group = f"arn:aws:autoscaling:{place}:autoScalingGroup:8131d980:autoScalingGroupName/{name}"
    for call in ("CompleteLifecycleAction", "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"):
        yield f"autoscaling:{call}", group, {"ResourceTag/slipway_cluster": plan.cluster_name}
    yield "ec2:DescribeInstances", "*", {}
    for call in ("CreateLogStream", "PutLogEvents"):
        yield f"logs:{call}", f"arn:aws:logs:{place}:log-group:{name}-instances:log-stream:i-1", {}


def calls(kind, service, store, plan):
    """The calls of a role of a kind that a service assumes for its nodes or pods."""
    if service == "pods.eks.amazonaws.com":
        yield from job_calls(store, plan)
    elif kind == "eks":
        yield from (*boot_calls(store, plan), *pulls())
    elif kind != "hyperpod-eks":
        yield from (*job_calls(store, plan), *(() if kind in WITHOUT_IMAGES else pulls()))
    if kind.startswith("hyperpod") and service == "sagemaker.amazonaws.com":
        yield from volume_calls()
    if kind in ("parallelcluster", "pcs"):
        yield from boot_calls(store, plan)
    if kind == "ec2":
        yield from instance_calls(store, plan)
    if kind in ("parallelcluster", "pcs", "hyperpod-slurm"):
        yield from reports(plan)


def plan_with_everything(kind, catalog, limit):
    """A guarded plan whose job has secrets, an image and a key."""
    plan = guarded_plan(kind, catalog, limit)
    image = None if kind in WITHOUT_IMAGES else IMAGE
    run = replace(plan.request.run, secrets={"HF_TOKEN": SECRET, "TOKEN": PARAMETER}, image=image)
    storage = replace(plan.request.storage, kms_key_arn=KEY.replace(REGION, plan.place.region))
    return pinned_plan(replace(plan.request, run=run, storage=storage), catalog)


@pytest.fixture(scope="module", params=[(kind, limit) for kind in NAMES for limit in (None, BOUNDARY)], ids=str)
def nodes(request, synthesised, catalog):
    """The kind, the plan, the service and policies of each role of nodes and pods, and the boundary or None."""
    kind, limit = request.param
    assembly = synthesised(plan_with_everything(kind, catalog, limit), **RATE)
    if kind == "parallelcluster":
        own = [document for name, document in managed_policies(assembly).items() if "ProviderAccess" not in name]
        found = [("ec2.amazonaws.com", [aws_managed("CloudWatchAgentServerPolicy"), *own])]
    else:
        found = [
            (service, role.documents)
            for role in roles(assembly)
            for service in set(role.services) & SERVICES
            if "Operator" not in role.logical_id
        ]
    document = None
    if limit is not None:
        options = PolicyRequest(account=ACCOUNT, region=assembly.plan.place.region)
        document = json.loads(policies_of(options, assembly.plan.request).boundary.text)
    return kind, assembly.plan, found, document


def test_node_role_allows_every_node_call(nodes):
    kind, plan, found, limit = nodes
    refused = []
    for service, documents in some(found):
        # The session tag that says whose pod it is.
        text = json.dumps(documents).replace(f"${{{ACCOUNT_KEY}}}", plan.name)
        tag = {ACCOUNT_KEY.partition(":")[2].replace(":", "_"): plan.name}
        for action, arn, context in calls(kind, service, STORE, plan):
            where = arn.replace(REGION, plan.place.region) if arn == KEY else arn
            if not allows(json.loads(text), action, where, boundary=limit, **{**tag, **context}):
                refused.append((service, action, where))
    assert refused == []


def test_every_target_kind_has_job_role(nodes):
    kind, plan, found, _ = nodes
    made = [call for service, _ in found for call in calls(kind, service, STORE, plan)]
    assert {"s3:PutObject", "secretsmanager:GetSecretValue", "kms:GenerateDataKey"} <= {action for action, _, _ in made}


def test_node_role_decrypts_no_value_of_others_and_uses_no_key_directly(nodes):
    _, _, found, _ = nodes
    others = decryptions(secret=f"{SECRET}-2", parameter=f"{PARAMETER}/of/payroll")
    for action, arn, context in [*others, ("kms:Decrypt", KEY_OF_VALUES, {})]:
        assert not any(allows(documents, action, arn, **context) for _, documents in some(found)), context
