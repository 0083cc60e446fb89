"""Every call of a launch, of `down` and of the guides' commands is allowed to whoever runs them, on a plan's resources.

The requests name action, resource and context: those of the call itself and those that a service makes with the rights
of the caller. Dependent actions: UpdateCluster and CreateTrainingJob pass roles (SageMaker developer guide, API
permissions reference), and UpdateCluster adds and deletes nodes and updates their software, while the other calls on
HyperPod's nodes need nothing else (Service Authorization Reference of 2026, API operations of SageMaker);
UpdateComputeNodeGroup does what a creation does (PCS user guide, minimum permissions); a deletion of S3 objects in a
versioned bucket needs s3:DeleteObjectVersion; a session needs its document beside its node (Systems Manager user
guide). CloudFormation removes stacks with the role that made them (its user guide, DeleteStack).
"""

import json
import re
from dataclasses import replace
from typing import NamedTuple

import pytest

from launcher import plan_file
from launcher.aws import bootstrap
from launcher.catalog.assets import root
from launcher.model import administrator
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.model.request import OWN_QUALIFIER
from launcher.submit import session
from launcher.targets.ec2.files import log_group
from launcher.workflow.cluster.readback.training import GRANTING
from launcher.workflow.deploy.policies import PolicyRequest, policies_of
from tests.checks import some
from tests.infra.caused_calls import caused
from tests.infra.guarded_plans import BOUNDARY, ENDPOINTS, KINDS, RATE, guarded_plan
from tests.infra.iam import ACCOUNT, allows, fits, formats
from tests.infra.named_roles import ROLES
from tests.infra.printed_commands import printed_commands
from tests.infra.role_policies import Stack, roles
from tests.launcher_calls import AWS, FREE, RENAMED, calls

