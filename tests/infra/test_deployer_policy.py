"""The policies of `slipway policies` against AWS's own: the registry's handlers, IAM's actions, what stacks make."""

import csv
import io
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from launcher.catalog.permissions import HANDLERS
from launcher.catalog.tables import SNAPSHOT, read_cells
from launcher.model.enums import TargetKind
from launcher.rendering.policies import (
    BOUNDARY,
    DOCTOR,
    MAX_CHARACTERS,
    MAX_POLICIES,
    PERSON,
    STORE,
    PolicyAccount,
    execution_policies,
    render_policy,
)
from launcher.targets.registry import TARGETS
from tests.checks import some
from tests.infra import registry
from tests.infra.conftest import EC2_FILES, EKS_FILES, FILES
from tests.infra.deployer import FREE, PERMISSIONS, allowed_types, policy, refused, types
from tests.infra.iam import ACCOUNT, actions, allows, formats, misplaced, starred, unknown_actions
from tests.infra.iam_names import PROVIDER, made, nested

OWN = f"arn:aws:iam::{ACCOUNT}:policy/SlipwayBoundary"
BOUND = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=OWN)
PERSONAL = tuple(name for target in TARGETS.values() for name in target.person)
NAMES = (*execution_policies(), PERSON, DOCTOR, STORE, *PERSONAL, BOUNDARY)


class TestRegistry:
    """The actions are those of CloudFormation's registry, as cfn-lint of the lock carries it."""

    def test_listed_handler_actions_equal_registry(self):
        listed = {}
        for row in read_cells(HANDLERS):
            if row["basis"] == "listed":
                listed.setdefault(row["resource_type"], {})[row["action"]] = row["handlers"]
        for resource_type in some(PERMISSIONS.handlers):
            assert listed.get(resource_type, {}) == registry.handlers(resource_type), resource_type

    def test_derived_handlers_are_absent_from_registry(self):
        derived = {row["resource_type"] for row in read_cells(HANDLERS) if row["basis"] == "derived"}
        assert derived == {handler for handler in PERMISSIONS.handlers if not registry.handlers(handler)}
        sources = {row["id"] for row in read_cells("sources.csv")}
        assert {row["source"] for row in read_cells(HANDLERS)} <= sources

    def test_every_policy_resource_type_has_handlers(self):
        assert {type_ for facts in PERMISSIONS.policies for type_ in facts.types} == set(PERMISSIONS.handlers)

    def test_every_omitted_action_exists_and_has_reason(self):
        for omission in some(PERMISSIONS.omissions):
            assert omission.because
            for pattern in omission.patterns:
                hits = [a for t in omission.types for a in PERMISSIONS.handlers[t] if fnmatchcase(a, pattern)]
                assert hits, (omission.types, pattern)

    def test_handler_file_is_sorted(self):
        text = (SNAPSHOT / HANDLERS).read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(text)))
        assert rows[1:] == sorted(rows[1:])


class TestSizes:
    def test_policies_with_longest_account_names_fit_iam_limit(self):
        long = PolicyAccount(
            id=ACCOUNT,
            partition="aws-us-gov",
            qualifier="q" * 10,
            boundary_arn=f"arn:aws-us-gov:iam::{ACCOUNT}:policy/{'b' * 128}",
            data_buckets=("d" * 63,) * 3,
        )
        for name in NAMES:
            rendered = render_policy(PERMISSIONS, name, long)
            assert rendered.characters == len(re.sub(r"\s", "", rendered.text))
            assert rendered.characters <= MAX_CHARACTERS == 6144, name

    def test_execution_policies_fit_role_attachment_limit(self):
        assert len(execution_policies()) <= MAX_POLICIES == 10


class TestReference:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_policy_action_exists_in_iam(self, name):
        assert unknown_actions(policy(name)) == []

    @pytest.mark.parametrize("name", NAMES)
    def test_every_policy_action_matches_resource_kind(self, name):
        assert misplaced(policy(name)) == []

    @pytest.mark.parametrize("name", execution_policies())
    def test_policy_actions_have_no_unexpected_wildcards(self, name):
        wild = {action for action in actions(policy(name)) if "*" in action}
        assert wild <= {"kms:GenerateDataKey*", "s3:Get*", "s3:List*"}

    def test_avoidable_star_resources_are_listed(self):
        everywhere = set().union(*(starred(policy(name)) for name in execution_policies()))
        other_actions = {action for action in everywhere if not action.startswith("ec2:")}
        # CloudFormation asks for alarms by name and for metrics by none; neither takes a resource in its request.
        assert other_actions == {"cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData"}

    def test_policies_equal_golden(self, golden):
        for name in NAMES:
            golden(f"policies/{name}.json", render_policy(PERMISSIONS, name, FREE).text)


