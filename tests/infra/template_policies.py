"""Policies in a template, compared with the Service Authorization Reference: every action, on its own resource type.

A reference to another resource becomes an ARN of that resource's type, so that a statement on the wrong resource is
detected; a reference joined with text becomes a wildcard.
"""

from tests.infra.iam import ACCOUNT, fits, formats, listed, unknown_actions

_PLACE = f"us-east-2:{ACCOUNT}"
ARNS = {
    "AWS::CloudWatch::Alarm": f"arn:aws:cloudwatch:{_PLACE}:alarm:x",
    "AWS::EKS::Cluster": f"arn:aws:eks:{_PLACE}:cluster/x",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/x",
    "AWS::Lambda::Function": f"arn:aws:lambda:{_PLACE}:function:x",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{_PLACE}:log-group:x:*",
    "AWS::S3::Bucket": "arn:aws:s3:::x",
    "AWS::SNS::Topic": f"arn:aws:sns:{_PLACE}:x",
}
"""An ARN for each resource type that the project's policies refer to."""
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-2",
    "AWS::StackId": f"arn:aws:cloudformation:{_PLACE}:stack/x/y",
}
DOCUMENTS = {
    "AWS::IAM::ManagedPolicy": ("PolicyDocument",),
    "AWS::IAM::Policy": ("PolicyDocument",),
    "AWS::IAM::Role": ("AssumeRolePolicyDocument",),
    "AWS::S3::BucketPolicy": ("PolicyDocument",),
    "AWS::SNS::TopicPolicy": ("PolicyDocument",),
}


def policies(template):
    """Every policy of a template, with the logical id of its resource."""
    for key, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        for name in DOCUMENTS.get(resource["Type"], ()):
            yield key, properties[name]
        if resource["Type"] == "AWS::IAM::Role":
            for policy in properties.get("Policies", ()):
                yield key, policy["PolicyDocument"]


def policy_complaints(template):
    """The errors in the policies of a template: logical id, statement, action."""
    complaints = []
    for key, document in policies(template):
        complaints += [(key, "no such action", action) for action in unknown_actions(document)]
        for statement in document["Statement"]:
            arns = [text(value, template) for value in listed(statement.get("Resource", []))]
            for action in listed(statement["Action"]):
                if arns and arns != ["*"] and not place(action, arns):
                    complaints.append((key, f"not on {', '.join(arns)}", action))
    return complaints


def place(action, arns):
    """Whether any of a statement's resources fits the action or, for a pattern, any action of the service."""
    service, _, name = action.partition(":")
    if "*" in name:
        return any(arn.split(":")[2] == service for arn in arns)
    return any(fits(arn, form) for arn in arns for form in formats(action))


def text(value, template):
    """A template's value as a possible ARN."""
    if isinstance(value, str):
        return value
    ((name, of),) = value.items()
    if name == "Fn::Join":
        return of[0].join(text(part, template) for part in of[1])
    if name == "Fn::Sub":
        return of.replace("${AWS::AccountId}", ACCOUNT)
    return _alone(name, of, template)


def _alone(name, of, template):
    """The value of a reference; the name of an import's export tells the resource type."""
    key = of[0] if isinstance(of, list) else of
    if name == "Fn::ImportValue":
        return ARNS["AWS::S3::Bucket"] if "Bucket" in key and "Arn" in key else "*"
    if key in PSEUDO:
        return PSEUDO[key]
    kind = template["Resources"].get(key, {}).get("Type")
    is_arn = (name == "Ref" and kind == "AWS::SNS::Topic") or (isinstance(of, list) and "Arn" in of[1])
    return ARNS[kind] if is_arn else "*"
