"""The IAM requests of CloudFormation when it creates a template's resources: action, ARN, and context.

A resource without its own name is named after its stack and its logical id (CloudFormation user guide, Name type); S3
uses the same name in lower case.
"""

import json
from pathlib import Path

from tests.infra.iam import ACCOUNT

PROVIDER = json.loads((Path(__file__).parent / "data/parallelcluster_provider.json").read_text(encoding="utf-8"))
REGION = "us-east-2"
PLAIN = {
    "AWS::Budgets::Budget": ("budgets:ModifyBudget", "budgets::{account}:budget/{name}", "Budget.BudgetName"),
    "AWS::CloudFormation::CustomResource": ("lambda:InvokeFunction", "lambda:{region}:{account}:function:{name}", None),
    "AWS::CloudFormation::Stack": (
        "cloudformation:CreateStack",
        "cloudformation:{region}:{account}:stack/{name}/8131d980",
        None,
    ),
    "AWS::CloudWatch::Alarm": ("cloudwatch:PutMetricAlarm", "cloudwatch:{region}:{account}:alarm:{name}", "AlarmName"),
    "AWS::CloudWatch::Dashboard": (
        "cloudwatch:PutDashboard",
        "cloudwatch::{account}:dashboard/{name}",
        "DashboardName",
    ),
    "AWS::EKS::AccessEntry": ("eks:CreateAccessEntry", "eks:{region}:{account}:cluster/slipway-x", None),
    "AWS::EKS::Addon": ("eks:CreateAddon", "eks:{region}:{account}:cluster/slipway-x", None),
    "AWS::EKS::Cluster": ("eks:CreateCluster", "eks:{region}:{account}:cluster/{name}", "Name"),
    "AWS::EKS::Nodegroup": ("eks:CreateNodegroup", "eks:{region}:{account}:cluster/slipway-x", None),
    "AWS::EKS::PodIdentityAssociation": (
        "eks:CreatePodIdentityAssociation",
        "eks:{region}:{account}:cluster/slipway-x",
        None,
    ),
    "AWS::Events::Rule": ("events:PutRule", "events:{region}:{account}:rule/{name}", "Name"),
    "AWS::FSx::FileSystem": ("fsx:CreateFileSystem", "fsx:{region}:{account}:file-system/fs-1", None),
    "AWS::Lambda::EventInvokeConfig": (
        "lambda:PutFunctionEventInvokeConfig",
        "lambda:{region}:{account}:function:{name}",
        None,
    ),
    "AWS::Lambda::Function": ("lambda:CreateFunction", "lambda:{region}:{account}:function:{name}", "FunctionName"),
    "AWS::Lambda::LayerVersion": ("lambda:PublishLayerVersion", "lambda:{region}:{account}:layer:{name}", "LayerName"),
    "AWS::Lambda::Permission": ("lambda:AddPermission", "lambda:{region}:{account}:function:{name}", None),
    "AWS::Logs::LogGroup": ("logs:CreateLogGroup", "logs:{region}:{account}:log-group:{name}", "LogGroupName"),
    "AWS::S3::Bucket": ("s3:CreateBucket", "s3:::{lower}", "BucketName"),
    "AWS::SNS::Topic": ("sns:CreateTopic", "sns:{region}:{account}:{name}", "TopicName"),
    "AWS::SSM::Document": ("ssm:CreateDocument", "ssm:{region}:{account}:document/{name}", "Name"),
    "AWS::SageMaker::Cluster": ("sagemaker:CreateCluster", "sagemaker:{region}:{account}:cluster/abc", None),
    "AWS::SageMaker::Endpoint": (
        "sagemaker:CreateEndpoint",
        "sagemaker:{region}:{account}:endpoint/{name}",
        "EndpointName",
    ),
    "AWS::SageMaker::EndpointConfig": (
        "sagemaker:CreateEndpointConfig",
        "sagemaker:{region}:{account}:endpoint-config/Config-x",
        None,
    ),
    "AWS::SageMaker::InferenceComponent": (
        "sagemaker:CreateInferenceComponent",
        "sagemaker:{region}:{account}:inference-component/{name}",
        "InferenceComponentName",
    ),
    "AWS::SageMaker::Model": ("sagemaker:CreateModel", "sagemaker:{region}:{account}:model/Model-x", None),
    "Custom::HyperPodChart": ("lambda:InvokeFunction", "lambda:{region}:{account}:function:{name}", None),
    "Custom::PclusterCluster": (
        "lambda:InvokeFunction",
        "lambda:{region}:{account}:function:pcluster-cfn-8131d980",
        None,
    ),
}


_LOGS = "logs:{region}:{account}"
CAUSED = {
    "AWS::EKS::Cluster": (
        (
            "iam:CreateServiceLinkedRole",
            "iam::{account}:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS",
        ),
    ),
    "AWS::Logs::LogGroup": (("logs:PutRetentionPolicy", _LOGS + ":log-group:{name}"),),
    "AWS::Logs::DeliverySource": (
        ("logs:PutDeliverySource", _LOGS + ":delivery-source:{name}"),
        ("pcs:AllowVendedLogDeliveryForResource", "pcs:{region}:{account}:cluster/pcs_sample"),
    ),
    "AWS::Logs::DeliveryDestination": (("logs:PutDeliveryDestination", _LOGS + ":delivery-destination:{name}"),),
    "AWS::Logs::Delivery": (
        ("logs:CreateDelivery", _LOGS + ":delivery:8131d980"),
        ("logs:CreateDelivery", _LOGS + ":delivery-source:{source}"),
        ("logs:CreateDelivery", _LOGS + ":delivery-destination:{source}"),
        ("logs:GetDelivery", _LOGS + ":delivery:8131d980"),
        *((f"logs:{call}", "*") for call in ("DescribeLogGroups", "DescribeResourcePolicies", "PutResourcePolicy")),
    ),
}
"""Further requests with the deployer's rights: service-linked role of EKS, which writes the control plane's log (EKS
user guide, "Using roles for Amazon EKS clusters"), and of log deliveries (CloudWatch Logs user guide, "Logs sent to
CloudWatch Logs", V2 permissions)."""


