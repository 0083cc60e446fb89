"""`slipway policies`: the files, the commands to paste, and the refusals."""

import json
import re
import subprocess
import sys

import pytest

WORDS = ["policies", "--account", "123456789012", "--region", "us-east-2"]
KEY = "arn:aws:kms:us-east-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
OWN = "arn:aws:iam::123456789012:policy/SlipwayBoundary"
PLAN = """
slipway: 1
name: small
target: {kind: hyperpod-slurm}
security: {qualifier: team, permissions_boundary_arn: "arn:aws:iam::123456789012:policy/engineers"}
workload: {train: {model: llama-3.1-8b, tokens_b: 1, data: {uri: "s3://corpus-of-the-team/tokens"}}}
"""


@pytest.fixture
def slipway_here(slipway, monkeypatch, tmp_path):
    """Run it in an empty folder: exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)
    return slipway


def test_every_policy_file_has_create_command_and_bootstrap_lists_cloudformation_policies(slipway_here, tmp_path):
    code, out, err = slipway_here(*WORDS, "-o", "here")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("if aws iam get-policy ")]
    policies = dict(re.findall(r"create-policy --policy-name (\w+) --policy-document (\S+);", "\n".join(lines)))
    assert len(policies) == len(lines)
    for name, path in policies.items():
        assert path == f"file://here/{name}.json"
        assert json.loads((tmp_path / "here" / f"{name}.json").read_text())["Version"] == "2012-10-17"
    (bootstrap,) = [line for line in out.splitlines() if "cdk -- bootstrap" in line]
    assert set(re.findall(r"arn:aws:iam::123456789012:policy/(\w+)", bootstrap)) == set(policies) - {
        "SlipwayBoundary",
        "SlipwayPerson",
        "SlipwayDoctor",
        "SlipwayTrainingJobs",
        "SlipwayEC2Jobs",
        "SlipwayPCSJobs",
        "SlipwayHyperPodJobs",
        "SlipwayNodes",
    }
    assert " && slipway cdk -- bootstrap aws://123456789012/us-east-2 " in bootstrap
    assert f"--boundary {OWN}" in err


def test_policies_follow_target_boundary_qualifier_and_data_of_plan(slipway_here, tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    code, out, _ = slipway_here(*WORDS, "plan.yaml", "-o", "here", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "slipway.policies/1")
    names = [policy["name"] for policy in document["policies"] if policy["for"] == "cloudformation"]
    assert names == ["SlipwayBase", "SlipwayGuards", "SlipwayNetwork", "SlipwayHyperPod"]
    assert document["commands"][-1].endswith("--qualifier team --toolkit-stack-name CDKToolkit-team")
    # The account has a boundary: ours is not made.
    assert not any("SlipwayBoundary" in command for command in document["commands"])
    assert "arn:aws:s3:::corpus-of-the-team" in (tmp_path / "here/SlipwayHyperPod.json").read_text()
    base = json.loads((tmp_path / "here/SlipwayBase.json").read_text())
    (makes,) = (statement for statement in base["Statement"] if statement["Sid"] == "CreateRoles")
    expected = {"iam:PermissionsBoundary": "arn:aws:iam::123456789012:policy/engineers"}
    assert makes["Condition"] == {"StringEquals": expected}


def test_policies_without_data_bucket_have_no_data_buckets_statement(slipway_here, tmp_path):
    slipway_here(*WORDS, "-o", "here")
    assert "DataBuckets" not in (tmp_path / "here/SlipwayHyperPod.json").read_text()


@pytest.mark.parametrize("account", ["12345", "arn:aws:iam::123456789012:root"])
def test_invalid_account_refused_with_caller_identity_command(slipway_here, account):
    code, _, err = slipway_here("policies", "--account", account, "--region", "us-east-2", "-o", "here")
    assert (code, "aws sts get-caller-identity" in err) == (2, True)


def test_billing_export_opens_its_bucket_and_a_local_one_is_refused(slipway_here, tmp_path):
    code, _, _ = slipway_here(*WORDS, "-o", "here", "--export", "s3://bills/cur/export")
    statements = json.loads((tmp_path / "here/SlipwayDoctor.json").read_text())["Statement"]
    (read,) = [statement for statement in statements if statement["Sid"] == "ReadBill"]
    assert (code, read["Resource"]) == (0, ["arn:aws:s3:::bills/cur/export", "arn:aws:s3:::bills/cur/export/*"])
    code, _, err = slipway_here(*WORDS, "-o", "there", "--export", "bills/cur.csv")
    assert (code, "--export: expected a place in S3, got bills/cur.csv" in err) == (2, True)
    assert "needs no policy" in err
    code, _, err = slipway_here(*WORDS, "-o", "there", "--export", "s3://ab/cur")
    assert (code, "fix: a bucket has 3 to 63 of" in err) == (2, True)


def test_unwritable_folder_refused(slipway_here, tmp_path):
    (tmp_path / "here").write_text("")
    code, _, err = slipway_here(*WORDS, "-o", "here")
    assert (code, "cannot write to here" in err) == (5, True)


def test_plan_with_own_roles_gets_role_policies_and_pass_role(slipway_here, tmp_path):
    arn = "arn:aws:iam::123456789012:role/team/machines"
    (tmp_path / "plan.yaml").write_text(
        f'slipway: 1\nname: small\ntarget: {{kind: hyperpod-slurm}}\nsecurity: {{roles: {{nodes: "{arn}"}}}}\n'
        f'checkpoint: {{uri: "s3://weights/team"}}\nstorage: {{kms_key_arn: "{KEY}"}}\n'
        "workload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n"
        'run: {data: [{uri: "s3://corpus/tokens", path: /scratch/tokens}]}\n'
    )
    code, out, _ = slipway_here(*WORDS, "plan.yaml", "-o", "here", "--json")
    document = json.loads(out)
    assert code == 0
    assert [policy["name"] for policy in document["policies"] if policy["for"] == "role"] == ["SlipwayRoleNodes"]
    attach = "aws iam attach-role-policy --role-name machines --policy-arn"
    assert f"{attach} arn:aws:iam::123456789012:policy/SlipwayRoleNodes" in document["commands"]
    nodes_policy = json.loads((tmp_path / "here/SlipwayRoleNodes.json").read_text())
    (keeps,) = (statement for statement in nodes_policy["Statement"] if statement["Sid"] == "WriteCheckpoints")
    assert keeps["Resource"] == ["arn:aws:s3:::weights/team/*"]
    # Whoever launches it ships to the same place, under the same key, when the cluster is up and billed.
    store = json.loads((tmp_path / "here/SlipwayStore.json").read_text())
    (ships,) = (statement for statement in store["Statement"] if "s3:PutObject" in statement["Action"])
    (uses,) = (statement for statement in store["Statement"] if "kms:GenerateDataKey" in statement["Action"])
    assert (ships["Resource"], uses["Resource"]) == (["arn:aws:s3:::weights/team/*"], [KEY])
    (read,) = (statement for statement in nodes_policy["Statement"] if statement["Sid"] == "ReadData")
    assert (read["Action"], read["Resource"]) == (["s3:GetObject"], ["arn:aws:s3:::corpus/tokens/*"])
    base = json.loads((tmp_path / "here/SlipwayBase.json").read_text())
    (gives,) = (statement for statement in base["Statement"] if statement["Sid"] == "PassNamedRoles")
    assert gives["Resource"] == [arn]


OWN_BOOTSTRAP = "--qualifier slipway --toolkit-stack-name CDKToolkit-slipway"


@pytest.mark.parametrize("plan", [None, PLAN.replace("qualifier: team, ", "")])
def test_bootstrap_is_slipways_own_by_default(slipway_here, tmp_path, plan):
    if plan is not None:
        (tmp_path / "plan.yaml").write_text(plan)
    code, out, err = slipway_here(*WORDS, *(["plan.yaml"] if plan else []), "-o", "here")
    (command,) = [line for line in out.splitlines() if "cdk -- bootstrap" in line]
    assert code == 0
    assert command.endswith(OWN_BOOTSTRAP)
    assert "plans name this bootstrap: security: {qualifier: slipway}" in err
    assert "cdk-slipway-" in (tmp_path / "here/SlipwayPerson.json").read_text()


def test_default_cdk_bootstrap_gets_warning(slipway_here):
    code, out, err = slipway_here(*WORDS, "-o", "here", "--qualifier", "hnb659fds")
    assert code == 0
    assert "--toolkit-stack-name" not in out
    assert "CloudFormation keeps what other apps have" in err


CDK = """#!/bin/bash
while [ $# -gt 0 ]; do
    if [ "$1" = --cloudformation-execution-policies ]; then printf %s "$2" >policies; fi
    shift
done
"""
"""The CDK's bootstrap: it replaces the policies."""
AWS = """#!{python}
import json, pathlib, sys
import jmespath
if pathlib.Path("denied").exists():
    sys.exit("An error occurred (AccessDenied)")
stored = pathlib.Path("policies")
parameters = [{{"ParameterKey": key, "ParameterValue": value}} for key, value in (
    ("Qualifier", "slipway"), ("CloudFormationExecutionPolicies", stored.read_text() if stored.exists() else ""))]
stacks = [{{"StackName": "CDKToolkit", "Parameters": parameters[:1]}}]
stacks.append({{"StackName": "CDKToolkit-slipway" if stored.exists() else "other", "Parameters": parameters}})
print("\\t".join(jmespath.search(sys.argv[sys.argv.index("--query") + 1], {{"Stacks": stacks}})))
"""
"""`aws cloudformation describe-stacks --query QUERY --output text` of a region with two other stacks."""


def test_printed_bootstrap_of_another_kind_keeps_policies_of_the_first(slipway_here, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("slipway", CDK), ("aws", AWS.format(python=sys.executable))):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def typed(kind):
        text = f"slipway: 1\nname: a\nworkload: {{train: {{hours: 1}}}}\ntarget: {{kind: {kind}}}\n"
        (tmp_path / "plan.yaml").write_text(text)
        _, out, _ = slipway_here(*WORDS, "plan.yaml", "-o", "here")
        (line,) = [line for line in out.splitlines() if "cdk -- bootstrap" in line]
        environment = {"PATH": f"{programs}:/usr/bin:/bin"}
        return subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, check=False)

    def kept():
        return [arn.rpartition("/")[2] for arn in (tmp_path / "policies").read_text().split(",")]

    assert typed("eks").returncode == 0
    assert kept() == ["SlipwayBase", "SlipwayEKS", "SlipwayGuards", "SlipwayNetwork"]
    for _ in range(2):
        assert typed("pcs").returncode == 0
        assert kept() == ["SlipwayBase", "SlipwayEKS", "SlipwayGuards", "SlipwayNetwork", "SlipwayPCS"]
    (tmp_path / "denied").touch()
    assert typed("hyperpod-slurm").returncode != 0
    assert "SlipwayHyperPod" not in kept()


