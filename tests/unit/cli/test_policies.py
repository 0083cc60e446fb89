"""`slipway policies`: the files, the commands to paste, and the refusals."""

import json
import shlex

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
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith(("aws ", "cdk "))]
    policies = {command[command.index("--policy-name") + 1]: command[-1] for command in commands[:-1]}
    for name, path in policies.items():
        assert path == f"file://here/{name}.json"
        assert json.loads((tmp_path / "here" / f"{name}.json").read_text())["Version"] == "2012-10-17"
    arns = commands[-1][commands[-1].index("--cloudformation-execution-policies") + 1].split(",")
    named = {arn.rpartition("/")[2] for arn in arns}
    assert named == set(policies) - {
        "SlipwayBoundary",
        "SlipwayPerson",
        "SlipwayDoctor",
        "SlipwayTrainingJobs",
        "SlipwayEC2Jobs",
        "SlipwayPCSJobs",
        "SlipwayHyperPodJobs",
        "SlipwayNodes",
    }
    assert commands[-1][:3] == ["cdk", "bootstrap", "aws://123456789012/us-east-2"]
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
    (makes,) = (statement for statement in base["Statement"] if statement["Sid"] == "MakeRoles")
    expected = {"iam:PermissionsBoundary": "arn:aws:iam::123456789012:policy/engineers"}
    assert makes["Condition"] == {"StringEquals": expected}


def test_policies_without_data_bucket_have_no_data_buckets_statement(slipway_here, tmp_path):
    slipway_here(*WORDS, "-o", "here")
    assert "DataBuckets" not in (tmp_path / "here/SlipwayHyperPod.json").read_text()


@pytest.mark.parametrize("account", ["12345", "arn:aws:iam::123456789012:root"])
def test_invalid_account_refused_with_caller_identity_command(slipway_here, account):
    code, _, err = slipway_here("policies", "--account", account, "--region", "us-east-2", "-o", "here")
    assert (code, "aws sts get-caller-identity" in err) == (2, True)


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
    (keeps,) = (statement for statement in nodes_policy["Statement"] if statement["Sid"] == "KeepCheckpoints")
    assert keeps["Resource"] == ["arn:aws:s3:::weights/team/*"]
    # Whoever launches it ships to the same place, under the same key, when the cluster is up and billed.
    store = json.loads((tmp_path / "here/SlipwayStore.json").read_text())
    (ships,) = (statement for statement in store["Statement"] if "s3:PutObject" in statement["Action"])
    (uses,) = (statement for statement in store["Statement"] if "kms:GenerateDataKey" in statement["Action"])
    assert (ships["Resource"], uses["Resource"]) == (["arn:aws:s3:::weights/team/*"], [KEY])
    (read,) = (statement for statement in nodes_policy["Statement"] if statement["Sid"] == "ReadData")
    assert (read["Action"], read["Resource"]) == (["s3:GetObject"], ["arn:aws:s3:::corpus/tokens/*"])
    base = json.loads((tmp_path / "here/SlipwayBase.json").read_text())
    (gives,) = (statement for statement in base["Statement"] if statement["Sid"] == "GiveNamedRoles")
    assert gives["Resource"] == [arn]


OWN_BOOTSTRAP = "--qualifier slipway --toolkit-stack-name CDKToolkit-slipway"


@pytest.mark.parametrize("plan", [None, PLAN.replace("qualifier: team, ", "")])
def test_bootstrap_is_slipways_own_by_default(slipway_here, tmp_path, plan):
    """The CDK replaces the policies of a bootstrap: other apps keep theirs."""
    if plan is not None:
        (tmp_path / "plan.yaml").write_text(plan)
    code, out, err = slipway_here(*WORDS, *(["plan.yaml"] if plan else []), "-o", "here")
    (command,) = [line for line in out.splitlines() if line.startswith("cdk bootstrap")]
    assert code == 0
    assert command.endswith(OWN_BOOTSTRAP)
    assert "plans name this bootstrap: security: {qualifier: slipway}" in err
    assert "cdk-slipway-" in (tmp_path / "here/SlipwayPerson.json").read_text()


def test_default_cdk_bootstrap_gets_warning(slipway_here):
    code, out, err = slipway_here(*WORDS, "-o", "here", "--qualifier", "hnb659fds")
    assert code == 0
    assert "--toolkit-stack-name" not in out
    assert "takes AdministratorAccess from other apps" in err


CLUSTER = "arn:aws:sagemaker:us-east-2:123456789012:cluster/abc123"


def test_hyperpod_sessions_limited_to_named_clusters(slipway_here, tmp_path):
    code, _, _ = slipway_here(*WORDS, "-o", "here", "--hyperpod", CLUSTER)
    assert code == 0
    person = (tmp_path / "here/SlipwayPerson.json").read_text()
    (enter,) = (statement for statement in json.loads(person)["Statement"] if statement["Sid"] == "Enter")
    assert [arn for arn in enter["Resource"] if ":cluster/" in arn] == [CLUSTER]


@pytest.mark.parametrize("arn", ["abc123", "arn:aws:eks:us-east-2:123456789012:cluster/team", f"{CLUSTER}/*"])
def test_invalid_hyperpod_cluster_arn_refused_naming_output(slipway_here, arn):
    code, _, err = slipway_here(*WORDS, "-o", "here", "--hyperpod", arn)
    assert code == 2
    assert f"expected the ARN of a HyperPod cluster, got {arn}" in err
    assert "the output ClusterArn" in err
