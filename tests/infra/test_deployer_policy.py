"""The policy that docs/deployer-policy.md gives CloudFormation, against what the stacks are made of."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs/deployer-policy.md").read_text(encoding="utf-8")
PERSON, CLOUDFORMATION = (json.loads(block) for block in re.findall(r"(?s)```json\n(.*?)```", TEXT))

NEEDED_ACTIONS = """
AWS::ApplicationAutoScaling::ScalableTarget
    application-autoscaling: RegisterScalableTarget DeregisterScalableTarget DescribeScalableTargets
        PutScheduledAction DeleteScheduledAction DescribeScheduledActions TagResource
    iam: CreateServiceLinkedRole
AWS::ApplicationAutoScaling::ScalingPolicy
    application-autoscaling: PutScalingPolicy DeleteScalingPolicy DescribeScalingPolicies
    sagemaker: DescribeEndpoint DescribeEndpointConfig UpdateEndpointWeightsAndCapacities
        DescribeInferenceComponent UpdateInferenceComponentRuntimeConfig
AWS::Budgets::Budget
    budgets: ModifyBudget ViewBudget TagResource
AWS::CloudFormation::Stack
    cloudformation: CreateStack UpdateStack DeleteStack DescribeStacks CreateChangeSet
AWS::CloudWatch::Alarm
    cloudwatch: PutMetricAlarm DeleteAlarms DescribeAlarms TagResource UntagResource
AWS::CloudWatch::Dashboard
    cloudwatch: PutDashboard GetDashboard DeleteDashboards
AWS::EC2::EIP
    ec2: AllocateAddress ReleaseAddress DescribeAddresses CreateTags DeleteTags
AWS::EC2::FlowLog
    ec2: CreateFlowLogs DeleteFlowLogs DescribeFlowLogs
    logs: CreateLogDelivery DeleteLogDelivery
    iam: PassRole
AWS::EC2::InternetGateway
    ec2: CreateInternetGateway DeleteInternetGateway DescribeInternetGateways
AWS::EC2::NatGateway
    ec2: CreateNatGateway DeleteNatGateway DescribeNatGateways
AWS::EC2::Route
    ec2: CreateRoute DeleteRoute DescribeRouteTables
AWS::EC2::RouteTable
    ec2: CreateRouteTable DeleteRouteTable DescribeRouteTables
AWS::EC2::SecurityGroup
    ec2: CreateSecurityGroup DeleteSecurityGroup DescribeSecurityGroups AuthorizeSecurityGroupEgress
        AuthorizeSecurityGroupIngress RevokeSecurityGroupEgress RevokeSecurityGroupIngress
        DescribeSecurityGroupRules
AWS::EC2::SecurityGroupEgress
    ec2: AuthorizeSecurityGroupEgress RevokeSecurityGroupEgress DescribeSecurityGroupRules
AWS::EC2::SecurityGroupIngress
    ec2: AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress DescribeSecurityGroupRules
AWS::EC2::Subnet
    ec2: CreateSubnet DeleteSubnet DescribeSubnets ModifySubnetAttribute DescribeAvailabilityZones
AWS::EC2::SubnetRouteTableAssociation
    ec2: AssociateRouteTable DisassociateRouteTable DescribeRouteTables
AWS::EC2::VPC
    ec2: CreateVpc DeleteVpc DescribeVpcs DescribeVpcAttribute ModifyVpcAttribute
AWS::EC2::VPCEndpoint
    ec2: CreateVpcEndpoint DeleteVpcEndpoints DescribeVpcEndpoints ModifyVpcEndpoint
AWS::EC2::VPCGatewayAttachment
    ec2: AttachInternetGateway DetachInternetGateway DescribeVpcs
AWS::Events::Rule
    events: PutRule DeleteRule DescribeRule PutTargets RemoveTargets TagResource UntagResource
AWS::IAM::ManagedPolicy
    iam: CreatePolicy DeletePolicy GetPolicy GetPolicyVersion ListPolicyVersions CreatePolicyVersion
        DeletePolicyVersion TagPolicy UntagPolicy
AWS::IAM::Role
    iam: CreateRole DeleteRole GetRole GetRolePolicy PutRolePolicy DeleteRolePolicy AttachRolePolicy
        DetachRolePolicy TagRole UntagRole UpdateAssumeRolePolicy PutRolePermissionsBoundary
AWS::Lambda::Function
    lambda: CreateFunction DeleteFunction GetFunction UpdateFunctionCode UpdateFunctionConfiguration
        TagResource UntagResource
    iam: PassRole
    s3: GetObject
