"""The roles that stacks create, with every policy of each as IAM evaluates it: all references are sample ARNs."""

import json
import re
from functools import cache
from typing import NamedTuple

from moto.iam.aws_managed_policies import aws_managed_policies_data

from tests.infra.iam import ACCOUNT, listed

REGION = "us-east-2"
UUID = "8131d980-7fb5-11ee-9589-0a6424944f95"
STORE = "arn:aws:s3:::slipway-sample-store"
ARNS = {
    "AWS::CloudWatch::Alarm": "cloudwatch:{region}:{account}:alarm:{name}",
    "AWS::EKS::Cluster": "eks:{region}:{account}:cluster/{name}",
    "AWS::Lambda::Function": "lambda:{region}:{account}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{region}:{account}:log-group:{name}:*",
    "AWS::PCS::Cluster": "pcs:{region}:{account}:cluster/pcs_sample",
    "AWS::S3::Bucket": "s3:::{name}",
    "AWS::SNS::Topic": "sns:{region}:{account}:{name}",
    "AWS::SSM::Parameter": "ssm:{region}:{account}:parameter{name}",
    "AWS::SageMaker::Cluster": "sagemaker:{region}:{account}:cluster/abc123",
}
NAMES = {
    "AWS::EKS::Cluster": "Name",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SSM::Parameter": "Name",
}


class StackRole(NamedTuple):
    """A role of a stack: its ARN, the services that assume it, all its policies, and its boundary or None."""

    logical_id: str
    arn: str
    services: tuple[str, ...]
    documents: tuple[dict, ...]
    boundary: str | None


@cache
def aws_managed(arn):
    """The document of one of AWS's managed policies."""
    return json.loads(aws_managed_policies_data)[arn.rpartition("/")[2]]["Document"]


def roles(assembly):
    """Every role of an assembly's stacks."""
    return [
        role
        for file, template in assembly.templates.items()
        for role in _roles(Stack(file.removesuffix(".template.json"), template))
    ]


class Stack:
    """A stack with the sample values of its references."""

    def __init__(self, name, template):
        self.name, self.resources = name, template["Resources"]
        self.outputs = template.get("Outputs", {})
        self.pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/{UUID}",
            "AWS::StackName": name,
            "AWS::URLSuffix": "amazonaws.com",
        }

    def value(self, of):
        """A value of the template without functions."""
        if isinstance(of, list):
            return [self.value(item) for item in of]
        if not isinstance(of, dict):
            return of
        if len(of) == 1:
            ((key, inner),) = of.items()
            function = FUNCTIONS.get(key)
            if function is not None:
                return function(self, inner)
        return {key: self.value(item) for key, item in of.items()}

    def imported(self, inner):
        """An export of another stack: the store, or an id."""
        text = self.value(inner)
        return STORE if "Bucket" in text and "Arn" in text else f"{text.rpartition('-')[2].lower()}-0123"

    def substituted(self, inner):
        """A text with pseudo parameters."""
        return re.sub(r"\$\{([^}]+)\}", lambda found: str(self.pseudo[found[1]]), inner)

    def arn(self, logical_id):
        """The ARN of a resource."""
        resource = self.resources[logical_id]
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::IAM::InstanceProfile"):
            word = {"Role": "role", "ManagedPolicy": "policy", "InstanceProfile": "instance-profile"}[kind[10:]]
            return f"arn:aws:iam::{ACCOUNT}:{word}{properties.get('Path', '/')}{self._name(logical_id)}"
        form = ARNS.get(kind)
        assert form is not None, f"no ARN of {kind} is known here: add it to ARNS"
        return "arn:aws:" + form.format(region=REGION, account=ACCOUNT, name=self._name(logical_id))

    def _name(self, logical_id):
        resource = self.resources[logical_id]
        key = NAMES.get(resource["Type"], "RoleName")
        named = resource.get("Properties", {}).get(key)
        name = f"{self.name}-{logical_id}-x" if named is None else self.value(named)
        return name.lower() if resource["Type"] == "AWS::S3::Bucket" else name

    def reference(self, logical_id):
        """The value of Ref."""
        kind = self.resources.get(logical_id, {}).get("Type", "")
        if kind in ("AWS::IAM::ManagedPolicy", "AWS::SNS::Topic"):
            return self.arn(logical_id)
        if kind in NAMES or kind == "AWS::IAM::Role":
            return self._name(logical_id)
        return f"{logical_id.lower()}-0123"

    def attribute(self, logical_id, name):
        """The value of Fn::GetAtt."""
        if name.endswith("Arn") and self.resources[logical_id]["Type"] in (*ARNS, "AWS::IAM::Role"):
            return self.arn(logical_id)
        if logical_id.startswith("ParallelCluster") or not name.endswith("Arn"):
            return f"{logical_id.lower()}-{name.lower()}"
        return self.arn(logical_id)


FUNCTIONS = {
    "Ref": lambda stack, inner: stack.pseudo.get(inner) or stack.reference(inner),
    "Fn::GetAtt": lambda stack, inner: stack.attribute(*inner),
    "Fn::Join": lambda stack, inner: inner[0].join(map(str, stack.value(inner[1]))),
    "Fn::Select": lambda stack, inner: stack.value(inner[1])[int(inner[0])],
    "Fn::Split": lambda stack, inner: stack.value(inner[1]).split(inner[0]),
    "Fn::Sub": Stack.substituted,
    "Fn::ImportValue": Stack.imported,
}
"""CloudFormation's functions."""


def _roles(stack):
    for logical_id, resource in stack.resources.items():
        if resource["Type"] != "AWS::IAM::Role":
            continue
        properties = resource["Properties"]
        trust = stack.value(properties["AssumeRolePolicyDocument"])["Statement"]
        services = tuple(
            service for statement in trust for service in listed(statement["Principal"].get("Service", []))
        )
        documents = [stack.value(policy["PolicyDocument"]) for policy in properties.get("Policies", ())]
        documents += [_document(stack, arn) for arn in properties.get("ManagedPolicyArns", ())]
        documents += [
            stack.value(other["Properties"]["PolicyDocument"])
            for other in stack.resources.values()
            if other["Type"] == "AWS::IAM::Policy" and {"Ref": logical_id} in other["Properties"].get("Roles", ())
        ]
        boundary = properties.get("PermissionsBoundary")
        yield StackRole(logical_id, stack.arn(logical_id), services, tuple(documents), stack.value(boundary))


def _document(stack, reference):
    if isinstance(reference, dict) and "Ref" in reference:
        return stack.value(stack.resources[reference["Ref"]]["Properties"]["PolicyDocument"])
    return aws_managed(stack.value(reference))


def managed_policies(assembly):
    """Every managed policy of an assembly's stacks by logical id: the stacks do not create all of their roles."""
    found = {}
    for file, template in assembly.templates.items():
        stack = Stack(file.removesuffix(".template.json"), template)
        for logical_id, resource in stack.resources.items():
            if resource["Type"] == "AWS::IAM::ManagedPolicy":
                found[logical_id] = stack.value(resource["Properties"]["PolicyDocument"])
    return found