def _calls_caused_by(kind, properties, name):
    for action, form in CAUSED.get(kind, ()):
        source = _text(properties.get("DeliverySourceName", ""))
        arn = "*" if form == "*" else _arn(form.replace("{source}", source), name)
        service = {"AWSServiceName": "eks.amazonaws.com"} if action == "iam:CreateServiceLinkedRole" else {}
        yield action, arn, service


def made(assembly):
    """The requests of an assembly's stacks."""
    calls = []
    for file, template in assembly.templates.items():
        stack = file.removesuffix(".template.json")
        for logical_id, resource in template["Resources"].items():
            kind, properties = resource["Type"], resource.get("Properties", {})
            if kind == "AWS::IAM::Role":
                calls += _role(template, stack, logical_id, properties)
            elif kind == "AWS::IAM::ManagedPolicy":
                calls.append(("iam:CreatePolicy", _policy_arn(stack, logical_id, properties), {}))
            elif kind in PLAIN:
                action, form, key = PLAIN[kind]
                calls.append((action, _arn(form, _names_in(properties, key) or f"{stack}-{logical_id}-x"), {}))
            calls += _calls_caused_by(
                kind,
                properties,
                _names_in(properties, "LogGroupName" if kind == "AWS::Logs::LogGroup" else "Name")
                or f"{stack}-{logical_id}-x",
            )
    return calls


def nested(*, with_role):
    """The requests of the provider's stack and its nested stack; `with_role`: the provider creates its own role."""
    stack, calls = "slipway-x-training-ParallelClusterProvider-x", []
    # The alternative to the nested stack is one of our own, from the same template.
    for resource in (*PROVIDER["provider"], *PROVIDER["policies"]):
        if resource.get("without_role") and not with_role:
            continue
        name = resource.get("name") or f"{stack}-{resource['logical_id']}-x"
        if resource["type"] == "AWS::IAM::Role":
            calls += _role_of(f"arn:aws:iam::{ACCOUNT}:role/{name}", resource["trusted"], resource["attached"])
        elif resource["type"] == "AWS::IAM::ManagedPolicy":
            calls.append(("iam:CreatePolicy", f"arn:aws:iam::{ACCOUNT}:policy/{name}", {}))
            if "attached_to" in resource:
                role = f"arn:aws:iam::{ACCOUNT}:role/{resource['attached_to']}"
                policy = f"arn:aws:iam::{ACCOUNT}:policy/{name}"
                calls.append(("iam:AttachRolePolicy", role, {"PolicyARN": policy}))
        else:
            action, form, _ = PLAIN[resource["type"]]
            calls.append((action, _arn(form, name), {}))
    return calls


def _role(template, stack, logical_id, properties):
    """The requests for the creation of a role."""
    trust = properties["AssumeRolePolicyDocument"]["Statement"]
    services = [statement["Principal"]["Service"] for statement in trust if "Service" in statement["Principal"]]
    attached = [_attach(template, stack, arn) for arn in properties.get("ManagedPolicyArns", ())]
    path = properties.get("Path", "/")
    name = properties.get("RoleName") or f"{stack}-{logical_id}-x"
    return _role_of(f"arn:aws:iam::{ACCOUNT}:role{path}{name}", services, attached)


def _role_of(arn, services, attached):
    calls = [(f"iam:{action}", arn, {}) for action in ("CreateRole", "DeleteRole", "PutRolePolicy", "TagRole")]
    calls += [("iam:AttachRolePolicy", arn, {"PolicyARN": policy_arn}) for policy_arn in attached]
    return calls + [("iam:PassRole", arn, {"PassedToService": service}) for service in services]


def _attach(template, stack, value):
    """The ARN of a policy that is attached to a role."""
    if isinstance(value, dict) and "Ref" in value:
        return _policy_arn(stack, value["Ref"], template["Resources"][value["Ref"]]["Properties"])
    return _text(value)


def _policy_arn(stack, logical_id, properties):
    return f"arn:aws:iam::{ACCOUNT}:policy{properties.get('Path', '/')}{stack}-{logical_id}-x"


def _names_in(properties, key):
    """The name at a path of a template's properties; None without a name."""
    if key is None:
        return None
    value = properties
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return _text(value) if value is not None else None


def _text(value):
    """A string of a template; values known only in an account are replaced by samples."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return value["Fn::Join"][0].join(map(_text, value["Fn::Join"][1]))
    return {"AWS::Partition": "aws", "AWS::AccountId": ACCOUNT, "AWS::Region": REGION}.get(value.get("Ref"), "x")


def _arn(form, name):
    return "arn:aws:" + form.format(account=ACCOUNT, region=REGION, name=name, lower=name.lower())
