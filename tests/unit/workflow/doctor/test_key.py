"""The doctor on the plan's key: its state, its kind, its policy, and the key of root volumes."""

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Outcome
from launcher.workflow.doctor.key import KEYS
from tests.checks import some
from tests.emulators.aws_account import EC2_DENIED
from tests.unit.workflow.doctor.conftest import REGION, client

EXAMINED = KEYS

pytestmark = pytest.mark.server

NAMES = ("key", "key policy", "volume key")
ACCOUNT = "123456789012"
ROOT = f"arn:aws:iam::{ACCOUNT}:root"
SCALING = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
PCS = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/pcs.amazonaws.com/AWSServiceRoleForPCS"
USE = ["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"]


def allow(principal, actions):
    return {"Effect": "Allow", "Principal": principal, "Action": actions, "Resource": "*"}


LOGS = allow({"Service": f"logs.{REGION}.amazonaws.com"}, USE)
ALARMS = allow(
    {"Service": ["cloudwatch.amazonaws.com", "budgets.amazonaws.com"]}, ["kms:Decrypt", "kms:GenerateDataKey*"]
)
EVERYTHING = [allow({"AWS": ROOT}, "kms:*"), LOGS, ALARMS]
NODES = [allow({"AWS": SCALING}, USE), allow({"AWS": [SCALING]}, "kms:CreateGrant")]


class Keyed(NamedTuple):
    """Plans with a key: `new` makes one with a policy, `of` takes one that is there; the key and the checks by name."""

    new: Callable[..., tuple[str, dict]]
    of: Callable[..., tuple[str, dict]]


@pytest.fixture
def with_key(ready_account, examined, probe_plan):
    """The checks of a plan with a key, by their name."""

    def create_key(statements=(), kind="parallelcluster", **about):
        arn = client(ready_account, "kms").create_key(**{"KeyUsage": "ENCRYPT_DECRYPT", **about})["KeyMetadata"]["Arn"]
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        client(ready_account, "kms").put_key_policy(KeyId=arn, PolicyName="default", Policy=document)
        return checked(arn, kind)

    def checked(arn, kind="parallelcluster"):
        diagnosis = examined(probe_plan(text(kind, f"storage: {{kms_key_arn: {json.dumps(arn)}}}\n")))
        return arn, {name: [check for check in diagnosis.checks if check.name == name] for name in NAMES}

    return Keyed(new=create_key, of=checked)


def text(kind, more=""):
    return (
        "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
        f"target: {{kind: {kind}, instance_type: p5.48xlarge, nodes: 2, region: {REGION}, az_id: use2-az1}}\n"
        f"purchase: {{option: on-demand}}\nbudget: {{max_usd: 9000}}\n{more}"
    )


def test_key_policy_allowing_all_principals_passes(with_key):
    _, checks = with_key.new(EVERYTHING)
    assert [check.result for check in checks["key"]] == [Outcome.OK]
    assert [check.result for check in checks["key policy"]] == [Outcome.OK] * 4


@pytest.mark.parametrize(
    "missing,result,statement",
    [(0, Outcome.FAILED, "Account"), (1, Outcome.FAILED, "Logs"), (2, Outcome.ADVICE, "Alarms")],
)
def test_principal_missing_in_key_policy_named_with_statement(with_key, missing, result, statement):
    _, checks_by_name = with_key.new([entry for at, entry in enumerate(EVERYTHING) if at != missing])
    problems = [check for check in checks_by_name["key policy"] if check.result is not Outcome.OK]
    assert {check.result for check in problems} == {result}
    assert all(f"add the statement {statement}" in check.fix for check in problems)


def test_deny_statement_in_key_policy_fails(with_key):
    deny = {"Effect": "Deny", "Principal": "*", "Action": "kms:Decrypt", "Resource": "*"}
    _, checks = with_key.new([*EVERYTHING, deny])
    assert all("kms:Decrypt" in check.got for check in some(checks["key policy"]))


