"""The data of a job is looked for in S3 before a launch deploys anything."""

import boto3
import pytest

from launcher import plan_file
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.data_prefixes import refuse_empty_data
from tests.emulators.loopback import QuietHandler, listening

REGION = "us-east-2"
PLAN = "slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\nrun: {data: [DATA]}\n"


@pytest.fixture
def bucket(account):
    """The account's S3 client, with a bucket of one object."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": REGION}
    s3 = boto3.client("s3", endpoint_url=account.moto, **keys)
    s3.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="corpus", Key="tokens/part-0", Body=b"x")
    # As S3's console makes folders.
    for key in ("folder/", "nested/", "nested/inner/"):
        s3.put_object(Bucket="corpus", Key=key, Body=b"")
    return s3


class Denying(QuietHandler):
    """S3 for a caller without s3:ListBucket."""

    def do_GET(self):
        self.reply(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>", "application/xml")


def check(environment, *uris):
    """What is said about the data of a plan."""
    data = ", ".join(f"{{uri: {uri}, path: /data/{number}}}" for number, uri in enumerate(uris))
    request, said = plan_file.loads(PLAN.replace("DATA", data)), []
    refuse_empty_data(request, Session(environment=environment, region=REGION), said.append)
    return said


def test_existing_data_prefix_is_accepted(account, bucket):
    assert check(account.environment, "s3://corpus/tokens", "s3://corpus") == []


@pytest.mark.parametrize(
    "uri",
    [
        "s3://corpus/token",
        "s3://corpus/tokens/part-0/",
        "s3://corpus/other/",
        "s3://corpus/folder",
        "s3://corpus/nested/",
    ],
)
def test_empty_data_prefix_refused_with_commands(account, bucket, uri):
    with pytest.raises(ImpossibleError) as refused:
        check(account.environment, "s3://corpus/tokens", uri)
    (finding,) = refused.value.findings
    assert (finding.path, finding.message) == ("run.data[1].uri", f"{uri} holds no object")
    assert f"aws s3 sync FOLDER {uri.rstrip('/')}/" in finding.hint


def test_missing_bucket_refused(account):
    with pytest.raises(ImpossibleError) as refused:
        check(account.environment, "s3://no-such-corpus/x")
    assert "there is no such bucket" in refused.value.findings[0].message


def test_data_without_list_right_is_noted_and_accepted(account):
    with listening(Denying) as url:
        (said,) = check({**account.environment, "AWS_ENDPOINT_URL": url}, "s3://corpus/tokens")
    assert said.startswith("run.data[0].uri: s3://corpus/tokens is not checked: ")
    assert "AccessDenied" in said
