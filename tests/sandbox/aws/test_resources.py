"""Buckets, networks, roles and functions of a template, read back through the APIs of the embedded AWS."""

import io
import json
import zipfile

import pytest
from botocore.exceptions import ClientError

from tests.sandbox import clients
from tests.sandbox.aws.answers import REGION, SUBNET, VPC, events, outputs

BUCKET = {
    "BucketName": "checkpoints",
    "VersioningConfiguration": {"Status": "Enabled"},
    "BucketEncryption": {
        "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    },
    "PublicAccessBlockConfiguration": {
        "BlockPublicAcls": True,
        "BlockPublicPolicy": True,
        "IgnorePublicAcls": True,
        "RestrictPublicBuckets": True,
    },
    "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
    "LifecycleConfiguration": {
        "Rules": [
            {"Id": "incomplete", "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
            {
                "Id": "superseded",
                "Status": "Enabled",
                "ExpirationInDays": 7,
                "NoncurrentVersionExpiration": {"NoncurrentDays": 3},
                "TagFilters": [{"Key": "slipway", "Value": "superseded"}],
            },
        ]
    },
}
BUCKET_POLICY = {
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": "arn:aws:s3:::checkpoints/*",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]
}


class TestBuckets:
    def test_bucket_template_settings_can_be_read_back(self, stack, client):
        policy = {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": BUCKET_POLICY}
        stack(
            {
                "Bucket": {"Type": "AWS::S3::Bucket", "Properties": BUCKET},
                "Policy": {"Type": "AWS::S3::BucketPolicy", "Properties": policy},
            }
        )
        s3, name = client("s3"), {"Bucket": "checkpoints"}
        assert s3.get_bucket_versioning(**name)["Status"] == "Enabled"
        rules = s3.get_bucket_encryption(**name)["ServerSideEncryptionConfiguration"]["Rules"]
        assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
        assert set(s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"].values()) == {True}
        ownership = s3.get_bucket_ownership_controls(**name)["OwnershipControls"]["Rules"]
        assert ownership == [{"ObjectOwnership": "BucketOwnerEnforced"}]
        lifecycle = {rule["ID"]: rule for rule in s3.get_bucket_lifecycle_configuration(**name)["Rules"]}
        assert lifecycle["incomplete"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
        assert lifecycle["superseded"]["Filter"] == {"Tag": {"Key": "slipway", "Value": "superseded"}}
        assert lifecycle["superseded"]["Expiration"] == {"Days": 7}
        assert json.loads(s3.get_bucket_policy(**name)["Policy"]) == BUCKET_POLICY
        # The rule against plain HTTP is shown and does not shut the sandbox's own users out.
        s3.put_object(**name, Key="step-1/manifest.json", Body=b"{}")
        assert s3.get_object(**name, Key="step-1/manifest.json")["Body"].read() == b"{}"
        for version in s3.list_object_versions(**name)["Versions"]:
            s3.delete_object(**name, Key=version["Key"], VersionId=version["VersionId"])

    def test_bucket_policy_on_conditional_writes_is_enforced(self, stack, client):
        statement = {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::careful/*/step-*/manifest.json",
            "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
        }
        policy = {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": {"Statement": [statement]}}
        stack(
            {
                "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "careful"}},
                "Policy": {"Type": "AWS::S3::BucketPolicy", "Properties": policy},
            }
        )
        s3, manifest = client("s3"), {"Bucket": "careful", "Key": "jobs/a/step-1/manifest.json"}

        with pytest.raises(ClientError, match="403"):
            s3.put_object(**manifest, Body=b"{}")
        s3.put_object(**manifest, Body=b"{}", IfNoneMatch="*")
        with pytest.raises(ClientError, match="PreconditionFailed"):
            s3.put_object(**manifest, Body=b"[]", IfNoneMatch="*")
        with pytest.raises(ClientError, match="403"):
            s3.put_object(**manifest, Body=b"[]", IfMatch=s3.head_object(**manifest)["ETag"])
        s3.put_object_tagging(**manifest, Tagging={"TagSet": [{"Key": "slipway", "Value": "superseded"}]})
        begun = s3.create_multipart_upload(**manifest)["UploadId"]
        part = s3.upload_part(**manifest, UploadId=begun, PartNumber=1, Body=b"{}")
        whole = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
        with pytest.raises(ClientError, match="403"):
            s3.complete_multipart_upload(**manifest, UploadId=begun, MultipartUpload=whole)
        s3.abort_multipart_upload(**manifest, UploadId=begun)
        s3.put_object(Bucket="careful", Key="jobs/a/step-1/other.json", Body=b"{}")

        assert s3.get_object(**manifest)["Body"].read() == b"{}"
        for content in s3.list_objects_v2(Bucket="careful")["Contents"]:
            s3.delete_object(Bucket="careful", Key=content["Key"])

    def test_bucket_with_objects_is_not_deleted(self, stack, client, cloudformation):
        name = stack({"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full"}}})["StackName"]
        client("s3").put_object(Bucket="full", Key="a", Body=b"a")
        cloudformation.delete_stack(StackName=name)
        assert cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "DELETE_FAILED"
        assert any("is not empty" in why for _, _, why in events(cloudformation, name, "Bucket"))
        client("s3").delete_object(Bucket="full", Key="a")

    def test_s3_requests_appear_in_access_log(self, client, world_sandbox):
        s3 = client("s3")
        s3.create_bucket(Bucket="logged", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket="logged", Key="step-2/part 0.bin", Body=b"x" * 1000)
        s3.get_object(Bucket="logged", Key="step-2/part 0.bin")["Body"].read()
        mine = [request for request in world_sandbox.s3_requests() if request.bucket == "logged" and request.key]
        assert [(request.method, request.key, request.status) for request in mine] == [
            ("PUT", "step-2/part 0.bin", 200),
            ("GET", "step-2/part 0.bin", 200),
        ]
        assert mine[0].sent >= 1000
        assert mine[1].bytes == 1000


class TestNetwork:
    def test_subnet_is_in_zone_of_zone_id(self, stack, client):
        deployed = stack({"Vpc": VPC, "Subnet": SUBNET}, outputs={"Subnet": {"Value": {"Ref": "Subnet"}}})
        (subnet,) = client("ec2").describe_subnets(SubnetIds=[outputs(deployed)["Subnet"]])["Subnets"]
        assert subnet["AvailabilityZoneId"] == "usw2-az2"
        assert subnet["AvailabilityZone"].startswith(REGION)
        assert subnet["DefaultForAz"] is False
        assert subnet["MapPublicIpOnLaunch"] is False
        assert {"Key": "Name", "Value": "nodes"} in subnet["Tags"]
        hostnames = client("ec2").describe_vpc_attribute(VpcId=subnet["VpcId"], Attribute="enableDnsHostnames")
        assert hostnames["EnableDnsHostnames"]["Value"] is True

    def test_security_group_accepts_rules_to_same_group(self, stack, client):
        group = {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {
                "GroupDescription": "efa",
                "VpcId": {"Ref": "Vpc"},
                "SecurityGroupEgress": [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}],
            },
        }
        permission = {"GroupId": {"Fn::GetAtt": ["Group", "GroupId"]}, "IpProtocol": "-1"}
        itself = {"Fn::GetAtt": ["Group", "GroupId"]}
        deployed = stack(
            {
                "Vpc": VPC,
                "Group": group,
                "In": {
                    "Type": "AWS::EC2::SecurityGroupIngress",
                    "Properties": permission | {"SourceSecurityGroupId": itself},
                },
                "Out": {
                    "Type": "AWS::EC2::SecurityGroupEgress",
                    "Properties": permission | {"DestinationSecurityGroupId": itself},
                },
            },
            outputs={"Group": {"Value": itself}},
        )
        group_id = outputs(deployed)["Group"]
        (security_group,) = client("ec2").describe_security_groups(GroupIds=[group_id])["SecurityGroups"]

        for rules in (security_group["IpPermissions"], security_group["IpPermissionsEgress"]):
            assert any(
                rule["IpProtocol"] == "-1" and [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group_id]
                for rule in rules
            )
        assert [r for r in security_group["IpPermissionsEgress"] if r["IpProtocol"] == "-1" and r["IpRanges"]] == []

    def test_network_stack_deletion_removes_every_resource(self, stack, client, cloudformation):
        ref = {"Ref": "Vpc"}
        resources = {
            "Vpc": VPC,
            "Subnet": SUBNET,
            "Gateway": {"Type": "AWS::EC2::InternetGateway"},
            "Attached": {
                "Type": "AWS::EC2::VPCGatewayAttachment",
                "Properties": {"VpcId": ref, "InternetGatewayId": {"Ref": "Gateway"}},
            },
            "Table": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": ref}},
            "Associated": {
                "Type": "AWS::EC2::SubnetRouteTableAssociation",
                "Properties": {"RouteTableId": {"Ref": "Table"}, "SubnetId": {"Ref": "Subnet"}},
            },
            "Out": {
                "Type": "AWS::EC2::Route",
                "DependsOn": "Attached",
                "Properties": {
                    "RouteTableId": {"Ref": "Table"},
                    "DestinationCidrBlock": "0.0.0.0/0",
                    "GatewayId": {"Ref": "Gateway"},
                },
            },
            "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}},
            "Nat": {
                "Type": "AWS::EC2::NatGateway",
                "Properties": {
                    "SubnetId": {"Ref": "Subnet"},
                    "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]},
                },
            },
            "S3": {
                "Type": "AWS::EC2::VPCEndpoint",
                "Properties": {
                    "VpcId": ref,
                    "ServiceName": f"com.amazonaws.{REGION}.s3",
                    "RouteTableIds": [{"Ref": "Table"}],
                },
            },
        }
        deployed = stack(resources, outputs={"Table": {"Value": {"Ref": "Table"}}, "Nat": {"Value": {"Ref": "Nat"}}})
        ec2, outputs_of_stack = client("ec2"), outputs(deployed)
        (table,) = ec2.describe_route_tables(RouteTableIds=[outputs_of_stack["Table"]])["RouteTables"]
        assert table["Associations"][0]["SubnetId"].startswith("subnet-")
        assert any(route.get("DestinationCidrBlock") == "0.0.0.0/0" for route in table["Routes"])

        # Another target of the route replaces the first in place.
        del resources["Out"]["Properties"]["GatewayId"]
        resources["Out"]["Properties"]["NatGatewayId"] = {"Ref": "Nat"}
        stack(resources, outputs={"Nat": {"Value": {"Ref": "Nat"}}})
        (table,) = ec2.describe_route_tables(RouteTableIds=[outputs_of_stack["Table"]])["RouteTables"]
        (out,) = [route for route in table["Routes"] if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        assert (out.get("NatGatewayId"), out.get("GatewayId")) == (outputs_of_stack["Nat"], None)

        cloudformation.delete_stack(StackName=deployed["StackName"])

        stack_tag = [{"Name": "tag:aws:cloudformation:stack-name", "Values": [deployed["StackName"]]}]
        assert ec2.describe_vpcs(Filters=stack_tag)["Vpcs"] == []
        (nat,) = ec2.describe_nat_gateways(NatGatewayIds=[outputs_of_stack["Nat"]])["NatGateways"]
        assert nat["State"] == "deleted"
        assert ec2.describe_internet_gateways(Filters=stack_tag)["InternetGateways"] == []
        assert ec2.describe_addresses(Filters=stack_tag)["Addresses"] == []


class TestRoles:
    def test_managed_policies_are_attached_to_role(self, stack, client):
        trust = {
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ]
        }
        arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
        role = {"RoleName": "node", "AssumeRolePolicyDocument": trust, "ManagedPolicyArns": [arn]}
        stack({"Role": {"Type": "AWS::IAM::Role", "Properties": role}})
        attached = client("iam").list_attached_role_policies(RoleName="node")["AttachedPolicies"]
        assert [policy["PolicyArn"] for policy in attached] == [arn]

    def test_changed_managed_policies_are_those_of_the_role(self, stack, client):
        trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        arns = [f"arn:aws:iam::aws:policy/{name}" for name in ("AmazonSSMManagedInstanceCore", "ReadOnlyAccess")]
        for given in ([arns[0]], arns, [arns[1]]):
            role = {"RoleName": "grows", "AssumeRolePolicyDocument": {"Statement": [trust]}, "ManagedPolicyArns": given}
            stack({"Role": {"Type": "AWS::IAM::Role", "Properties": role}})
            attached = client("iam").list_attached_role_policies(RoleName="grows")["AttachedPolicies"]
            assert sorted(policy["PolicyArn"] for policy in attached) == given