class TestNobodyIsAnAdministrator:
    @pytest.mark.parametrize("name", NAMES[:-1])
    def test_policies_cannot_be_rewritten_by_limited_roles(self, name):
        for policy_name in NAMES:
            arn = FREE.policy_arn(policy_name)
            for action in ("iam:CreatePolicyVersion", "iam:DeletePolicyVersion", "iam:DeletePolicy"):
                assert not allows([policy(name)], action, arn)

    @pytest.mark.parametrize("name", execution_policies())
    def test_roles_cannot_be_created_without_boundary(self, name):
        for role in ("slipway-x-training-Role-x", "ParallelClusterLambdaRole-8131d980"):
            arn = f"arn:aws:iam::{ACCOUNT}:role/{role}"
            for action in ("iam:CreateRole", "iam:PutRolePolicy", "iam:PutRolePermissionsBoundary"):
                assert not allows([policy(name, BOUND)], action, arn)
                assert not allows([policy(name, BOUND)], action, arn, PermissionsBoundary="arn:aws:iam::x:policy/o")
            assert not allows([policy(name, BOUND)], "iam:DeleteRolePermissionsBoundary", arn)

    @pytest.mark.parametrize("name", execution_policies())
    def test_administrator_policies_cannot_be_attached(self, name):
        for arn in ("arn:aws:iam::aws:policy/AdministratorAccess", f"arn:aws:iam::{ACCOUNT}:policy/team"):
            role = f"arn:aws:iam::{ACCOUNT}:role/slipway-x"
            assert not allows([policy(name)], "iam:AttachRolePolicy", role, PolicyARN=arn)

    @pytest.mark.parametrize("kind", ["pcs", "hyperpod"])
    def test_cloudformation_changes_only_tagged_resources_that_aws_names(self, kind):
        document, own = policy(kind), {"ResourceTag/slipway_cluster": "x"}
        changes = [
            (action, re.sub(r"\$\{[^}]*\}", "x", form.replace("${Account}", ACCOUNT).replace("${Partition}", "aws")))
            for action in actions(document)
            if re.match(r"(fsx|pcs|sagemaker):(Batch)?(Delete|Untag|Update)", action)
            for form in formats(action)
            if re.search(r":(association|cluster[a-z-]*|compute-quota|file-system)/", form)
        ]
        assert len(changes) > 10
        for action, arn in changes:
            assert allows([document], action, arn, **own), (action, arn)
            assert not allows([document], action, arn), (action, arn)

    def test_cluster_update_is_allowed_on_untagged_training_plan(self):
        arn = f"arn:aws:sagemaker:us-east-2:{ACCOUNT}"
        for part in ("training-plan/x", "reserved-capacity/x"):
            assert allows([policy("hyperpod")], "sagemaker:UpdateCluster", f"{arn}:{part}")
            assert not allows([policy("hyperpod")], "sagemaker:DeleteCluster", f"{arn}:{part}")

    def test_boundary_allows_creating_roles_only_under_boundary(self):
        limit = policy(BOUNDARY)
        node = f"arn:aws:iam::{ACCOUNT}:role/parallelcluster/slipway-x/y"
        assert allows([limit], "iam:CreateRole", node, PermissionsBoundary=FREE.policy_arn(BOUNDARY))
        assert not allows([limit], "iam:CreateRole", node)
        assert not allows([limit], "iam:CreateUser", "*")
        assert not allows([limit], "organizations:LeaveOrganization", "*")


def logged_plan(kind):
    """A cluster whose shells are logged."""
    return (
        f"slipway: 1\nname: logged\npurchase: {{option: on-demand}}\nsecurity: {{session_log: true}}\n"
        f"target: {{kind: {kind}, region: us-east-2, az_id: use2-az1, instance_type: p5.48xlarge, nodes: 2}}\n"
    )


@pytest.mark.parametrize("account", [FREE, BOUND], ids=["free", "bounded"])
class TestStacks:
    """What every example's stacks make, under the names that CloudFormation gives it."""

    def test_execution_policies_allow_resources_of_examples(self, example_of_kind, account):
        kind, stacks = example_of_kind
        requests = made(stacks)
        assert refused(TargetKind(kind), requests, account) == []
        # Of the logs of control planes.
        needed = {"pcs": "logs:PutResourcePolicy", "eks": "iam:CreateServiceLinkedRole"}.get(kind)
        assert needed is None or needed in {action for action, _, _ in requests}

    @pytest.mark.parametrize("kind", ["parallelcluster", "eks", "hyperpod-slurm", "hyperpod-eks"])
    def test_execution_policies_allow_session_log_resources(self, synthesised, account, kind):
        logged = synthesised(logged_plan(kind))
        assert refused(TargetKind(kind), made(logged), account) == []
        assert types(logged) <= allowed_types(TargetKind(kind))

    def test_execution_policies_allow_parallelcluster_provider_stacks(self, account):
        resources = nested(with_role=account.boundary_arn is None)
        assert len(resources) > 20
        assert refused(TargetKind.PARALLELCLUSTER, resources, account) == []


