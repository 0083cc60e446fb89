"""Whether a region is bootstrapped and an account has a service's role, against moto."""

import boto3
import pytest
from moto import mock_aws

from launcher.aws import bootstrap
from launcher.aws.service_roles import FSX, SPOT, has_service_role
from launcher.aws.session import Session
from launcher.model.errors import AwsError

REGION = "us-east-2"


@pytest.fixture
def bootstrap_session():
    with mock_aws():
        yield Session(
            environment={"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}, region=REGION
        )


def test_region_without_a_bootstrap_stack_has_no_version(bootstrap_session):
    assert bootstrap.version(bootstrap_session, None) is None


@pytest.mark.parametrize("qualifier", [None, "team"])
def test_bootstrap_version_is_read_from_the_parameter_of_the_qualifier(bootstrap_session, qualifier):
    ssm = boto3.client("ssm", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="y")
    ssm.put_parameter(Name=bootstrap.version_parameter(qualifier), Value="33", Type="String")
    assert bootstrap.version(bootstrap_session, qualifier) == 33
    assert bootstrap.version(bootstrap_session, "other") is None


def test_bootstrap_version_other_than_a_number_is_an_error(bootstrap_session):
    bootstrap_session.client("ssm").put_parameter(Name=bootstrap.version_parameter(None), Value="v33", Type="String")
    with pytest.raises(AwsError, match="'v33', expected a number"):
        bootstrap.version(bootstrap_session, None)


def test_missing_and_existing_staging_buckets_are_told_apart(bootstrap_session):
    name = bootstrap.staging_bucket(None, "123456789012", REGION)
    assert name == "cdk-hnb659fds-assets-123456789012-us-east-2"
    assert bootstrap.bucket_is_there(bootstrap_session, name) is False
    bootstrap_session.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    assert bootstrap.bucket_is_there(bootstrap_session, name) is True


def test_service_role_is_found_after_creation(bootstrap_session):
    assert has_service_role(bootstrap_session, SPOT) is False
    bootstrap_session.client("iam").create_role(
        RoleName="AWSServiceRoleForEC2Spot", Path="/aws-service-role/spot.amazonaws.com/", AssumeRolePolicyDocument="{}"
    )
    assert has_service_role(bootstrap_session, SPOT) is True
    assert has_service_role(bootstrap_session, FSX) is False
