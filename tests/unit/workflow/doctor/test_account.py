"""The doctor on credentials, region, bootstrap, rights and advice."""

import json
import re
import sys
import time
from dataclasses import replace

import pytest

from launcher.aws.service_roles import SPOT, make_command
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Outcome
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.deployment import deploy_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.emulators.aws_account import DENIED, THROTTLED
from tests.unit.workflow.doctor.conftest import NOW, PROBE, REGION, actions_of, allowed, client, decision

pytestmark = pytest.mark.server


def name_of(diagnosis, name):
    return [check for check in diagnosis.checks if check.name == name]


def test_ready_account_has_verdict_ready(examined, probe_plan):
    diagnosis = examined(probe_plan())
    assert diagnosis.verdict == "ready"
    assert {check.result for check in diagnosis.checks} <= {Outcome.OK, Outcome.ADVICE}
    assert "account 123456789012" in name_of(diagnosis, "credentials")[0].got


def test_plan_without_tags_gets_advice(examined, probe_plan):
    (none,) = name_of(examined(probe_plan(), only="advice"), "tags")
    assert (none.result, none.fix) == (Outcome.ADVICE, "tags: {owner: ..., cost-center: ...}")
    (some,) = name_of(examined(probe_plan(tag_file()), only="advice"), "tags")
    assert (some.result, some.got) == (Outcome.OK, "owner=vision")


def tag_file():
    return (
        "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\ntags: {owner: vision}\n"
        f"target: {{kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: {REGION}, az_id: use2-az1}}\n"
        "purchase: {option: spot}\n"
    )


def test_missing_credentials_fail_one_check_and_others_are_unknown(examined, probe_plan):
    diagnosis = examined(probe_plan(), environment={"PATH": "/usr/bin:/bin"})
    assert [check.name for check in diagnosis.failures] == ["credentials"]
    assert name_of(diagnosis, "quota")[0].result is Outcome.UNKNOWN
    assert "aws configure sso" in diagnosis.failures[0].fix


def test_region_without_bootstrap_gets_command(ready_account, examined, probe_plan):
    client(ready_account, "ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    (check,) = name_of(examined(probe_plan(), only="bootstrap"), "bootstrap")
    assert check.result is Outcome.FAILED
    assert " && slipway cdk -- bootstrap aws://123456789012/us-east-2 --cloudformation-execution-policies " in check.fix
    assert "policy/SlipwayParallelCluster" in check.fix


def test_old_bootstrap_or_missing_bucket_fails(ready_account, examined, probe_plan):
    client(ready_account, "ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="5", Type="String", Overwrite=True
    )
    assert name_of(examined(probe_plan(), only="bootstrap"), "bootstrap")[0].got == "version 5"
    client(ready_account, "ssm").put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="33", Type="String", Overwrite=True
    )
    client(ready_account, "s3").delete_bucket(Bucket=f"cdk-hnb659fds-assets-123456789012-{REGION}")
    assert "is gone" in name_of(examined(probe_plan(), only="bootstrap"), "bootstrap")[0].got


def test_denied_questions_are_unknown_and_stop_no_launch(ready_account, examined, probe_plan):
    ready_account.canned["ssm.GetParameter"] = DENIED
    ready_account.canned["service-quotas.ListServiceQuotas"] = THROTTLED
    diagnosis = examined(probe_plan())
    assert diagnosis.verdict == "ready"
    assert "not allowed with these credentials" in name_of(diagnosis, "bootstrap")[0].got
    assert {check.result for check in name_of(diagnosis, "quota")} == {Outcome.UNKNOWN}


def test_first_spot_request_requires_service_linked_role(ready_account, examined, probe_plan):
    client(ready_account, "iam").delete_role(RoleName="AWSServiceRoleForEC2Spot")
    (check,) = name_of(examined(probe_plan(), only="service role"), "service role")
    assert check.result is Outcome.FAILED
    assert check.fix == by_administrator(make_command(SPOT))
    on_eks = probe_plan()
    on_eks = replace(on_eks, place=replace(on_eks.place, target=TargetKind.EKS))
    (check,) = name_of(examined(on_eks, only="service role"), "service role")
    assert (check.result, check.got) == (Outcome.ADVICE, "not yet: EC2 Auto Scaling creates it")


