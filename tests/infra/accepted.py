"""Accepted findings of cdk-nag, each on one resource of a stack and with its reason."""

import re

CLUSTERS = (
    (
        r"AwsSolutions-S1",
        r"-checkpoints/Store/Bucket/Resource",
        "a log of every request costs, and one cluster reads these objects: the plan chooses (storage.access_log)",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::[^\]]*/\*\]",
        r"-training/NodePolicy/Policy",
        "objects of jobs do not exist yet; the wildcard ends at the jobs' prefix",
    ),
    (
        r"AwsSolutions-IAM5\[(Action::s3:(Get|List)\*|Resource::.*(s3\.data-source\.lustre\.fsx|corpus-of-the-team/tokens).*/\*)\]",
        r"-training/ProviderAccess/Policy",
        "FSx makes the linked role, the objects are the user's; the wildcards end at one service, bucket or prefix",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::[^\]]*(:rule/\*|slipway-\*-pclustercustom\*)\]",
        r"-training/ProviderAccess/Policy",
        "the provider names its rules and its bucket itself",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "descriptions of instances and metrics cannot be allowed by resource; reporting is limited to one namespace",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*/\.guard/.*/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "what jobs leave there does not exist yet; the wildcard ends at the stack's own folder",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::arn:<AWS::Partition>:ec2:[a-z0-9-]+:<AWS::AccountId>:instance/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "EC2 chooses the ids of ParallelCluster's machines; conditions on their tags tell them from all others",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|[^\]]*:log-group:<SessionLog\w+>:\*)\]",
        r"-training/(SessionLog/Policy|EnteredPolicy)",
        "log streams are named by the session, below one group; the agent's own calls take no resource",
    ),
)
"""For all clusters: rule, construct and reason."""

HYPERPOD = (
    (
        r"AwsSolutions-IAM4\[Policy::.*/AmazonSageMakerClusterInstanceRolePolicy\]",
        r"-training/ExecutionRole/Role/Resource",
        "AWS's own policy for HyperPod's instances, which follows what the service needs of them",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|.*:ec2:us-east-2:\*:[a-z-]+/.*|.*/slipway-hyperpod/[0-9a-f]{64}/\*)\]",
        r"-training/ExecutionRole/Role/Resource",
        "EC2 allows no description by resource, interfaces do not exist yet, the scripts' wildcard ends at a digest",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*(:sagemaker:us-east-2:.*:cluster|:log-group:/aws/sagemaker/Clusters/.*)/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "SageMaker chooses the id of a cluster and of its log group; a condition on the tag tells it from others",
    ),
)
"""For HyperPod with Slurm, in addition to those of all clusters: rule, construct and reason."""

PCS = (
    (
        r"AwsSolutions-IAM4\[Policy::.*/AWSPCSComputeNodePolicy\]",
        r"-training/Profile/Role/Resource",
        "AWS's own policy by which an instance joins a PCS cluster: one action",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/Profile/Role/Resource",
        "metrics can be allowed by namespace, not by resource",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:pcs:.*:cluster/.*/computenodegroup/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "PCS names node groups by ids of its own choice; the wildcard ends at the cluster",
    ),
)
"""For PCS, in addition to those of all clusters: rule, construct and reason."""

INSTANCES = (
    (
        r"AwsSolutions-EC2[89]",
        r"-network/Network/NatInstance/Instance",
        "a NAT instance goes with its stack; metrics by the minute cost, and EC2 recovers it without them",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/Profile/Role/Resource",
        "ec2:DescribeInstances, by which instances of a job find each other, takes no resource",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:autoscaling:.*:autoScalingGroup:\*:autoScalingGroupName/slipway-.*\]",
        r"-training/(Profile|Guardrails/Guard)/Role/Resource",
        "EC2 Auto Scaling puts an id of its own choice into a group's ARN, which ends with the group's name",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:log-group:.*:\*\]",
        r"-training/Profile/Role/Resource",
        "streams of instances do not exist yet; the wildcard ends at the log group",
    ),
    (
        r"AwsSolutions-AS3$",
        r"-training/Instances/Group",
        "the size changes with each job: the guard notifies users of interruptions, failures and stops",
    ),
    (
        r"AwsSolutions-EC26$",
        r"-training/Instances/Group",
        "the rule does not read the launch template of a mixed instances policy, whose volumes are encrypted",
    ),
)
"""For plain instances, in addition to those of all clusters."""

EKS = (
    (
        r"AwsSolutions-IAM4\[Policy::.*/AmazonEKSClusterPolicy\]",
        r"-training/Eks/Role/Resource",
        "AWS's own policy for EKS's control plane, which follows what the service needs",
    ),
    (
        r"AwsSolutions-IAM4\[Policy::.*/Amazon(EKSWorkerNode|EKS_CNI_|EC2ContainerRegistryPullOnly|SSMManaged).*\]",
        r"-training/NodeRole/Resource",
        "AWS's own policies for nodes: joining, addresses of pods, images, sessions",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*/messages/boots/\*\]",
        r"-training/NodeRole/Resource",
        "a node reports each of its boots in an object of its own",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:eks:[a-z0-9-]+:.*:nodegroup/slipway-[a-z0-9-]+/workers/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "EKS ends a node group's ARN with an id of its own choice",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::arn:.*:eks:.*:podidentityassociation/slipway-[a-z0-9-]+/\*\]",
        r"-training/Eks/PodAssociations/Resource",
        "EKS ends the ARN of a pod identity association with an id of its own choice",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/Pods/Role/Resource",
        "interfaces of a function in a subnet: Lambda refuses a role that is limited to some",
    ),
)
"""For EKS, in addition to those of all clusters: rule, construct and reason."""

