"""The embedded AWS against answers that real AWS gave, where SLIPWAY_VENDOR_DATA names the folder that has them.

They were recorded by a public test suite (localstack/localstack@8b9a79f, tests/aws/services, Apache-2.0), with what
differs from run to run replaced by words. An error has to be the same by code and status: the launcher acts on both. An
answer has to have every field that AWS's has, of the same type; what ours leaves out is listed, nothing else may be.
"""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.aws.answers import REGION

ABSENT = "arn:aws:sns:us-west-2:123456789012:nobody"
KEY = "00000000-0000-4000-8000-000000000000"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


@pytest.fixture(scope="module")
def recorded():
    """An answer of AWS by its file, the end of its test's name, and its place in what was recorded."""
    folder = os.environ.get("SLIPWAY_VENDOR_DATA")
    if not folder:
        pytest.skip("SLIPWAY_VENDOR_DATA names no folder")

    def find(file, test, *place):
        texts = json.loads((Path(folder) / "snapshots" / f"{file}.snapshot.json").read_text(encoding="utf-8"))
        (content,) = (snapshot["recorded-content"] for name, snapshot in texts.items() if name.endswith(f"::{test}"))
        for step in place:
            content = content[step]
        return content

    return find


def written_twice(client):
    bucket(client, "recorded-twice")
    for _ in range(2):
        client("s3").put_object(Bucket="recorded-twice", Key="manifest.json", Body=b"", IfNoneMatch="*")


def bucket(client, name):
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})


def key_of_nothing(client):
    bucket(client, "recorded-empty")
    client("s3").get_object(Bucket="recorded-empty", Key="x")


ERRORS = {
    "a manifest that is there": (
        written_twice,
        ("s3/test_s3_api", "TestS3ObjectWritePrecondition::test_put_object_if_none_match", "put-obj-if-none-match"),
    ),
    "an object that is not there": (
        key_of_nothing,
        ("s3/test_s3_api", "TestS3ObjectCRUD::test_delete_object_versioned", "get-deleted-object"),
    ),
    "a bucket that is not there": (
        lambda client: client("s3").put_bucket_versioning(
            Bucket="recorded-nobody", VersioningConfiguration={"Status": "Enabled"}
        ),
        ("s3/test_s3_api", "TestS3BucketVersioning::test_bucket_versioning_crud", "put-versioning-no-bucket"),
    ),
    "a key that is not there": (
        lambda client: client("kms").describe_key(KeyId=KEY),
        ("kms/test_kms", "TestKMS::test_get_key_in_different_region", "describe-key-diff-region-with-id"),
    ),
    "a topic that is not there": (
        lambda client: client("sns").get_topic_attributes(TopicArn=ABSENT),
        ("sns/test_sns", "TestSNSTopicCrud::test_create_topic_with_attributes", "get-attrs-nonexistent-topic"),
    ),
    "a function that is not there": (
        lambda client: client("lambda").delete_function(FunctionName="nobody"),
        ("lambda_/test_lambda_api", "TestLambdaFunction::test_function_lifecycle", "delete_postdelete"),
    ),
    "a parameter that is not there": (
        lambda client: client("ssm").get_parameter(Name="/cdk-bootstrap/none/version"),
        ("cloudformation/api/test_changesets", "TestUpdates::test_deleting_resource", "get-parameter-error"),
    ),
    "events of a stack that is not there": (
        lambda client: client("cloudformation").describe_stack_events(StackName="nobody"),
        (
            "cloudformation/api/test_stacks",
            "test_describe_stack_events_errors",
            "describe_stack_events_stack_not_found",
        ),
    ),
    "a policy that is not there": (
        lambda client: client("iam").attach_role_policy(
            RoleName=role(client, "recorded-attach"), PolicyArn="arn:aws:iam::123456789012:policy/nobody"
        ),
        ("iam/test_iam", "TestIAMIntegrations::test_role_attach_policy", "valid_arn_not_existent"),
    ),
}


def role(client, name):
    client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)
    return name


@pytest.mark.parametrize("what", ERRORS)
def test_error_code_and_status_equal_recorded_aws_answer(client, recorded, what):
    call, place = ERRORS[what]
    expected = recorded(*place)
    with pytest.raises(ClientError) as refused:
        call(client)
    response = refused.value.response
    status = [answer["ResponseMetadata"]["HTTPStatusCode"] for answer in (response, expected)]
    assert (response["Error"]["Code"], status[0]) == (expected["Error"]["Code"], status[1])