UNLIMITED = {
    *("application-autoscaling:DescribeScalableTargets", "application-autoscaling:DescribeScalingPolicies"),
    *("application-autoscaling:DescribeScheduledActions", "budgets:ViewBudget", "ce:GetCostAndUsage"),
    *("bcm-data-exports:GetExport", "bcm-data-exports:ListExports", "billing:GetCredits", "ce:ListCostAllocationTags"),
    *("cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks", "cloudformation:GetTemplate"),
    *("cloudformation:ListExports", "cloudformation:ListImports", "cloudformation:ListStackResources"),
    *("cloudwatch:DescribeAlarms", "cloudwatch:GetDashboard", "cloudwatch:GetMetricStatistics", "ecr:DescribeImages"),
    *("ec2:GetEbsDefaultKmsKeyId", "ec2:GetSpotPlacementScores"),
    *("eks:DescribeAddon", "eks:DescribeCluster", "eks:DescribeNodegroup", "eks:ListAssociatedAccessPolicies"),
    *("eks:ListClusters", "eks:ListPodIdentityAssociations", "elasticloadbalancing:DescribeLoadBalancers"),
    *("elasticloadbalancing:DescribeTags", "events:DescribeRule", "events:ListTargetsByRule"),
    *("fsx:DescribeDataRepositoryAssociations", "fsx:DescribeFileSystems", "iam:GetPolicy", "iam:GetPolicyVersion"),
    *("iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies"),
    *("iam:SimulatePrincipalPolicy", "kms:DescribeKey", "kms:GetKeyPolicy", "lambda:GetFunctionConfiguration"),
    *("lambda:GetFunctionEventInvokeConfig", "lambda:GetPolicy", "logs:DescribeLogGroups", "pricing:GetProducts"),
    *("sagemaker:DescribeCluster", "sagemaker:DescribeComputeQuota", "sagemaker:DescribeEndpoint"),
    *("sagemaker:DescribeEndpointConfig", "sagemaker:DescribeInferenceComponent", "sagemaker:DescribeModel"),
    *("sagemaker:DescribeTrainingPlan", "sagemaker:ListClusterNodes", "sagemaker:SearchTrainingPlanOfferings"),
    *("savingsplans:DescribeSavingsPlansOfferingRates", "servicequotas:ListAWSDefaultServiceQuotas"),
    *("servicequotas:ListServiceQuotas", "sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic"),
    *("ssm:DescribeInstanceInformation", "ssm:GetCommandInvocation", "sts:GetCallerIdentity"),
}
"""Calls that the policies allow on every resource; so are EC2's descriptions and the pricing calculator's calls."""
ON_STORE = {
    *("s3:GetBucketLogging", "s3:GetBucketPolicy", "s3:GetBucketPublicAccessBlock", "s3:GetEncryptionConfiguration"),
    *("s3:GetLifecycleConfiguration", "s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:ListBucketVersions"),
    "s3:DeleteBucket",
}
ON_OBJECTS = {
    *("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetObject", "s3:PutObject"),
    "s3:PutObjectTagging",
}
ADMINISTRATOR = {
    *("account enable-region", "ce update-cost-allocation-tags-status", "bcm-data-exports create-export"),
    *("budgets create-budget", "ec2 modify-ebs-default-kms-key-id", "ec2 reset-ebs-default-kms-key-id"),
    *("ec2 authorize-security-group", "ec2 modify-subnet-attribute", "eks associate-access-policy"),
    *("eks create-access-entry", "eks create-pod-identity-association", "iam attach-role-policy"),
    *("iam create-policy", "iam create-policy-version", "iam create-role", "iam create-service-linked-role"),
    *("kms cancel-key-deletion", "kms enable-key", "kms list-keys", "logs put-retention-policy"),
    *("service-quotas request-service-quota-increase",),
    # Of what a cluster's controllers created: no policy of Slipway's allows deletions in the account by these tags.
    *("ec2 delete-network-interface", "ec2 delete-security-group", "ec2 delete-volume"),
    *("elb delete-load-balancer", "elbv2 delete-load-balancer"),
}
"""Printed commands that change the account itself."""
PURCHASES = {
    *("ec2 describe-reserved-instances-offerings", "ec2 purchase-reserved-instances-offering"),
    *("ec2 purchase-capacity-block", "ec2 purchase-capacity-block-extension", "sagemaker create-training-plan"),
    *("savingsplans create-savings-plan", "savingsplans describe-savings-plans-offerings"),
}
"""Printed commands that buy capacity or find an offering."""
REMARKED_BY = {
    "launcher/aws/created_by_cluster.py": "launcher/workflow/doctor/leftovers.py",
    "launcher/aws/load_balancers.py": "launcher/workflow/doctor/leftovers.py",
    "launcher/aws/service_roles.py": "launcher/workflow/doctor/account.py",
    "launcher/pricing/commitment_choice.py": "launcher/answers/commit.py",
    "launcher/rendering/policies.py": "launcher/answers/policies.py",
    "launcher/workflow/doctor/offers.py": "launcher/answers/capacity.py",
}
"""The modules that print commands of others, with the remark on who runs them."""
LOG_READERS = {
    "cluster/endpoint.py": tuple(ENDPOINTS),
    "cluster/hyperpod_nodes.py": ("hyperpod-slurm", "hyperpod-eks"),
    "cluster/instance_jobs.py": ("ec2",),
    "deploy/failed_logs.py": ("hyperpod-slurm", "hyperpod-eks", *ENDPOINTS),
}
"""The modules of launcher/workflow that read lines of log groups, with the kinds whose groups they read."""
_READS_LOG = re.compile(r"\b(?:log_groups\.(?:last_lines|newest_lines)|problem_line)\(")


LOGINS = {"ec2": "node", "pcs": "login"}
"""The purposes of instances with Session Manager access, by kinds that tag them themselves."""


def document(place, name):
    """The ARN of a document of AWS."""
    return f"arn:aws:ssm:{place.partition(':')[0]}::document/{name}"


def sessions(place, node, context, *names):
    """A session on a node, with its documents."""
    yield "ssm:StartSession", node, context
    for name in (*names, session.INTERACTIVE, session.FORWARDING):
        yield "ssm:StartSession", document(place, name), {}
    yield "ssm:StartSession", f"arn:aws:ssm:{place}:document/SSM-SessionManagerRunShell", {}