IAM = """#!/bin/bash
case "$2" in
    get-policy) [[ " $(cat made) " == *" ${4##*/} "* ]] ;;
    create-policy) printf '%s ' "$4" >>made ;;
    create-policy-version) printf '%s ' "${5##*/}" >>changed ;;
esac
"""
"""`aws iam` of an account whose policies are in the file `made`."""


def test_printed_commands_of_another_kind_change_the_policies_that_exist(slipway_here, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/aws").write_text(IAM)
    (tmp_path / "bin/aws").chmod(0o755)
    (tmp_path / "made").touch()

    def typed(kind):
        text = f"slipway: 1\nname: a\nworkload: {{train: {{hours: 1}}}}\ntarget: {{kind: {kind}}}\n"
        (tmp_path / "plan.yaml").write_text(text)
        _, out, err = slipway_here(*WORDS, "plan.yaml", "-o", "here")
        assert "a policy that exists gets the new text" in err
        lines = [line for line in out.splitlines() if "create-policy" in line]
        environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=tmp_path, env=environment, check=True)
        return (tmp_path / "made").read_text().split()

    first = typed("pcs")
    assert len(first) == len(set(first))
    assert {"SlipwayPerson", "SlipwayPCS"} <= set(first)
    assert not (tmp_path / "changed").exists()
    second = typed("hyperpod-eks")
    assert len(second) == len(set(second))
    assert {"SlipwayHyperPod", "SlipwayEKS"} <= set(second) - set(first)
    changed = (tmp_path / "changed").read_text().split()
    assert set(changed) == set(first) - {"SlipwayPCS", "SlipwayPCSJobs"}