def test_disabled_deleted_or_signing_key_fails(ready_account, with_key):
    arn, _ = with_key.new(EVERYTHING)
    client(ready_account, "kms").disable_key(KeyId=arn.rpartition("/")[2])
    (check,) = with_key.of(arn)[1]["key"]
    assert check.fix == by_administrator(f"aws kms enable-key --region {REGION} --key-id {arn}")
    client(ready_account, "kms").schedule_key_deletion(KeyId=arn.rpartition("/")[2])
    assert "cancel-key-deletion" in with_key.of(arn)[1]["key"][0].fix
    _, checks = with_key.new(EVERYTHING, KeyUsage="SIGN_VERIFY", KeySpec="RSA_2048")
    assert (checks["key"][0].result, "RSA_2048" in checks["key"][0].got) == (Outcome.FAILED, True)
    absent = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d-0000-4000-8000-a4b5c6d7e8f9"
    assert "no such key" in with_key.of(absent)[1]["key"][0].got


def test_unreadable_key_policy_is_unknown(ready_account, with_key):
    arn, _ = with_key.new(EVERYTHING)
    ready_account.canned["ec2.GetEbsDefaultKmsKeyId"] = EC2_DENIED
    ready_account.canned["kms.GetKeyPolicy"] = EC2_DENIED
    checks = with_key.of(arn)[1]
    assert [checks[name][0].result for name in NAMES] == [Outcome.OK, Outcome.UNKNOWN, Outcome.UNKNOWN]


@pytest.mark.parametrize("kind, role", [("eks", SCALING), ("pcs", PCS)])
def test_node_group_key_policy_requires_service_principal(with_key, kind, role):
    nodes = json.loads(json.dumps(NODES).replace(SCALING, role))
    other = json.loads(json.dumps(NODES).replace(SCALING, PCS if role == SCALING else SCALING))
    _, checks = with_key.new([*EVERYTHING, *other], kind=kind)
    failed = [check for check in checks["key policy"] if check.result is Outcome.FAILED]
    assert [check.fix.split(" (")[0] for check in failed] == [
        "add the statement Volumes",
        "add the statement VolumeGrants",
    ]
    _, checks = with_key.new([*EVERYTHING, *nodes], kind=kind)
    assert {check.result for check in checks["key policy"]} == {Outcome.OK}
    assert not checks["volume key"]


def test_cluster_without_volume_key_uses_account_default(ready_account, with_key):
    arn, checks = with_key.new(EVERYTHING)
    (check,) = checks["volume key"]
    assert check.result is Outcome.ADVICE
    assert f"modify-ebs-default-kms-key-id --region {REGION} --kms-key-id {arn}" in check.fix
    ready_account.canned["ec2.GetEbsDefaultKmsKeyId"] = {"KmsKeyId": arn}
    (check,) = with_key.of(arn)[1]["volume key"]
    assert check.result is Outcome.OK
    other = arn[:-1] + ("0" if arn[-1] != "0" else "1")
    ready_account.canned["ec2.GetEbsDefaultKmsKeyId"] = {"KmsKeyId": other}
    (check,) = with_key.of(arn)[1]["volume key"]
    assert (check.result, "nodes would not start" in check.got) == (Outcome.FAILED, True)


def test_default_volume_key_must_allow_auto_scaling(ready_account, examined, probe_plan, with_key):
    arn, _ = with_key.new(EVERYTHING)
    ready_account.canned["ec2.GetEbsDefaultKmsKeyId"] = {"KmsKeyId": arn}
    (check,) = [check for check in examined(probe_plan(text("eks"))).checks if check.name == "volume key"]
    assert (check.result, "AWSServiceRoleForAutoScaling" in check.got) == (Outcome.FAILED, True)


def test_plan_without_key_has_only_volume_key_check(examined, probe_plan):
    checks = examined(probe_plan()).checks
    assert [(check.name, check.result) for check in checks if check.name in NAMES] == [("volume key", Outcome.OK)]