# ------------------------------------------------------------------------------------------------------------- shapes


def one_stack(client, name):
    stacks = client("cloudformation")
    body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}, "Description": "x"})
    stacks.create_change_set(StackName=name, ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=body)
    changes = stacks.describe_change_set(StackName=name, ChangeSetName="c")
    stacks.execute_change_set(StackName=name, ChangeSetName="c")
    description = stacks.describe_stacks(StackName=name)["Stacks"][0]
    stacks.delete_stack(StackName=name)
    return changes, description


def one_alarm(client):
    client("cloudwatch").put_metric_alarm(
        AlarmName="recorded",
        MetricName="m",
        Namespace="n",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        Statistic="Sum",
        ComparisonOperator="GreaterThanThreshold",
    )
    return client("cloudwatch").describe_alarms(AlarmNames=["recorded"])


def list_names(client):
    bucket(client, "recorded-listed")
    client("s3").put_object(Bucket="recorded-listed", Key="test/bar", Body=b"x")
    return client("s3").list_objects_v2(Bucket="recorded-listed", Prefix="test/")


def one_key(client):
    key = client("kms").create_key(Description="x")["KeyMetadata"]["KeyId"]
    return client("kms").describe_key(KeyId=key)


LIFECYCLE = ("cloudformation/api/test_stacks", "TestStacksApi::test_stack_description_lifecycle[no-tags]")
CHANGES = {
    "Capabilities",
    "Changes.ResourceChange.Details",
    "Changes.ResourceChange.Scope",
    "IncludeNestedStacks",
    "RollbackConfiguration",
}
STACKS = {"ChangeSetId", "DriftInformation", "LastUpdatedTime", "RollbackConfiguration"}
KEYS = {"KeyMetadata.CurrentKeyMaterialId", "KeyMetadata.KeyUsage", "KeyMetadata.MultiRegion"}
"""moto gives a key's use only where it was asked for with one; the doctor's tests ask."""
SHAPES = {
    "a change set": (
        lambda client: one_stack(client, "recorded-change")[0],
        (*LIFECYCLE, "change-set-pre-execute"),
        CHANGES,
    ),
    "a stack": (lambda client: one_stack(client, "recorded-stack")[1], (*LIFECYCLE, "stack-post-execute"), STACKS),
    "a role": (
        lambda client: client("iam").get_role(RoleName=role(client, "recorded-shape")),
        ("iam/test_iam", "TestIAMIntegrations::test_update_assume_role_policy", "created_role"),
        set(),
    ),
    "an alarm": (
        one_alarm,
        (
            "cloudwatch/test_cloudwatch",
            "TestCloudwatch::test_describe_alarms_converts_date_format_correctly[query]",
            "describe-alarms",
        ),
        {"MetricAlarms.StateTransitionedTimestamp"},
    ),
    "objects": (
        list_names,
        ("s3/test_s3_list_operations", "TestS3ListObjectsV2::test_list_objects_v2_with_prefix", "list-objects-v2-1"),
        {"Contents.ChecksumType"},
    ),
    "a key": (
        one_key,
        ("kms/test_kms", "TestKMS::test_get_key_in_different_region", "describe-key-same-specific-region-with-id"),
        KEYS,
    ),
}


def kind(value):
    """The type of a value as JSON; a moment is written as text, and a recorded number may be a word."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict | list):
        return type(value).__name__
    return "number" if isinstance(value, int | float) else "text"


def lacking(expected, present, place=""):
    """The fields of a recorded answer that another lacks, or has of another type; of a list the first item counts."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            if name == "ResponseMetadata":
                continue
            if name not in present:
                yield f"{place}{name}"
            else:
                yield from lacking(value, present[name], f"{place}{name}.")
    elif isinstance(expected, list):
        if not isinstance(present, list):
            yield f"{place}: {kind(present)}"
        elif expected and present:
            yield from lacking(expected[0], present[0], place)
    elif kind(expected) != kind(present) and not (isinstance(expected, str) and isinstance(present, datetime)):
        yield f"{place.rstrip('.')}: {kind(present)}, {kind(expected)} at AWS"


@pytest.mark.parametrize("what", SHAPES)
def test_answer_fields_equal_recorded_aws_answer(client, recorded, what):
    call, place, left_out = SHAPES[what]
    assert set(lacking(recorded(*place), call(client))) == left_out