CLUSTER = "arn:aws:sagemaker:us-east-2:123456789012:cluster/abc123"


def test_hyperpod_sessions_limited_to_named_clusters(slipway_here, tmp_path):
    code, _, _ = slipway_here(*WORDS, "-o", "here", "--hyperpod", CLUSTER)
    assert code == 0
    jobs = (tmp_path / "here/SlipwayHyperPodJobs.json").read_text()
    (enter,) = (statement for statement in json.loads(jobs)["Statement"] if statement["Sid"] == "ConnectToNodes")
    assert [arn for arn in enter["Resource"] if ":cluster/" in arn] == [CLUSTER]


def test_policies_of_another_kind_keep_the_persons_rights_of_the_first(slipway_here, tmp_path):
    written = {}
    for kind in ("hyperpod-slurm", "pcs", "ec2"):
        text = f"slipway: 1\nname: a\nworkload: {{train: {{hours: 1}}}}\ntarget: {{kind: {kind}, region: us-east-2}}\n"
        (tmp_path / "plan.yaml").write_text(text)
        assert slipway_here(*WORDS, "plan.yaml", "-o", kind)[0] == 0
        for path in (tmp_path / kind).glob("*.json"):
            written.setdefault(path.name, set()).add(path.read_text())
    assert {name for name, texts in written.items() if len(texts) > 1} == set()
    assert {"SlipwayPerson.json", "SlipwayHyperPodJobs.json", "SlipwayPCSJobs.json"} <= written.keys()


@pytest.mark.parametrize("arn", ["abc123", "arn:aws:eks:us-east-2:123456789012:cluster/team", f"{CLUSTER}/*"])
def test_invalid_hyperpod_cluster_arn_refused_naming_output(slipway_here, arn):
    code, _, err = slipway_here(*WORDS, "-o", "here", "--hyperpod", arn)
    assert code == 2
    assert f"expected the ARN of a HyperPod cluster, got {arn}" in err
    assert "the output ClusterArn" in err
