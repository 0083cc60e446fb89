"""A small network in a template, and CloudFormation's description of a stack in a comparable form."""

REGION = "us-west-2"
VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.9.0.0/16", "EnableDnsHostnames": True}}
SUBNET = {
    "Type": "AWS::EC2::Subnet",
    "Properties": {
        "VpcId": {"Ref": "Vpc"},
        "CidrBlock": "10.9.0.0/24",
        "AvailabilityZoneId": "usw2-az2",
        "Tags": [{"Key": "Name", "Value": "nodes"}],
    },
}


def events(cloudformation, name, logical_id=None):
    newest_first = reversed(cloudformation.describe_stack_events(StackName=name)["StackEvents"])
    return [
        (event["LogicalResourceId"], event["ResourceStatus"], event.get("ResourceStatusReason", ""))
        for event in newest_first
        if logical_id in (None, event["LogicalResourceId"])
    ]


def outputs(stack):
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
