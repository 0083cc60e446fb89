"""The checkpoint store: private, encrypted, retained, and never cleaned of data in use."""

from fnmatch import fnmatchcase

import pytest

from launcher.agent.checkpoint_keys import commit_key, object_key, part_key, second_commit_key
from launcher.sandbox.aws.buckets import UNCONDITIONAL


@pytest.fixture
def bucket_properties(synthesised):
    return synthesised("p5-spot").only("checkpoints", "AWS::S3::Bucket")


def rules(bucket):
    return {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}


class TestLifecycle:
    def test_only_superseded_and_staged_objects_expire(self, bucket_properties):
        expiring = {key: rule for key, rule in rules(bucket_properties).items() if "ExpirationInDays" in rule}
        assert set(expiring) == {"staged", "superseded"}
        assert expiring["superseded"]["TagFilters"] == [{"Key": "slipway", "Value": "superseded"}]
        assert (expiring["staged"]["Prefix"], expiring["staged"]["ExpirationInDays"]) == ("jobs/.work/", 30)

    def test_incomplete_uploads_are_aborted_after_2_days(self, bucket_properties):
        assert rules(bucket_properties)["incomplete"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}

    def test_checkpoint_bucket_has_no_versioning(self, bucket_properties):
        assert "VersioningConfiguration" not in bucket_properties


class TestAccess:
    def test_checkpoint_bucket_blocks_public_access(self, bucket_properties):
        assert set(bucket_properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert len(bucket_properties["PublicAccessBlockConfiguration"]) == 4

    def test_checkpoint_bucket_policy_denies_plain_http(self, synthesised):
        policy = synthesised("p5-spot").only("checkpoints", "AWS::S3::BucketPolicy")["PolicyDocument"]
        denied = [statement["Condition"] for statement in policy["Statement"] if statement["Effect"] == "Deny"]
        assert {"Bool": {"aws:SecureTransport": "false"}} in denied
        assert {statement["Effect"] for statement in policy["Statement"]} == {"Deny"}

    def test_checkpoint_bucket_policy_denies_overwriting_manifests(self, synthesised):
        policy = synthesised("p5-spot").only("checkpoints", "AWS::S3::BucketPolicy")["PolicyDocument"]
        (once,) = (statement for statement in policy["Statement"] if statement.get("Sid") == "WriteManifestsOnce")
        assert (once["Effect"], once["Principal"], once["Action"]) == ("Deny", {"AWS": "*"}, "s3:PutObject")
        assert once["Condition"] == UNCONDITIONAL
        pattern = once["Resource"]["Fn::Join"][1][-1]
        named = [commit_key(120), second_commit_key(120, "r1.a2")]
        others = [object_key("step-120/r1.a2/0-ab", name) for name in ("manifest.json", "a/manifest.json", "a.bin")]
        others += ["claim.json", part_key(step=120, session="r1.a2", part=0), "step-120/.metadata"]
        assert [fnmatchcase(f"/jobs/tiny/{key}", pattern) for key in named] == [True, True]
        assert not [key for key in others if fnmatchcase(f"/jobs/tiny/{key}", pattern)]

    def test_checkpoint_bucket_is_encrypted_with_s3_or_plan_key(self, bucket_properties, synthesised):
        def encryption(properties):
            (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            return rule

        assert encryption(bucket_properties)["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
        keyed = encryption(synthesised("p5en-capacity-block").only("checkpoints", "AWS::S3::Bucket"))
        assert keyed["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        assert keyed["ServerSideEncryptionByDefault"]["KMSMasterKeyID"].endswith(
            "key/1234abcd-12ab-34cd-56ef-1234567890ab"
        )
        assert keyed["BucketKeyEnabled"] is True

    def test_access_log_of_bucket_exists_only_on_request(self, bucket_properties, synthesised):
        assert "LoggingConfiguration" not in bucket_properties
        buckets = synthesised("p4d-lustre").resources("checkpoints", "AWS::S3::Bucket")
        (store,) = (bucket for bucket in buckets.values() if "LoggingConfiguration" in bucket)
        assert store["LoggingConfiguration"]["DestinationBucketName"]["Ref"] in buckets


LOGICAL_IDS = {"StoreBucket4FBDE984": "AWS::S3::Bucket", "StoreBucketPolicy972662E6": "AWS::S3::BucketPolicy"}
"""A change of one of these would make CloudFormation replace the bucket."""


class TestPermanence:
    def test_logical_ids_of_checkpoint_stack_are_unchanged(self, synthesised):
        resources = synthesised("p5-spot").template("checkpoints")["Resources"]
        assert {key: resource["Type"] for key, resource in resources.items()} == LOGICAL_IDS

    def test_checkpoint_bucket_is_retained_on_deletion(self, synthesised):
        resource = synthesised("p5-spot").template("checkpoints")["Resources"]["StoreBucket4FBDE984"]
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("Retain", "Retain")

    def test_only_checkpoint_stack_has_termination_protection(self, synthesised):
        stacks = synthesised("p5-spot").manifest
        protected = [key for key, stack in stacks.items() if stack["properties"].get("terminationProtection")]
        assert protected == ["slipway-p5-spot-checkpoints"]

    def test_plan_with_existing_store_creates_no_checkpoint_stack(self, synthesised):
        assembly = synthesised("existing-vpc")
        assert assembly.template("checkpoints") == {}
        assert assembly.template("training")["Outputs"]["StoreUri"]["Value"] == "s3://weights-of-the-team/runs/vpc"