def enter(kind, place, cluster):
    """The sessions and commands of a kind."""
    instance = f"arn:aws:ec2:{place}:instance/i-1"
    if kind == "parallelcluster":
        context = {"resourceTag/parallelcluster_cluster-name": f"slipway-{cluster}"}
    elif kind in LOGINS:
        context = {"resourceTag/slipway_machine": LOGINS[kind]}
    elif kind == "eks":
        context = {"resourceTag/eks_cluster-name": f"slipway-{cluster}"}
    elif kind.startswith("hyperpod"):
        node = f"arn:aws:sagemaker:{place}:cluster/abc123"
        yield from sessions(place, node, {}, session.DOCUMENT)
        return
    else:
        return
    yield from sessions(place, instance, context)
    yield "ec2:GetConsoleOutput", instance, {"ResourceTag/slipway_cluster": cluster}
    if kind == "eks":
        nodes = {"ResourceTag/eks_cluster-name": f"slipway-{cluster}"}
        yield from ((f"ec2:{call}", instance, nodes) for call in ("RebootInstances", "TerminateInstances"))
    if kind == "pcs":
        yield "ec2:TerminateInstances", instance, {"ResourceTag/slipway_machine": "node"}
    if kind != "eks":
        yield "ssm:SendCommand", instance, context
        yield "ssm:SendCommand", document(place, "AWS-RunShellScript"), {}


VIA_SERVICE = {"ViaAWSService": "true"}
"""The context of a request that a service makes with its caller's rights."""


class Own(NamedTuple):
    """What the calls for one kind are about."""

    plan: Plan
    stacks: list
    name: str
    place: str

    @property
    def tagged(self):
        return {"ResourceTag/slipway_cluster": self.plan.cluster_name}

    def role(self, part):
        """The ARN of the only role whose logical id has a part."""
        (role,) = [role for stack in self.stacks for role in stack.roles if part in role.logical_id]
        return role.arn


def dashboard_logs(stack):
    """The log groups that the text of a stack's dashboard names to the user."""
    for resource in stack.resources.values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            body = stack.value(resource["Properties"]["DashboardBody"])
            names = re.findall(r"the log group (that begins with )?`([^`]+)`", body)
            yield from (f"{name}x" if begins else name for begins, name in some(names))


def log_calls(place, group):
    """The calls that read a log group: the launcher's, and those of `aws logs tail`."""
    log = f"arn:aws:logs:{place}:log-group:{group}"
    for call in ("DescribeLogStreams", "FilterLogEvents"):
        yield from ((f"logs:{call}", f"{log}{end}", {}) for end in ("", ":*"))
    yield "logs:GetLogEvents", f"{log}:log-stream:x", {}


def parallelcluster_case(own):
    table = f"arn:aws:dynamodb:{own.place}:table/parallelcluster-{own.name}"
    for call in ("GetItem", "UpdateItem"):
        yield f"dynamodb:{call}", table, {"LeadingKeys": ["COMPUTE_FLEET"]}
    head = {"ResourceTag/parallelcluster_cluster-name": own.name}
    yield "ec2-instance-connect:SendSSHPublicKey", f"arn:aws:ec2:{own.place}:instance/i-1", head


def ec2_case(own):
    group = f"arn:aws:autoscaling:{own.place}:autoScalingGroup:8131d980:autoScalingGroupName/{own.name}"
    for call in ("DescribeAutoScalingGroups", "DescribeLifecycleHooks", "DescribeScalingActivities"):
        yield f"autoscaling:{call}", "*", {}
    for call in ("CreateOrUpdateTags", "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"):
        yield f"autoscaling:{call}", group, {}
    yield from log_calls(own.place, log_group(own.plan))
    for image in ("deeplearning/ami", "neuron/dlami"):
        yield "ssm:GetParameter", f"arn:aws:ssm:{own.plan.place.region}::parameter/aws/service/{image}/x", {}


def eks_case(own):
    yield from log_calls(own.place, f"/aws/eks/{own.name}/cluster")
    yield "eks:UpdateNodegroupConfig", f"arn:aws:eks:{own.place}:nodegroup/{own.name}/workers/8131d980", {}
    yield "sts:AssumeRole", own.role("EksAccess"), {}
    yield "logs:DeleteLogGroup", f"arn:aws:logs:{own.place}:log-group:/aws/eks/{own.name}/cluster", {}