class TestTypes:
    def test_allowed_types_include_types_of_examples(self, example_of_kind):
        kind, stacks = example_of_kind
        assert types(stacks) <= allowed_types(TargetKind(kind))

    def test_resources_that_the_policies_know_by_tag_carry_it_in_examples(self, example_of_kind):
        _, stacks = example_of_kind
        for template in stacks.templates.values():
            for name, resource in template["Resources"].items():
                if re.match(r"AWS::(FSx|PCS)::|AWS::SageMaker::(Cluster|ComputeQuota)", resource["Type"]):
                    tags = resource["Properties"]["Tags"]
                    keys = tags if isinstance(tags, dict) else {tag["Key"] for tag in tags}
                    assert "slipway:cluster" in keys, name

    def test_every_type_of_eks_policy_occurs_in_examples(self, synthesised, plan_at):
        occurring = set().union(*(types(synthesised(plan_at(path))) for path in EKS_FILES.values()))
        assert set(PERMISSIONS.policy("eks").types) - occurring == set()

    def test_every_allowed_type_is_created_by_some_stack(self, synthesised, plan_at):
        made_types = {resource["type"] for part in ("provider", "policies") for resource in PROVIDER[part]}
        kinds = ("parallelcluster", "hyperpod-slurm", "hyperpod-eks")
        for path in (path for kind in kinds for path in FILES[kind].values()):
            made_types |= types(synthesised(plan_at(path)))
        made_types |= types(synthesised(plan_at(EC2_FILES["nat-instance"])))
        clusters = allowed_types(TargetKind.PARALLELCLUSTER) | allowed_types(TargetKind.HYPERPOD_SLURM)
        assert clusters - made_types <= {"AWS::IAM::Policy"}


def test_deployer_policy_page_names_every_policy():
    page = (Path(__file__).resolve().parents[2] / "docs/deployer-policy.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert FREE.policy_arn(name).rpartition("/")[2] in page


def trial_launch(placed, *, reserved):
    """Action, ARN and context of the launch that EC2 checks for the maker of a group (EC2 Auto Scaling user guide).

    The resources are those of RunInstances in the Service Authorization Reference.
    """
    ec2, own = f"arn:aws:ec2:us-east-2:{ACCOUNT}", {"CreateAction": "RunInstances"}
    kinds = ["instance/*", "volume/*", "network-interface/*", "subnet/subnet-1", "security-group/sg-1"]
    kinds += ["launch-template/lt-1", *(["placement-group/x"] if placed else [])]
    kinds += ["capacity-reservation/cr-0123456789abcdef0"] if reserved else []
    for kind in kinds:
        yield "ec2:RunInstances", f"{ec2}:{kind}", {}
    yield "ec2:RunInstances", "arn:aws:ec2:us-east-2::image/ami-1", {}
    for kind in ("instance", "volume", "network-interface"):
        yield "ec2:CreateTags", f"{ec2}:{kind}/*", own
    yield "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/slipway-x", {"PassedToService": "ec2.amazonaws.com"}


@pytest.mark.parametrize("account", [FREE, BOUND], ids=["free", "bounded"])
@pytest.mark.parametrize("reserved", [False, True], ids=["open", "targeted"])
def test_deployer_policies_allow_trial_launch_in_reservation_and_placement_group(account, reserved):
    assert refused(TargetKind.EC2, trial_launch(placed=True, reserved=reserved), account) == []


@pytest.mark.parametrize("account", [FREE, BOUND], ids=["free", "bounded"])
def test_endpoint_policies_allow_grants_of_volume_key_only_for_aws_resources(account):
    """CreateEndpoint needs kms:CreateGrant where its configuration names a key (SageMaker API permissions)."""
    key = f"arn:aws:kms:us-east-2:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    granted = ("kms:CreateGrant", key, {"GrantIsForAWSResource": "true"})
    other = ("kms:CreateGrant", key, {"GrantIsForAWSResource": "false"})
    assert refused(TargetKind.SAGEMAKER_ENDPOINT, [("kms:DescribeKey", key, {}), granted, other], account) == [other]