def test_region_without_opt_in_gets_enable_command(ready_account, examined, probe_plan):
    ready_account.canned["ec2.DescribeRegions"] = {
        "Regions": [{"RegionName": REGION, "OptInStatus": "not-opted-in", "Endpoint": "ec2.us-east-2.amazonaws.com"}]
    }
    (check,) = name_of(examined(probe_plan(), only="region"), "region")
    assert check.fix == by_administrator("aws account enable-region --region-name us-east-2")


def test_denied_right_fails_and_context_dependent_right_is_unknown(ready_account, examined, probe_plan):
    def some(word, **more):
        return lambda sent: {
            "EvaluationResults": [decision(action, word, **more) for action in actions_of(sent)],
            "IsTruncated": False,
        }

    ready_account.canned["iam.SimulatePrincipalPolicy"] = some("implicitDeny")
    checks = name_of(examined(probe_plan(), only="rights"), "rights")
    assert {check.result for check in checks} == {Outcome.FAILED}
    assert "sts:AssumeRole" in checks[0].got
    assert "no policy allows it" in checks[0].got
    ready_account.canned["iam.SimulatePrincipalPolicy"] = some(
        "implicitDeny", MissingContextValues=["aws:RequestedRegion"]
    )
    checks = name_of(examined(probe_plan(), only="rights"), "rights")
    assert {check.result for check in checks} == {Outcome.UNKNOWN}
    ready_account.canned["iam.SimulatePrincipalPolicy"] = some(
        "explicitDeny", OrganizationsDecisionDetail={"AllowedByOrganizations": False}
    )
    assert "an organization's policy" in name_of(examined(probe_plan(), only="rights"), "rights")[0].got


