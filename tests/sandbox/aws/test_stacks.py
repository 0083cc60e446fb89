"""CloudFormation of the embedded AWS: operations on whole stacks."""

import json
import time

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.aws.answers import REGION, SUBNET, VPC, events, outputs

BROKEN = {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "192.168.0.0/24"}}


class TestStacks:
    def test_resources_are_created_after_dependencies(self, stack, cloudformation):
        deployed = stack(
            {"Subnet": SUBNET, "Later": {"Type": "AWS::SNS::Topic", "DependsOn": ["Subnet"]}, "Vpc": VPC},
            outputs={"Subnet": {"Value": {"Ref": "Subnet"}}},
        )
        assert deployed["StackStatus"] == "CREATE_COMPLETE"
        created = [
            name for name, status, _ in events(cloudformation, deployed["StackName"]) if status == "CREATE_COMPLETE"
        ]
        assert created == ["Vpc", "Subnet", "Later", deployed["StackName"]]
        assert outputs(deployed)["Subnet"].startswith("subnet-")

    def test_stack_events_have_distinct_times(self, stack, cloudformation):
        deployed = stack({"Vpc": VPC, "Subnet": SUBNET})
        stack_events = cloudformation.describe_stack_events(StackName=deployed["StackName"])["StackEvents"]
        times = [
            event["Timestamp"].replace(microsecond=event["Timestamp"].microsecond // 1000 * 1000)
            for event in stack_events
        ]
        assert sorted(set(times), reverse=True) == times

    def test_refused_resource_rolls_stack_back(self, stack, client, cloudformation):
        before = len(client("ec2").describe_vpcs()["Vpcs"])
        deployed = stack({"Vpc": VPC, "Subnet": BROKEN})
        assert deployed["StackStatus"] == "ROLLBACK_COMPLETE"
        (failed,) = [e for e in events(cloudformation, deployed["StackName"], "Subnet") if e[1] == "CREATE_FAILED"]
        assert "192.168.0.0/24" in failed[2]
        assert len(client("ec2").describe_vpcs()["Vpcs"]) == before

    def test_rolled_back_stack_is_not_updated(self, stack):
        stack({"Vpc": VPC, "Subnet": BROKEN})
        with pytest.raises(ClientError, match="is in ROLLBACK_COMPLETE state and can not be updated"):
            stack({"Vpc": VPC})

    def test_rolled_back_stack_has_no_outputs(self, stack):
        deployed = stack({"Vpc": VPC, "Subnet": BROKEN}, outputs={"Subnet": {"Value": {"Ref": "Subnet"}}})
        assert "Outputs" not in deployed

    def test_stack_update_adds_and_removes_resources(self, stack, client):
        stack({"Vpc": VPC, "Subnet": SUBNET})
        updated = stack({"Vpc": VPC, "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "added"}}})
        assert updated["StackStatus"] == "UPDATE_COMPLETE"
        assert any("added" in topic["TopicArn"] for topic in client("sns").list_topics()["Topics"])
        filters = [{"Name": "cidr-block", "Values": ["10.9.0.0/24"]}]
        assert client("ec2").describe_subnets(Filters=filters)["Subnets"] == []

    def test_failed_stack_update_rolls_back(self, stack, client, cloudformation):
        bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "goes-back"}}
        versioned = {"VersioningConfiguration": {"Status": "Enabled"}}
        stack({"Vpc": VPC, "Bucket": bucket})
        changed = {"Type": "AWS::S3::Bucket", "Properties": bucket["Properties"] | versioned}
        updated = stack(
            {"Vpc": VPC, "Bucket": changed, "New": {"Type": "AWS::SNS::Topic"}, "Bad": BROKEN | {"DependsOn": "New"}}
        )
        assert updated["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
        assert ("New", "DELETE_COMPLETE", "") in events(cloudformation, updated["StackName"])
        remaining = cloudformation.list_stack_resources(StackName=updated["StackName"])["StackResourceSummaries"]
        assert {resource["LogicalResourceId"] for resource in remaining} == {"Vpc", "Bucket"}

    def test_change_set_without_changes_fails_with_reason(self, stack, cloudformation):
        deployed = stack({"Vpc": VPC})
        template = json.dumps({"Resources": {"Vpc": VPC}, "Outputs": {}})
        cloudformation.create_change_set(
            StackName=deployed["StackName"], ChangeSetName="again", ChangeSetType="UPDATE", TemplateBody=template
        )
        again = cloudformation.describe_change_set(StackName=deployed["StackName"], ChangeSetName="again")
        assert again["Status"] == "FAILED"
        assert "didn't contain changes" in again["StatusReason"]

    def test_change_sets_of_two_stacks_may_share_a_name(self, cloudformation):
        for name in ("one", "two"):
            cloudformation.create_change_set(
                StackName=name,
                ChangeSetName="same",
                ChangeSetType="CREATE",
                TemplateBody=json.dumps({"Resources": {name: {"Type": "AWS::SNS::Topic"}}}),
            )
        for name in ("one", "two"):
            cloudformation.execute_change_set(StackName=name, ChangeSetName="same")
        for name in ("one", "two"):
            summaries = cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
            assert [summary["LogicalResourceId"] for summary in summaries] == [name]
            cloudformation.delete_stack(StackName=name)

    def test_stack_recreated_under_deleted_name_with_same_change_set_name(self, cloudformation):
        """As the CDK does after `cdk destroy`: the first one's change set went with it."""
        body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        ids = []
        for _ in range(2):
            change = {"StackName": "again-and-again", "ChangeSetName": "cdk-deploy-change-set"}
            cloudformation.create_change_set(**change, ChangeSetType="CREATE", TemplateBody=body)
            cloudformation.execute_change_set(**change)
            (deployed,) = cloudformation.describe_stacks(StackName="again-and-again")["Stacks"]
            assert deployed["StackStatus"] == "CREATE_COMPLETE"
            ids.append(deployed["StackId"])
            cloudformation.delete_stack(StackName="again-and-again")
        assert ids[0] != ids[1]

    def test_change_set_of_deleted_stack_is_not_found(self, cloudformation):
        body = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        change = {"StackName": "gone-stack", "ChangeSetName": "first"}
        arn = cloudformation.create_change_set(**change, ChangeSetType="CREATE", TemplateBody=body)["Id"]
        cloudformation.execute_change_set(**change)
        cloudformation.delete_stack(StackName="gone-stack")
        with pytest.raises(ClientError, match="ChangeSetNotFound"):
            cloudformation.execute_change_set(ChangeSetName=arn)

    def test_circular_dependency_refused_before_creation(self, cloudformation):
        first = {"Type": "AWS::SNS::Topic", "DependsOn": "B"}
        template = json.dumps({"Resources": {"A": first, "B": {"Type": "AWS::SNS::Topic", "DependsOn": "A"}}})
        with pytest.raises(ClientError, match="Circular dependency"):
            cloudformation.create_change_set(
                StackName="circle", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=template
            )

    def test_missing_ssm_parameter_is_named(self, cloudformation):
        parameter = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/not/there"}
        template = json.dumps({"Parameters": {"P": parameter}, "Resources": {"A": {"Type": "AWS::SNS::Topic"}}})
        with pytest.raises(ClientError, match="/not/there"):
            cloudformation.create_change_set(
                StackName="no-parameter", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=template
            )

    def test_stack_update_keeps_ssm_parameter_value(self, stack, client, cloudformation):
        client("ssm").put_parameter(Name="/bootstrap/version", Value="33", Type="String", Overwrite=True)
        parameter = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/bootstrap/version"}
        name = stack({"Vpc": VPC}, Parameters={"Version": parameter})["StackName"]
        topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Ref": "Version"}}}
        template = json.dumps({"Parameters": {"Version": parameter}, "Resources": {"Vpc": VPC, "Topic": topic}})
        cloudformation.create_change_set(
            StackName=name,
            ChangeSetName="keep",
            ChangeSetType="UPDATE",
            TemplateBody=template,
            Parameters=[{"ParameterKey": "Version", "UsePreviousValue": True}],
        )
        cloudformation.execute_change_set(StackName=name, ChangeSetName="keep")
        (arn,) = [e["TopicArn"] for e in client("sns").list_topics()["Topics"] if name[:20] in e["TopicArn"]]
        assert client("sns").get_topic_attributes(TopicArn=arn)["Attributes"]["DisplayName"] == "33"

    def test_list_parameter_described_as_text_with_commas(self, stack):
        listed = {"Names": {"Type": "CommaDelimitedList", "Default": "a,b"}}
        described = stack({"Vpc": VPC}, Parameters=listed)
        assert described["Parameters"] == [{"ParameterKey": "Names", "ParameterValue": "a,b"}]

    def test_stack_with_export_in_use_is_not_deleted(self, stack, cloudformation):
        exported = {"Id": {"Value": {"Ref": "Vpc"}, "Export": {"Name": "net-id"}}}
        stack({"Vpc": VPC}, name="exports", outputs=exported)
        subnet = {
            "Type": "AWS::EC2::Subnet",
            "Properties": SUBNET["Properties"] | {"VpcId": {"Fn::ImportValue": "net-id"}},
        }
        stack({"Subnet": subnet}, name="imports")
        cloudformation.delete_stack(StackName="exports")
        retained = cloudformation.describe_stacks(StackName="exports")["Stacks"][0]
        assert retained["StackStatus"] == "DELETE_FAILED"
        assert "in use by imports" in events(cloudformation, "exports")[-1][2]

    def test_availability_zones_belong_to_stack_region(self, stack):
        deployed = stack({"Vpc": VPC}, outputs={"Zone": {"Value": {"Fn::Select": [1, {"Fn::GetAZs": ""}]}}})
        assert outputs(deployed)["Zone"] == "us-west-2b"

    def test_retained_resource_stays_after_deletion(self, stack, client, cloudformation):
        stack(
            {"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Properties": {"BucketName": "stays"}}}
        )
        name = next(
            stack["StackName"]
            for stack in cloudformation.describe_stacks()["Stacks"]
            if "retained" in stack["StackName"]
        )
        cloudformation.delete_stack(StackName=name)
        assert "stays" in {bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]}