def hyperpod_case(own):
    calls = ("UpdateCluster", "BatchAddClusterNodes", "BatchRebootClusterNodes", "BatchReplaceClusterNodes")
    with_update = ("BatchDeleteClusterNodes", "UpdateClusterSoftware")
    for call in (*calls, *with_update, "StartClusterHealthCheck"):
        yield f"sagemaker:{call}", f"arn:aws:sagemaker:{own.place}:cluster/abc123", own.tagged
    yield "sagemaker:ListClusterEvents", f"arn:aws:sagemaker:{own.place}:cluster/abc123", {}
    yield from log_calls(own.place, f"/aws/sagemaker/Clusters/{own.name}/abc123")
    for group in training_groups(own.stacks[-1]):
        yield "iam:PassRole", group, {"PassedToService": "sagemaker.amazonaws.com"}


def hyperpod_eks_case(own):
    yield from hyperpod_case(own)
    # What UpdateCluster makes with the rights of its caller (registry, update handler of AWS::SageMaker::Cluster).
    entry = f"arn:aws:eks:{own.place}:access-entry/{own.name}/role/{ACCOUNT}/slipway-x/8131d980"
    yield "eks:CreateAccessEntry", f"arn:aws:eks:{own.place}:cluster/{own.name}", VIA_SERVICE
    for call in ("AssociateAccessPolicy", "DeleteAccessEntry", "DescribeAccessEntry"):
        yield f"eks:{call}", entry, VIA_SERVICE
    yield from eks_case(own)


def pcs_case(own):
    from infra.stacks.pcs import LOG_TYPES

    controller = f"arn:aws:pcs:{own.place}:cluster/pcs_x"
    for call in ("GetCluster", "ListQueues", "ListComputeNodeGroups"):
        yield f"pcs:{call}", controller, {}
    queue, group = f"{controller}/queue/q", f"{controller}/computenodegroup/g"
    yield from (("pcs:GetQueue", queue, {}), ("pcs:GetComputeNodeGroup", group, {}))
    yield "pcs:DeleteQueue", queue, own.tagged
    for call in ("UpdateComputeNodeGroup", "DeleteComputeNodeGroup"):
        yield f"pcs:{call}", group, own.tagged
    yield "ssm:GetParameter", f"arn:aws:ssm:{own.plan.place.region}::parameter/aws/service/pcs/ami/x", {}
    for log_type in LOG_TYPES:
        yield from log_calls(own.place, f"/aws/vendedlogs/pcs/cluster/{log_type}/{own.name}")
    yield from caused("update_compute_node_group", own.place, own.name, own.stacks[-1])


def training_job_case(own):
    job = f"arn:aws:sagemaker:{own.place}:training-job/probe-x"
    yield "sagemaker:CreateTrainingJob", job, {"RequestTag/slipway_cluster": own.plan.cluster_name}
    yield "sagemaker:AddTags", job, {"TaggingAction": "CreateTrainingJob"}
    yield "sagemaker:StopTrainingJob", job, own.tagged
    yield from ((f"sagemaker:{call}", job, {}) for call in ("DescribeTrainingJob", "ListTags"))
    yield "sagemaker:ListTrainingJobs", "*", {}
    yield "logs:FilterLogEvents", f"arn:aws:logs:{own.place}:log-group:/aws/sagemaker/TrainingJobs:log-stream:x", {}
    yield "iam:PassRole", own.role("ExecutionRole"), {"PassedToService": "sagemaker.amazonaws.com"}


def endpoint_case(own):
    for call in ("InvokeEndpoint", "InvokeEndpointAsync"):
        yield f"sagemaker:{call}", f"arn:aws:sagemaker:{own.place}:endpoint/{own.name}", {}
    yield "sagemaker:InvokeEndpoint", f"arn:aws:sagemaker:{own.place}:inference-component/{own.name}", {}
    for kind in ("Endpoints", "InferenceComponents"):
        yield from log_calls(own.place, f"/aws/sagemaker/{kind}/{own.name}")
    yield "sagemaker:CallWithBearerToken", "*", {}


OWN = {
    "parallelcluster": parallelcluster_case,
    "ec2": ec2_case,
    "eks": eks_case,
    "hyperpod-slurm": hyperpod_case,
    "hyperpod-eks": hyperpod_eks_case,
    "pcs": pcs_case,
    "sagemaker-training": training_job_case,
    **dict.fromkeys(ENDPOINTS, endpoint_case),
}
"""The calls of a launch, a stop and a removal for one kind."""


def own(kind, plan, stacks):
    return OWN[kind](Own(plan, stacks, f"slipway-{plan.cluster_name}", f"{plan.place.region}:{ACCOUNT}"))


