"""What CloudFormation says of a stack, in the form that tests compare."""

REGION = "us-west-2"


def events(cloudformation, name, logical_id=None):
    found = reversed(cloudformation.describe_stack_events(StackName=name)["StackEvents"])
    return [
        (each["LogicalResourceId"], each["ResourceStatus"], each.get("ResourceStatusReason", ""))
        for each in found
        if logical_id in (None, each["LogicalResourceId"])
    ]


def outputs(stack):
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