AWS::Lambda::Permission
    lambda: AddPermission RemovePermission
AWS::Logs::LogGroup
    logs: CreateLogGroup DeleteLogGroup PutRetentionPolicy DescribeLogGroups TagResource UntagResource
AWS::S3::Bucket
    s3: CreateBucket DeleteBucket PutBucketPublicAccessBlock PutBucketOwnershipControls PutBucketTagging
        PutEncryptionConfiguration PutLifecycleConfiguration PutBucketLogging PutBucketAcl
AWS::S3::BucketPolicy
    s3: GetBucketPolicy PutBucketPolicy DeleteBucketPolicy
AWS::SageMaker::Endpoint
    sagemaker: CreateEndpoint UpdateEndpoint DeleteEndpoint DescribeEndpoint AddTags DeleteTags
    cloudwatch: DescribeAlarms
AWS::SageMaker::EndpointConfig
    sagemaker: CreateEndpointConfig DeleteEndpointConfig DescribeEndpointConfig AddTags DeleteTags
    iam: PassRole
AWS::SageMaker::InferenceComponent
    sagemaker: CreateInferenceComponent UpdateInferenceComponent DeleteInferenceComponent
        DescribeInferenceComponent AddTags DeleteTags ListTags
AWS::SageMaker::Model
    sagemaker: CreateModel DeleteModel DescribeModel AddTags DeleteTags
    iam: PassRole
AWS::SNS::Subscription
    sns: Subscribe Unsubscribe GetSubscriptionAttributes ListSubscriptionsByTopic
AWS::SNS::Topic
    sns: CreateTopic DeleteTopic GetTopicAttributes SetTopicAttributes TagResource UntagResource
AWS::SNS::TopicPolicy
    sns: SetTopicAttributes
Custom::PclusterCluster
    lambda: InvokeFunction
"""
"""Actions of each resource type's handlers (CloudFormation registry, from memory; not run in an account)."""
BESIDE = {
    "lambda:DeleteLayerVersion",
    "lambda:GetLayerVersion",
    "lambda:PublishLayerVersion",
    "ssm:GetParameters",
}
"""The provider's layer, and the version of the bootstrap that every template asks for."""


def needed():
    """The actions by resource type."""
    found, service = {}, ""
    for line in NEEDED_ACTIONS.strip().splitlines():
        if not line.startswith(" "):
            actions = found[line] = set()
            continue
        for word in line.split():
            if word.endswith(":"):
                service = word
            else:
                actions.add(service + word)
    return found


def allowed(policy):
    statements = policy["Statement"]
    return {
        action
        for each in statements
        for action in (each["Action"] if isinstance(each["Action"], list) else [each["Action"]])
    }


def test_every_type_of_every_stack_is_allowed(assembly):
    types = {each["Type"] for template in assembly.templates.values() for each in template["Resources"].values()}
    assert types <= set(needed())
    assert set().union(*(needed()[each] for each in types)) <= allowed(CLOUDFORMATION)


def test_nothing_else_is_allowed():
    assert allowed(CLOUDFORMATION) == set().union(*needed().values()) | BESIDE


@pytest.mark.parametrize("policy", [PERSON, CLOUDFORMATION], ids=["person", "cloudformation"])
def test_no_action_is_a_wildcard_and_every_star_is_named(policy):
    assert not [action for action in allowed(policy) if "*" in action]
    starred = {each["Sid"] for each in policy["Statement"] if each["Resource"] == "*"}
    assert starred <= {"ReadWhatIsThere", "ReadWhatItSaid", "Network", "SignTokens", "WhatHasNoResource"}


def test_roles_and_policies_of_the_stacks_have_names_that_are_allowed(synthesised):
    """CloudFormation names them after their stack, or below their path."""
    (statement,) = (each for each in CLOUDFORMATION["Statement"] if each["Sid"] == "RolesAndPoliciesOfItsStacks")
    for name, template in synthesised("shared-network").templates.items():
        stack = name.removesuffix(".template.json")
        for resource in template["Resources"].values():
            if resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"):
                kind = "role" if resource["Type"].endswith("Role") else "policy"
                path = resource["Properties"].get("Path", "/").strip("/")
                arn = f"arn:aws:iam::123456789012:{kind}/{f'{path}/' if path else ''}{stack}-x"
                assert any(fnmatchcase(arn, pattern) for pattern in statement["Resource"]), arn