class TestTerminationProtection:
    def test_protected_stack_is_not_deleted(self, stack, client, cloudformation):
        name = stack({"Vpc": VPC})["StackName"]
        cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=True)
        assert cloudformation.describe_stacks(StackName=name)["Stacks"][0]["EnableTerminationProtection"] is True
        with pytest.raises(ClientError, match="cannot be deleted while TerminationProtection is enabled"):
            cloudformation.delete_stack(StackName=name)
        cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
        cloudformation.delete_stack(StackName=name)
        with pytest.raises(ClientError, match="does not exist"):
            cloudformation.describe_stacks(StackName=name)


def test_template_in_s3_found_by_ip_address(client, world_sandbox):
    """moto itself looks for "localhost" in the URL."""
    client("s3").create_bucket(Bucket="templates", CreateBucketConfiguration={"LocationConstraint": REGION})
    body = json.dumps({"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}).encode()
    client("s3").put_object(Bucket="templates", Key="a.json", Body=body)
    name = f"by-address-{time.monotonic_ns()}"
    client("cloudformation").create_stack(StackName=name, TemplateURL=f"{world_sandbox.endpoint}/templates/a.json")
    assert client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"


def test_template_with_failing_rule_refused(client):
    rule = {"Assertions": [{"Assert": {"Fn::Equals": ["a", "b"]}, "AssertDescription": "name a plan"}]}
    body = json.dumps({"Resources": {"A": {"Type": "AWS::SNS::Topic"}}, "Rules": {"Named": rule}})
    with pytest.raises(ClientError, match="name a plan"):
        client("cloudformation").create_stack(StackName="held-back", TemplateBody=body)