HYPERPOD_EKS = (
    (
        r"AwsSolutions-IAM4\[Policy::.*/AmazonEKSClusterPolicy\]",
        r"-training/Eks/Role/Resource",
        "AWS's own policy for EKS's control plane, which follows what the service needs",
    ),
    (
        r"AwsSolutions-IAM4\[Policy::.*/Amazon(SageMakerClusterInstanceRolePolicy|EC2ContainerRegistryPullOnly)\]",
        r"-training/ExecutionRole/Role/Resource",
        "AWS's own policies for HyperPod's instances: the service's needs, images",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::arn:.*:eks:.*:podidentityassociation/slipway-[a-z0-9-]+/\*\]",
        r"-training/Eks/PodAssociations/Resource",
        "EKS ends the ARN of a pod identity association with an id of its own choice",
    ),
    (
        r"AwsSolutions-IAM4\[Policy::.*/AmazonSageMakerHyperPodTrainingOperatorAccess\]",
        r"-training/OperatorRole/Resource",
        "AWS's own policy for HyperPod's training operator",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|.*:ec2:[a-z0-9-]+:\*:[a-z-]+/.*|.*/slipway-hyperpod/[0-9a-f]{64}/\*)\]",
        r"-training/ExecutionRole/Role/Resource",
        "EC2 allows no description by resource, interfaces do not exist yet, the scripts' wildcard ends at a digest",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/Chart/Role/Resource",
        "interfaces of a function in a subnet: Lambda refuses a role that is limited to some",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*(:sagemaker:[a-z0-9-]+:.*:cluster|:log-group:/aws/sagemaker/Clusters/.*)/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "SageMaker chooses the id of a cluster and of its log group; a condition on the tag tells it from others",
    ),
)
"""For HyperPod with EKS, in addition to those of all clusters: rule, construct and reason."""

ENDPOINTS = (
    (
        r"AwsSolutions-S1",
        r"-serving/Store/Bucket/Resource",
        "a log of every request would cost as much as the requests; what is kept is the requests themselves",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|.*s3:::.*/\*|<StoreBucket\w+\.Arn>/\w+/\*)\]",
        r"-serving/Containers/Role/Resource",
        "a registry's token and metrics cannot be allowed by resource; objects end at the model's or a queue's folder",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|<StoreBucket\w+\.Arn>/\w+/\*)\]",
        r"-serving/Callers/Policy",
        "a bearer token is checked before its endpoint is known; objects end at the queue's folders",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-serving/Guardrails/Guard/Role/Resource",
        "metrics and lists of components cannot be allowed by resource; reporting is limited to one namespace",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::arn:.*:application-autoscaling:[a-z0-9-]+:.*:scalable-target/\*\]",
        r"-serving/Guardrails/Guard/Role/Resource",
        "the service names its scalable targets itself; a condition limits them to SageMaker's",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:log-group:/aws/sagemaker/(Endpoints|InferenceComponents)/slipway-.*:\*\]",
        r"-serving/Guardrails/Guard/Role/Resource",
        "the guard reads the streams of the endpoint's own log group",
    ),
)
"""For endpoints: rule, construct and reason."""

TRAINING_JOBS = (
    (
        r"AwsSolutions-IAM5\[Resource::.*:sagemaker:[a-z0-9-]+:.*:training-job/\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "a job's name ends in a token of its launch; a condition on its tag tells it from others",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::.*:log-group:/aws/sagemaker/TrainingJobs:\*\]",
        r"-training/Guardrails/Guard/Role/Resource",
        "IAM compares the actions of a log group with its ARN and :*",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::(\*|.*:log-group:/aws/sagemaker/TrainingJobs:\*|arn:.*:ec2:\*:\*:[a-z-]+/\*)\]",
        r"-training/ExecutionRole/Role/Resource",
        "log streams and interfaces do not exist yet; metrics take no resource and are limited to namespaces",
    ),
    (
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r"-training/NodePolicy/Policy",
        "the token for a registry cannot be allowed by resource",
    ),
)
"""For training jobs, in addition to those of all clusters: rule, construct and reason."""


def accepted(findings, rule, construct):
    """The index of a violation in a list of rules, constructs' ends (both patterns) and reasons, or None."""
    for index, (rule_pattern, construct_pattern, _) in enumerate(findings):
        if re.fullmatch(rule_pattern, rule) and re.search(f"{construct_pattern}$", construct):
            return index
    return None