def share(plan, stacks):
    """The calls for every kind: deployment through the bootstrap, files of jobs, removal of stacks and of the store."""
    region, qualifier = plan.place.region, plan.request.security.qualifier or OWN_QUALIFIER
    for part in ("deploy", "file-publishing"):
        role = bootstrap.role_name(qualifier, part, ACCOUNT, region)
        yield "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/{role}", {}
    version = bootstrap.version_parameter(qualifier)
    yield "ssm:GetParameter", f"arn:aws:ssm:{region}:{ACCOUNT}:parameter{version}", {}
    yield "s3:ListBucket", f"arn:aws:s3:::{bootstrap.staging_bucket(qualifier, ACCOUNT, region)}", {}
    for stack in stacks:
        for group in dashboard_logs(stack):
            yield from log_calls(f"{region}:{ACCOUNT}", group)
        for call in ("DeleteStack", "UpdateTerminationProtection"):
            yield f"cloudformation:{call}", stack.pseudo["AWS::StackId"], {}
        for logical_id, resource in stack.resources.items():
            if resource["Type"] == "AWS::S3::Bucket":
                store = stack.arn(logical_id)
                yield from ((action, store, {}) for action in sorted(ON_STORE))
                yield from ((action, f"{store}/jobs/x", {}) for action in sorted(ON_OBJECTS))


def training_groups(stack):
    """The execution roles of a HyperPod cluster's groups."""
    (properties,) = [
        resource["Properties"] for resource in stack.resources.values() if resource["Type"] == "AWS::SageMaker::Cluster"
    ]
    return sorted({stack.value(group["ExecutionRole"]) for group in properties["InstanceGroups"]})


class Account(Stack):
    """A stack with its roles."""

    roles = ()


def stacks_of(assembly):
    """The stacks of an assembly, the training stack last."""
    found = [Account(file.removesuffix(".template.json"), template) for file, template in assembly.templates.items()]
    every = roles(assembly)
    for stack in found:
        stack.roles = [role for role in every if role.logical_id in stack.resources]
    return sorted(found, key=lambda stack: stack.name.endswith(("-training", "-serving")))


@pytest.fixture(scope="module", params=[(kind, limit) for kind in KINDS for limit in (None, BOUNDARY)], ids=str)
def person(request, synthesised, catalog):
    """The kind, the requests, the plan, and the policies that `slipway policies PLAN` writes for its user."""
    kind, limit = request.param
    assembly = synthesised(guarded_plan(kind, catalog, limit), **RATE)
    plan, stacks = assembly.plan, stacks_of(assembly)
    written = policies_of(PolicyRequest(account=ACCOUNT, region=plan.place.region), plan.request).person
    place = f"{plan.place.region}:{ACCOUNT}"
    requests = [
        *share(plan, stacks),
        *own(kind, plan, stacks),
        *enter(kind, place, plan.cluster_name),
    ]
    return kind, requests, [json.loads(policy.text) for policy in written]


def test_person_policy_allows_every_launcher_call(person):
    _, requests, documents = person
    refused = [
        (action, arn, context)
        for action, arn, context in [*some(requests), *((action, "*", {}) for action in UNLIMITED - FREE)]
        if not allows(documents, action, arn, **context)
    ]
    assert refused == []


def test_launcher_calls_use_resources_of_matching_kind(person):
    _, requests, _ = person
    for action, arn, _ in requests:
        sagemaker_node = action == "ssm:StartSession" and ":sagemaker:" in arn  # HyperPod's nodes are in no reference
        assert arn == "*" or sagemaker_node or any(fits(arn, form) for form in formats(action)), (action, arn)