KEY = "arn:aws:kms:us-east-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
LETS_IN = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:user/moto"}, "Action": ["kms:*", "s3:*"]}
SHIPPING = {
    "checkpoint: {uri: s3://weights/team}": ("s3:PutObject", "arn:aws:s3:::weights/team/probe", "store"),
    f'storage: {{kms_key_arn: "{KEY}"}}': ("kms:GenerateDataKey", KEY, "store key"),
    "": ("s3:PutObject", "arn:aws:s3:::slipway-probe/probe", "store"),
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("words", SHIPPING)
def test_work_upload_rights_simulated_on_planned_places(ready_account, examined, probe_plan, words, own):
    """Before a cluster is up and billed; a bucket's or a key's own policy may let the caller in, too."""
    action, arn, name = SHIPPING[words]

    def but_there(sent):
        there = arn in [value for key, value in sent.items() if key.startswith("ResourceArns.member.")]
        decisions = [
            decision(requested, "implicitDeny" if there and requested == action else "allowed")
            for requested in actions_of(sent)
        ]
        return {"EvaluationResults": decisions, "IsTruncated": False}

    ready_account.canned["sts.GetCallerIdentity"] = {"Account": "123456789012", "Arn": LETS_IN["Principal"]["AWS"]}
    ready_account.canned["iam.SimulatePrincipalPolicy"] = but_there
    policy = json.dumps({"Statement": [LETS_IN] if own else []})
    ready_account.canned["kms.GetKeyPolicy"] = {"Policy": policy}
    s3 = client(ready_account, "s3")
    s3.create_bucket(Bucket="weights", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_policy(Bucket="weights", Policy=policy)
    (check,) = name_of(examined(probe_plan(f"{tag_file()}{words}\n")), name)
    # A bucket that the stacks make is let in by IAM alone.
    lets_in = own and bool(words)
    assert check.result is (Outcome.OK if lets_in else Outcome.FAILED), check
    assert lets_in or f"denied: {action} (no policy allows it)" in check.got


def test_administrator_execution_role_gets_advice(ready_account, examined, probe_plan):
    ready_account.canned["iam.SimulatePrincipalPolicy"] = lambda sent: {
        "EvaluationResults": [decision(action, "allowed") for action in actions_of(sent)],
        "IsTruncated": False,
    }
    (check,) = name_of(examined(probe_plan(), only="execution role"), "execution role")
    assert check.result is Outcome.ADVICE
    assert "administrator" in check.got


def test_execution_role_without_action_fails_naming_action(ready_account, examined, probe_plan):
    def but_networks(sent):
        decisions = [
            (action, "implicitDeny" if action in ("ec2:CreateVpc", "iam:CreateUser") else "allowed")
            for action in actions_of(sent)
        ]
        return {"EvaluationResults": [decision(action, word) for action, word in decisions], "IsTruncated": False}

    ready_account.canned["iam.SimulatePrincipalPolicy"] = but_networks
    (check,) = name_of(examined(probe_plan(), only="execution role"), "execution role")
    assert check.result is Outcome.FAILED
    assert "denied: ec2:CreateVpc" in check.got


NEEDED = ("SlipwayBase", "SlipwayGuards", "SlipwayNetwork", "SlipwayParallelCluster")
"""The policies of CloudFormation for the probe plan's target."""


def lacks_networks(sent):
    return {
        "EvaluationResults": [
            decision(action, "implicitDeny" if action in ("ec2:CreateVpc", "iam:CreateUser") else "allowed")
            for action in actions_of(sent)
        ],
        "IsTruncated": False,
    }


@pytest.fixture
def execution_fix(ready_account, examined, probe_plan):
    """The fix for an execution role that has some policies and lacks rights."""

    def fix(*policies):
        iam = client(ready_account, "iam")
        role = f"cdk-hnb659fds-cfn-exec-role-123456789012-{REGION}"
        right = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
        text = json.dumps({"Version": "2012-10-17", "Statement": [right]})
        for policy in policies:
            made = iam.create_policy(PolicyName=policy, PolicyDocument=text)["Policy"]["Arn"]
            iam.attach_role_policy(RoleName=role, PolicyArn=made)
        ready_account.canned["iam.SimulatePrincipalPolicy"] = lacks_networks
        (check,) = name_of(examined(probe_plan(), only="execution role"), "execution role")
        assert check.result is Outcome.FAILED
        return check.fix

    return fix


def test_execution_role_fix_keeps_existing_policies(execution_fix):
    fix = execution_fix("SlipwayBase", "SlipwayGuards", "SlipwayNetwork", "SlipwayEKS", "TeamApp")
    command, _, remark = fix.partition("   (")
    assert set(re.findall(r"policy/(\w+)", command)) == {*NEEDED, "SlipwayEKS", "TeamApp"}
    assert "; the role lacks SlipwayParallelCluster; the command keeps the policies that it has" in remark
    assert f" && slipway cdk -- bootstrap aws://123456789012/{REGION} " in command
    assert "--qualifier" not in command


def test_execution_role_with_old_policies_gets_new_policy_versions(execution_fix):
    fix = execution_fix(*NEEDED)
    assert "aws iam create-policy-version --policy-arn ARN" in fix
    assert "bootstrap aws" not in fix


def test_execution_role_at_policy_limit_gets_separate_bootstrap(execution_fix):
    fix = execution_fix(*(f"Team{n}" for n in range(8)))
    command = fix.partition("   (")[0]
    assert "Team" not in command
    assert command.endswith("--qualifier slipway --toolkit-stack-name CDKToolkit-slipway")
    assert "security: {qualifier: slipway}" in fix


def test_policy_conditions_are_simulated_with_matching_values(ready_account, examined, probe_plan):
    """Without them IAM answers that it cannot know, and the check would never pass."""
    seen = {}

    def careful(sent):
        keys = [value for key, value in sent.items() if key.endswith("ContextKeyName")]
        values = [value for key, value in sent.items() if key.endswith("ContextKeyValues.member.1")]
        for action in actions_of(sent):
            seen.setdefault(action, []).append(dict(zip(keys, values, strict=True)))
        return lacks_nothing(sent)

    ready_account.canned["iam.SimulatePrincipalPolicy"] = careful
    (check,) = name_of(examined(probe_plan(), only="execution role"), "execution role")
    assert check.result is Outcome.OK
    assert "parallelcluster" in check.asked
    assert {"iam:PassedToService": "lambda.amazonaws.com"} in seen["iam:PassRole"]
    assert any("iam:PolicyARN" in context for context in seen["iam:AttachRolePolicy"])
    assert seen["ec2:CreateVpc"] == [{}]


def lacks_nothing(sent):
    return {
        "EvaluationResults": [
            decision(action, "implicitDeny" if action == "iam:CreateUser" else "allowed") for action in actions_of(sent)
        ],
        "IsTruncated": False,
    }


def test_billing_checked_only_on_request(ready_account, examined, probe_plan):
    ready_account.canned["ce.ListCostAllocationTags"] = {
        "CostAllocationTags": [{"TagKey": "slipway:cluster", "Type": "UserDefined", "Status": "Inactive"}]
    }
    assert not name_of(examined(probe_plan()), "cost tag")
    inactive, unseen = name_of(examined(probe_plan(), billing=True), "cost tag")
    assert (inactive.result, unseen.result) == (Outcome.FAILED, Outcome.UNKNOWN)
    assert "update-cost-allocation-tags-status" in unseen.fix


def an_export(name, *, table="COST_AND_USAGE_REPORT", form="TEXT_OR_CSV", status="HEALTHY"):
    """An export as the list has it and as it answers itself."""
    arn = f"arn:aws:bcm-data-exports:us-east-1:123456789012:export/{name}"
    state = {"StatusCode": status, **({} if status == "HEALTHY" else {"StatusReason": "INSUFFICIENT_PERMISSION"})}
    output = {
        "OutputType": "CUSTOM",
        "Format": form,
        "Compression": "GZIP" if form == "TEXT_OR_CSV" else "PARQUET",
        "Overwrite": "OVERWRITE_REPORT",
    }
    place = {"S3Bucket": "bills", "S3Prefix": "out/", "S3Region": "us-east-1", "S3OutputConfigurations": output}
    whole = {
        "ExportArn": arn,
        "Name": name,
        "DataQuery": {"QueryStatement": f"SELECT bill_invoice_id FROM {table}"},  # noqa: S608 - a canned answer
        "DestinationConfigurations": {"S3Destination": place},
        "RefreshCadence": {"Frequency": "SYNCHRONOUS"},
    }
    return {"ExportArn": arn, "ExportName": name, "ExportStatus": state}, whole


def export(account, *pairs):
    """An account with some exports."""
    account.canned["ce.ListCostAllocationTags"] = {"CostAllocationTags": []}
    account.canned["bcm-data-exports.ListExports"] = {"Exports": [listed for listed, _ in pairs]}
    known = {whole["ExportArn"]: whole for _, whole in pairs}
    account.canned["bcm-data-exports.GetExport"] = lambda sent: {"Export": known[sent["ExportArn"]]}


def test_bill_exports_are_reported_as_advice(ready_account, examined, probe_plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    export(ready_account, an_export("no-bill", table="CARBON_EMISSIONS"))
    (none,) = name_of(examined(probe_plan(), billing=True, only="bill export"), "bill export")
    assert (none.result, "Cost Explorer" in none.got) == (Outcome.ADVICE, True)
    ill, other = an_export("ill", status="UNHEALTHY"), an_export("other", form="PARQUET")
    export(ready_account, an_export("cur"), ill, other, an_export("focus", table="FOCUS_1_2_AWS"))
    good, broken, parquet, focus = name_of(examined(probe_plan(), billing=True, only="bill export"), "bill export")
    assert [check.result for check in (good, focus)] == [Outcome.OK, Outcome.OK]
    assert "--export s3://bills/out/cur" in good.got
    assert [check.result for check in (broken, parquet)] == [Outcome.ADVICE, Outcome.ADVICE]
    assert "insufficient permission" in broken.got
    assert "PARQUET" in parquet.got
    assert parquet.fix == "pip install pyarrow"


@pytest.mark.parametrize("name", ["ce.ListCostAllocationTags", "bcm-data-exports.ListExports"])
def test_billing_questions_denied_to_member_account_are_unknown(ready_account, examined, probe_plan, name):
    export(ready_account, an_export("cur"))
    ready_account.canned[name] = DENIED
    examination = "cost tag" if name.startswith("ce") else "bill export"
    check = name_of(examined(probe_plan(), billing=True, only=examination), examination)
    assert [finding.result for finding in check] == [Outcome.UNKNOWN]
    assert "not allowed with these credentials" in check[0].got


def test_account_is_examined_without_plan(examined):
    diagnosis = examined(None)
    assert diagnosis.name is None
    assert {check.name for check in diagnosis.checks} == {
        "credentials",
        "region",
        "bootstrap",
        "CDK and Node",
        "rights",
    }


def test_unready_account_refuses_deployment_before_synthesis(ready_account, tmp_path, monkeypatch):
    """On the way of deploy and of an endpoint: no CDK is run, nothing is made."""
    path = tmp_path / "plan.yaml"
    path.write_text(PROBE, encoding="utf-8")
    for name in ("AWS_REGION", "PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ready_account.environment.items():
        monkeypatch.setenv(name, value)
    client(ready_account, "ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    client(ready_account, "iam").delete_role(RoleName="AWSServiceRoleForEC2Spot")
    priced = price(path, NOW, PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    options = DeployOptions(root=tmp_path, sandbox=False, dry_run=False, notify=lambda text: None)
    with pytest.raises(ImpossibleError) as refusal:
        deploy_quote(priced, rank, quoted, options)
    fixes = [finding.hint for finding in refusal.value.findings]
    bootstrap_fix, role_fix = fixes
    assert " && slipway cdk -- bootstrap aws://" in bootstrap_fix
    assert role_fix.startswith("aws iam ")
    assert refusal.value.exit_code == 5
    assert not list(tmp_path.rglob("cdk.out"))


def test_unready_account_refuses_launch_before_synthesis(ready_account, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PROBE, encoding="utf-8")
    client(ready_account, "ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    priced = price(path, NOW, PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    setting = LaunchOptions(
        root=tmp_path, environment=ready_account.environment, notify=lambda text: None, progress=lambda now: None
    )
    with pytest.raises(ImpossibleError, match="not ready"):
        launch_quote(priced, rank, quoted, setting)
    assert not list(tmp_path.rglob("cdk.out"))


class TestGuard:
    """The guard of a cluster that is deployed."""

    @pytest.fixture
    def deployed(self, ready_account, probe_plan):
        """A stack whose guard's role may stop its fleet."""
        trust = json.dumps({"Version": "2012-10-17", "Statement": []})
        iam = client(ready_account, "iam")
        role = iam.create_role(RoleName="guard", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        table = "arn:aws:dynamodb:us-east-2:123456789012:table/parallelcluster-slipway-probe"
        statement = {
            "Effect": "Allow",
            "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"],
            "Resource": table,
            "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["COMPUTE_FLEET"]}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        iam.put_role_policy(RoleName="guard", PolicyName="Watch", PolicyDocument=document)
        function = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"ZipFile": "def handler(event, context): pass"},
                "Handler": "index.handler",
                "Runtime": "python3.12",
                "Role": role,
            },
        }
        body = json.dumps({"Resources": {"GuardrailsGuardFunction": function}})
        client(ready_account, "cloudformation").create_stack(StackName="slipway-probe-training", TemplateBody=body)
        return probe_plan()

    def test_deployed_guard_with_all_rights_passes(self, examined, deployed):
        (check,) = name_of(examined(deployed, only="guard"), "guard")
        description = "the guard of probe may make the 2 calls that stop nodes and send notifications"
        assert (check.result, check.asked) == (Outcome.OK, description)

    def test_boundary_denying_guard_stop_fails(self, ready_account, examined, deployed):
        def bounded(sent):
            if not any(name.startswith("dynamodb:") for name in actions_of(sent)):
                return allowed(sent)
            detail = {"PermissionsBoundaryDecisionDetail": {"AllowedByPermissionsBoundary": False}}
            decisions = [decision(action, "implicitDeny", **detail) for action in actions_of(sent)]
            return {"EvaluationResults": decisions, "IsTruncated": False}

        ready_account.canned["iam.SimulatePrincipalPolicy"] = bounded
        (check,) = name_of(examined(deployed, only="guard"), "guard")
        assert check.result is Outcome.FAILED
        assert check.got == "denied: dynamodb:GetItem, dynamodb:UpdateItem (the permissions boundary)"
        assert "slipway deploy FILE" in check.fix

    def test_undeployed_cluster_has_no_guard_check(self, examined, probe_plan):
        assert not name_of(examined(probe_plan(), only="guard"), "guard")


@pytest.mark.parametrize(
    "group, result",
    [
        (None, Outcome.OK),
        ({"days_old": 5}, Outcome.OK),
        ({"days_old": 31}, Outcome.ADVICE),
        ({"days_old": 31, "retentionInDays": 14}, Outcome.OK),
    ],
)
def test_log_retention_advice_follows_age_and_setting(ready_account, examined, probe_plan, group, result):
    name = "/aws/sagemaker/TrainingJobs"
    groups = [{"logGroupName": f"{name}-of-others", "creationTime": 0}]
    if group is not None:
        created = int((time.time() - group.pop("days_old") * 86400) * 1000)
        groups.append({"logGroupName": name, "creationTime": created, **group})
    ready_account.canned["logs.DescribeLogGroups"] = {"logGroups": groups}
    text = (
        "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
        "target: {kind: sagemaker-training, instance_type: p5.48xlarge, nodes: 2, region: us-east-2}\n"
        "purchase: {option: spot}\n"
    )
    (check,) = [
        check for check in examined(probe_plan(text), only="log retention").checks if check.name == "log retention"
    ]
    assert check.result is result
    if result is Outcome.ADVICE:
        assert f"--log-group-name {name} --retention-in-days 30   (" in check.fix
    assert not [check for check in examined(probe_plan()).checks if check.name == "log retention"]