class TestFunctions:
    def test_function_with_layer_is_updated_in_place(self, stack, client):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", "def handler(*_): pass")
        client("s3").create_bucket(Bucket="code-of-layers", CreateBucketConfiguration={"LocationConstraint": REGION})
        client("s3").put_object(Bucket="code-of-layers", Key="code.zip", Body=packed.getvalue())
        code = {"S3Bucket": "code-of-layers", "S3Key": "code.zip"}
        trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        role = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}}
        for value in ("before", "after"):
            function = {
                "FunctionName": "layered",
                "Code": code,
                "Handler": "index.handler",
                "Runtime": "python3.12",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Layers": [{"Ref": "Layer"}],
                "Environment": {"Variables": {"WHEN": value}},
            }
            deployed = stack(
                {
                    "Role": {"Type": "AWS::IAM::Role", "Properties": role},
                    "Layer": {"Type": "AWS::Lambda::LayerVersion", "Properties": {"Content": code}},
                    "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
                },
                outputs={"Layer": {"Value": {"Ref": "Layer"}}},
            )
        configuration = client("lambda").get_function_configuration(FunctionName="layered")
        assert configuration["Environment"]["Variables"] == {"WHEN": "after"}
        (output,) = deployed["Outputs"]
        assert output["OutputValue"].startswith(f"arn:aws:lambda:{REGION}:")


