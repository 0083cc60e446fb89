"""The calls of ParallelCluster's provider and of its nodes for one cluster, as they are made under the boundary.

From ParallelCluster's published policies (aws/aws-parallelcluster 451cc53, parallelcluster-policies.yaml), without
images, Batch and EFS, which no plan uses, with the names and tags that ParallelCluster 3.16.1 gives (templates/*.py).
"""

from tests.infra.iam import ACCOUNT

_PLACE = f"us-east-2:{ACCOUNT}"
TAGGED = {"ResourceTag/slipway_cluster": "x", "ResourceTag/parallelcluster_cluster-name": "slipway-x"}
CREATED = {"CreateAction": "RunInstances", "TagKeys": ["slipway:cluster", "parallelcluster:cluster-name"]}
_EC2 = f"arn:aws:ec2:{_PLACE}"
_ROLE = f"arn:aws:iam::{ACCOUNT}:role/parallelcluster/slipway-x/RoleHeadNode-abc"
_PROFILE = f"arn:aws:iam::{ACCOUNT}:instance-profile/parallelcluster/slipway-x/HeadNode-abc"
_STACK = f"arn:aws:cloudformation:{_PLACE}:stack/slipway-x/8131d980"
_FUNCTION = f"arn:aws:lambda:{_PLACE}:function:pcluster-CleanupResources-8131d980"
_BUCKET = "arn:aws:s3:::parallelcluster-0a1b2c3d-v1-do-not-delete"
_LOG = f"arn:aws:logs:{_PLACE}:log-group:/aws/parallelcluster/slipway-x-202611280500"
_KEY = f"arn:aws:kms:{_PLACE}:key/1234abcd"


def _each(actions, arn, **context):
    return [(action, arn, context) for action in actions.split()]