def test_person_policy_refuses_resources_of_other_teams(person):
    kind, requests, documents = person
    for action, arn, context in requests:
        if action in UNLIMITED or arn == "*":
            continue
        # The same request for a resource with another name and without Slipway's tags.
        theirs = arn.replace("slipway", "payroll")
        if theirs != arn:
            assert not allows(documents, action, theirs), (kind, action, theirs)
        elif any("slipway" in str(value) or "Tag" in key or key == "ViaAWSService" for key, value in context.items()):
            assert not allows(documents, action, arn), (kind, action, arn)


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks", "sagemaker-training"])
def test_person_policy_passes_named_roles_only_to_sagemaker(kind, catalog):
    plan = guarded_plan(kind, catalog)
    security = replace(plan.request.security, roles=replace(plan.request.security.roles, nodes=ROLES["nodes"]))
    options = PolicyRequest(account=ACCOUNT, region=plan.place.region)
    written = policies_of(options, replace(plan.request, security=security)).person
    documents = [json.loads(policy.text) for policy in written]
    assert allows(documents, "iam:PassRole", ROLES["nodes"], PassedToService="sagemaker.amazonaws.com")
    assert not allows(documents, "iam:PassRole", ROLES["nodes"], PassedToService="ec2.amazonaws.com")
    assert not allows(documents, "iam:PassRole", ROLES["pods"], PassedToService="sagemaker.amazonaws.com")


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks", "sagemaker-training"])
def test_person_policies_lend_the_plans_key_only_to_sagemaker(kind, catalog):
    """CreateGrant comes through SageMaker, for its own volumes; no user may grant the key to someone else."""
    plan = guarded_plan(kind, catalog)
    key = f"arn:aws:kms:{plan.place.region}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    request = replace(plan.request, storage=replace(plan.request.storage, kms_key_arn=key))
    written = policies_of(PolicyRequest(account=ACCOUNT, region=plan.place.region), request).person
    documents = [json.loads(policy.text) for policy in written]
    via = {"ViaService": f"sagemaker.{plan.place.region}.amazonaws.com"}
    assert allows(documents, "kms:CreateGrant", key, GrantIsForAWSResource="true", **via)
    assert allows(documents, "kms:DescribeKey", key, **via)
    assert not allows(documents, "kms:CreateGrant", key, GrantIsForAWSResource="false", **via)
    assert not allows(documents, "kms:CreateGrant", key, GrantIsForAWSResource="true")
    assert not allows(
        documents, "kms:CreateGrant", key.replace("1234abcd", "9999abcd"), GrantIsForAWSResource="true", **via
    )