class TestUnemulatedResources:
    def test_unknown_resource_types_accepted_and_reported(self, stack, world_sandbox):
        name = stack(
            {
                "Group": {"Type": "AWS::XRay::Group", "Properties": {"GroupName": "g"}},
                "Function": {"Type": "Custom::Thing", "Properties": {"ServiceToken": "arn:aws:lambda:x:1:function:f"}},
                "Topic": {
                    "Type": "AWS::SNS::Topic",
                    "Properties": {"DisplayName": {"Fn::GetAtt": ["Function", "Answer"]}},
                },
                "Vpc": VPC | {"Properties": VPC["Properties"] | {"Ipv4IpamPoolId": "ipam-pool-1"}},
            }
        )["StackName"]
        reasons = world_sandbox.not_emulated({name})
        assert "no model" in reasons["AWS::XRay::Group"]
        assert "Lambda" in reasons["Custom::Thing"]
        assert "not evaluated" in reasons["AWS::EC2::VPC.Ipv4IpamPoolId"]
        assert "AWS::SNS::Topic" not in reasons

    def test_unemulated_update_is_reported(self, stack, world_sandbox):
        stack({"Vpc": VPC})
        name = stack({"Vpc": VPC | {"Properties": VPC["Properties"] | {"EnableDnsHostnames": False}}})["StackName"]
        assert any(name.startswith("AWS::EC2::VPC.an update") for name in world_sandbox.not_emulated({name}))

    def test_unemulated_call_answers_501_and_is_reported(self, client, world_sandbox):
        with pytest.raises(ClientError) as refused:
            client("ec2").describe_capacity_block_status()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
        assert any(name.startswith("call to ec2") for name in world_sandbox.not_emulated())


def test_endpoint_answers_on_localhost_and_127_0_0_1(world_sandbox):
    by_address = world_sandbox.endpoint.replace("localhost", "127.0.0.1")
    for endpoint in (world_sandbox.endpoint, by_address):
        sts = clients.client(world_sandbox, "sts", endpoint_url=endpoint)
        assert sts.get_caller_identity()["Account"] == "123456789012"