def calls(boundary):
    """Action, ARN and context of every call; `boundary` is the boundary of the roles that it creates."""
    bounded = {"PermissionsBoundary": boundary}
    through_ec2 = {"ViaService": "ec2.us-east-2.amazonaws.com"}
    return [
        *_each("ec2:DescribeInstances ec2:DescribeInstanceTypes ec2:DescribeImages ec2:DescribeSubnets", "*"),
        *_each("ec2:RunInstances", f"{_EC2}:instance/*"),
        *_each("ec2:CreateTags", f"{_EC2}:instance/i-1", **CREATED),
        *_each("ec2:CreateTags", f"{_EC2}:volume/vol-1", **CREATED),
        *_each("ec2:CreateTags", f"{_EC2}:security-group/sg-1", **{**CREATED, "CreateAction": "CreateSecurityGroup"}),
        *_each("ec2:CreateTags ec2:DeleteTags", f"{_EC2}:instance/i-1", **TAGGED, TagKeys=["slipway:cluster"]),
        *_each("ec2:CreateFleet", f"{_EC2}:fleet/*"),
        *_each(
            "ec2:CreateLaunchTemplate ec2:CreateLaunchTemplateVersion ec2:DeleteLaunchTemplate",
            f"{_EC2}:launch-template/*",
        ),
        *_each("ec2:CreateNetworkInterface ec2:DeleteNetworkInterface", f"{_EC2}:network-interface/*"),
        *_each("ec2:AttachNetworkInterface ec2:ModifyNetworkInterfaceAttribute", f"{_EC2}:network-interface/eni-1"),
        *_each("ec2:CreatePlacementGroup ec2:DeletePlacementGroup", f"{_EC2}:placement-group/x"),
        *_each("ec2:CreateSecurityGroup", f"{_EC2}:security-group/*"),
        *_each(
            "ec2:AuthorizeSecurityGroupIngress ec2:AuthorizeSecurityGroupEgress ec2:RevokeSecurityGroupEgress"
            " ec2:RevokeSecurityGroupIngress ec2:DeleteSecurityGroup",
            f"{_EC2}:security-group/sg-1",
            **TAGGED,
        ),
        *_each("ec2:CreateVolume", f"{_EC2}:volume/*"),
        *_each("ec2:AttachVolume ec2:DetachVolume ec2:ModifyVolume ec2:DeleteVolume", f"{_EC2}:volume/vol-1", **TAGGED),
        *_each("ec2:TerminateInstances ec2:GetConsoleOutput", f"{_EC2}:instance/i-1", **TAGGED),
        *_each(
            "dynamodb:DescribeTable dynamodb:CreateTable dynamodb:DeleteTable dynamodb:GetItem dynamodb:PutItem"
            " dynamodb:UpdateItem dynamodb:Query dynamodb:TagResource dynamodb:ListTagsOfResource",
            f"arn:aws:dynamodb:{_PLACE}:table/parallelcluster-slipway-x",
        ),
        *_each(
            "dynamodb:BatchWriteItem dynamodb:BatchGetItem",
            f"arn:aws:dynamodb:{_PLACE}:table/parallelcluster-slurm-slipway-x",
        ),
        *_each("route53:CreateHostedZone route53:GetChange", "*"),
        *_each(
            "route53:DeleteHostedZone route53:ChangeTagsForResource route53:GetHostedZone"
            " route53:ListResourceRecordSets",
            "arn:aws:route53:::hostedzone/Z1",
        ),
        *_each(
            "route53:ChangeResourceRecordSets",
            "arn:aws:route53:::hostedzone/Z1",
            ChangeResourceRecordSetsNormalizedRecordNames=["q-st-1.slipway-x.pcluster"],
        ),
        *_each(
            "cloudformation:CreateStack cloudformation:DescribeStacks cloudformation:DescribeStackEvents"
            " cloudformation:DescribeStackResources cloudformation:DescribeStackResource cloudformation:GetTemplate"
            " cloudformation:SignalResource",
            _STACK,
        ),
        *_each("cloudformation:UpdateStack cloudformation:DeleteStack", _STACK, **TAGGED),
        *_each(
            "cloudwatch:PutDashboard cloudwatch:GetDashboard cloudwatch:DeleteDashboards",
            f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/slipway-x-us-east-2",
        ),
        *_each(
            "cloudwatch:PutMetricAlarm cloudwatch:DeleteAlarms cloudwatch:PutCompositeAlarm",
            f"arn:aws:cloudwatch:{_PLACE}:alarm:slipway-x-HeadNode-Health",
        ),
        *_each("cloudwatch:DescribeAlarms cloudwatch:ListDashboards cloudwatch:PutMetricData", "*"),
        *_each("iam:GetRole iam:GetRolePolicy iam:DeleteRole iam:TagRole", _ROLE),
        *_each(
            "iam:CreateRole iam:PutRolePolicy iam:DeleteRolePolicy iam:AttachRolePolicy iam:DetachRolePolicy",
            _ROLE,
            **bounded,
        ),
        *_each(
            "iam:CreateInstanceProfile iam:DeleteInstanceProfile iam:GetInstanceProfile iam:AddRoleToInstanceProfile"
            " iam:RemoveRoleFromInstanceProfile",
            _PROFILE,
        ),
        *_each("iam:PassRole", _ROLE, PassedToService="ec2.amazonaws.com"),
        *_each("iam:PassRole", _ROLE, PassedToService="lambda.amazonaws.com"),
        *_each(
            "iam:CreateServiceLinkedRole",
            f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
            AWSServiceName="spot.amazonaws.com",
        ),
        *_each(
            "lambda:CreateFunction lambda:TagResource lambda:DeleteFunction lambda:GetFunctionConfiguration"
            " lambda:GetFunction lambda:InvokeFunction lambda:AddPermission lambda:RemovePermission"
            " lambda:UpdateFunctionConfiguration lambda:ListTags",
            _FUNCTION,
        ),
        *_each(
            "s3:CreateBucket s3:PutBucketVersioning s3:PutEncryptionConfiguration s3:PutBucketPolicy s3:ListBucket",
            _BUCKET,
        ),
        *_each(
            "s3:PutObject s3:GetObject s3:GetObjectVersion s3:DeleteObject",
            f"{_BUCKET}/parallelcluster/x/template.json",
        ),
        *_each("s3:GetObject", "arn:aws:s3:::us-east-2-aws-parallelcluster/archives/x.tgz"),
        *_each("fsx:CreateFileSystem fsx:TagResource fsx:DeleteFileSystem", f"arn:aws:fsx:{_PLACE}:file-system/fs-1"),
        *_each("fsx:DescribeFileSystems", "*"),
        *_each(
            "logs:CreateLogGroup logs:DeleteLogGroup logs:PutRetentionPolicy logs:TagResource logs:UntagResource"
            " logs:PutMetricFilter logs:DeleteMetricFilter",
            _LOG,
        ),
        *_each("logs:CreateLogStream logs:PutLogEvents", f"{_LOG}:log-stream:ip-10-0-0-1"),
        *_each(
            "logs:CreateLogGroup logs:CreateLogStream logs:PutLogEvents",
            f"arn:aws:logs:{_PLACE}:log-group:/aws/lambda/pcluster-cfn-8131d980",
        ),
        *_each(
            "autoscaling:CreateAutoScalingGroup autoscaling:UpdateAutoScalingGroup autoscaling:DeleteAutoScalingGroup"
            " autoscaling:PutLifecycleHook autoscaling:DeleteLifecycleHook",
            f"arn:aws:autoscaling:{_PLACE}:autoScalingGroup:1:autoScalingGroupName/x-AutoScalingGroup",
        ),
        *_each(
            "elasticloadbalancing:CreateLoadBalancer elasticloadbalancing:AddTags elasticloadbalancing:CreateListener"
            " elasticloadbalancing:DeleteLoadBalancer elasticloadbalancing:ModifyLoadBalancerAttributes",
            f"arn:aws:elasticloadbalancing:{_PLACE}:loadbalancer/net/login-abc/1",
        ),
        *_each("kms:Decrypt kms:GenerateDataKeyWithoutPlaintext kms:ReEncryptFrom", _KEY, **through_ec2),
        *_each("kms:CreateGrant", _KEY, **through_ec2, GrantIsForAWSResource="true"),
        *_each(
            "events:PutRule events:PutTargets events:RemoveTargets events:DeleteRule",
            f"arn:aws:events:{_PLACE}:rule/ParallelClusterCluster1",
        ),
    ]