def test_person_policy_limits_sessions_to_named_hyperpod_clusters():
    own, other = (f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:cluster/{name}" for name in ("abc123", "def456"))
    options = PolicyRequest(account=ACCOUNT, region="us-east-2", hyperpods=(own,))
    for limited in (True, False):
        written = policies_of(options if limited else replace(options, hyperpods=()))
        documents = [json.loads(policy.text) for policy in written.person]
        assert allows(documents, "ssm:StartSession", own)
        assert allows(documents, "ssm:StartSession", other) != limited
        # Its documents stay allowed.
        assert allows(documents, "ssm:StartSession", document("us-east-2", "AWS-StartNonInteractiveCommand"))


@pytest.mark.parametrize(
    "target, regions",
    [
        ("kind: hyperpod-slurm, region: us-east-2", ["us-east-2"]),
        ("kind: hyperpod-eks, region: [us-west-2, us-east-2]", ["us-east-2", "us-west-2"]),
        ("kind: [eks, hyperpod-eks]", ["*"]),
        ("kind: any", ["*"]),
        ("kind: pcs, region: us-east-2", []),
        ("kind: [ec2, sagemaker-training]", []),
    ],
)
def test_sessions_on_hyperpod_reach_no_further_than_the_plan(tmp_path, target, regions):
    file = tmp_path / "plan.yaml"
    file.write_text(f"slipway: 1\nname: job\ntarget: {{{target}}}\n")
    written = policies_of(PolicyRequest(account=ACCOUNT, region="us-east-2"), plan_file.load(file)).person
    statements = [statement for policy in written for statement in json.loads(policy.text)["Statement"]]
    reached = [statement["Resource"] for statement in statements if "ssm:StartSession" in statement["Action"]]
    clusters = sorted(arn for arns in reached for arn in arns if ":sagemaker:" in arn)
    assert clusters == [f"arn:aws:sagemaker:{region}:{ACCOUNT}:cluster/*" for region in regions]


def bill_reads(bucket, key, context):
    """The calls of `report --billed --export`, with KMS's for objects that have a key (S3 user guide, SSE-KMS)."""
    yield "s3:ListBucket", f"arn:aws:s3:::{bucket}", {}
    yield "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", {}
    via = {"ViaService": "s3.eu-west-1.amazonaws.com", "EncryptionContext_aws_s3_arn": f"arn:aws:s3:::{context}"}
    yield "kms:Decrypt", "arn:aws:kms:eu-west-1:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890ab", via


@pytest.mark.parametrize("place", ["s3://bills", "s3://bills/cur/export", "s3://bills/cur/export/data.csv.gz"])
def test_named_billing_export_is_readable_with_the_key_of_its_bucket(place):
    options = PolicyRequest(account=ACCOUNT, region="us-east-2", exports=(place,))
    for request, readable in ((options, True), (replace(options, exports=()), False)):
        documents = [json.loads(policy.text) for policy in policies_of(request).person]
        file = "cur/export/data.csv.gz"
        # An object, and an object below a bucket key.
        for context in (f"bills/{file}", "bills"):
            for action, arn, more in bill_reads("bills", file, context):
                assert allows(documents, action, arn, **more) == readable, (action, arn)
        if place != "s3://bills":
            assert not allows(documents, "s3:GetObject", f"arn:aws:s3:::{place.removeprefix('s3://')}ious/data.csv.gz")
        for action, arn, more in bill_reads("payroll", file, f"payroll/{file}"):
            assert not allows(documents, action, arn, **more), (action, arn)
        key = f"arn:aws:kms:us-east-2:{ACCOUNT}:key/1"
        assert not allows(documents, "kms:Decrypt", key, ViaService="s3.us-east-2.amazonaws.com")


def test_too_many_hyperpod_clusters_for_policy_refused():
    named = tuple(f"arn:aws:sagemaker:us-east-2:{ACCOUNT}:cluster/{n:012}" for n in range(90))
    with pytest.raises(ImpossibleError, match="SlipwayHyperPodJobs has") as refused:
        policies_of(PolicyRequest(account=ACCOUNT, region="us-east-2", hyperpods=named))
    assert "name fewer HyperPod clusters" in str(refused.value.hint)


@pytest.fixture(scope="module")
def tables(synthesised, catalog):
    """The actions of the requests for each kind."""
    actions = {}
    for kind in KINDS:
        assembly = synthesised(guarded_plan(kind, catalog, None), **RATE)
        stacks, plan = stacks_of(assembly), assembly.plan
        place = f"{plan.place.region}:{ACCOUNT}"
        every = [*share(plan, stacks), *own(kind, plan, stacks), *enter(kind, place, plan.cluster_name)]
        actions[kind] = {action for action, _, _ in every} | UNLIMITED
    return actions


def test_call_tables_list_every_launcher_call(tables):
    """A call that is added to launcher/aws gets its resource here."""
    listed = set().union(ON_STORE, ON_OBJECTS, GRANTING, *tables.values())
    called = {RENAMED.get(call, call) for path in sorted(AWS.glob("*.py")) for call in calls(path)} - {None}
    rest = {call for call in called - listed if not call.startswith(("ec2:Describe", "bcm-pricing-calculator:"))}
    # The document of logged sessions, which the reference lists under ssm:StartSession's documents.
    assert rest == {"ssm:GetDocument"}


def test_call_tables_list_reads_of_logs_for_every_kind_whose_log_is_read(tables):
    folder = root() / "launcher/workflow"
    readers = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if _READS_LOG.search(path.read_text(encoding="utf-8"))
    }
    assert readers == set(LOG_READERS)
    for kinds in LOG_READERS.values():
        assert all({"logs:DescribeLogStreams", "logs:GetLogEvents"} <= tables[kind] for kind in kinds)


def test_call_tables_list_every_printed_command(tables):
    """A command line that a user of a kind reads is allowed to the user, or an administrator's, or a purchase."""
    others = set().union(*tables.values())
    unlisted = [
        (path, words, kind)
        for path, kinds, words, action in some(printed_commands())
        if words not in ADMINISTRATOR | PURCHASES and not action.startswith("ec2:Describe")
        for kind in kinds or (None,)
        if action not in tables.get(kind, others)
    ]
    assert unlisted == []


def test_every_printed_command_of_an_administrator_has_the_remark():
    printed = {path for path, _, words, _ in some(printed_commands()) if words in ADMINISTRATOR | PURCHASES}
    without = [
        path
        for path in sorted(printed)
        if administrator.__name__ not in (root() / REMARKED_BY.get(path, path)).read_text(encoding="utf-8")
    ]
    assert without == []
    assert set(REMARKED_BY) <= printed
