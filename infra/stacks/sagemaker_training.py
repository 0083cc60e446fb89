"""The resources that training jobs need before their creation: a role, network rules, and guardrails.

An API call creates the job itself. CloudFormation's template reference has AWS::SageMaker::TrainingJob (2026-11), which
the registry of the lock file (cfn-lint) lacks; and a job in a stack would start, billed, with each deployment.
"""

import functools
from collections.abc import Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cluster_network import cluster_findings
from infra.parts import training_job_guard
from infra.parts.dashboard import training_job_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.node_policy import OWN_PATH, NodePolicy, store_statements
from infra.parts.outputs import add_output
from infra.parts.vpc_access import vpc_statements
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.model.monitoring import JOURNAL_FOLDER
from launcher.model.reach import reached_locations
from launcher.model.tags import CLUSTER_TAG
from launcher.model.training_job import JOBS_OUTPUT, LOG_GROUP
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.targets.sagemaker_training.files import image_of


def job_role(
    stack: Construct, id_: str, *, cluster: str, policy: iam.CfnManagedPolicy, in_vpc: bool, named_arn: str | None
) -> str:
    """The ARN of the execution role (developer guide, "CreateTrainingJob API: Execution Role Permissions").

    `in_vpc`: jobs get interfaces in a VPC. `named_arn` is used unchanged; None: the stack creates a role.
    """
    scope = Construct(stack, id_)
    if named_arn is not None:
        return named_arn
    statements = [*_log_statements(scope), *(vpc_statements() if in_vpc else ())]
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal(
            "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        ),
        description=f"Training jobs of {cluster}",
        managed_policies=[iam.ManagedPolicy.from_managed_policy_arn(scope, "Jobs", policy.ref)],
        inline_policies={"TrainingJobs": iam.PolicyDocument(statements=statements)},
    ).role_arn


def _log_statements(scope: Construct) -> Sequence[iam.PolicyStatement]:
    """The permissions for every node's log, and for the metrics that SageMaker reports about the node."""
    group = f"arn:{Aws.PARTITION}:logs:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:log-group:{LOG_GROUP}"
    return (
        iam.PolicyStatement(
            sid="WriteLog",
            actions=[
                "logs:CreateLogGroup",
                "logs:CreateLogStream",
                "logs:DescribeLogStreams",
                "logs:PutLogEvents",
            ],
            resources=[group, f"{group}:*"],
        ),
        iam.PolicyStatement(
            sid="PutMetrics",
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringLike": {"cloudwatch:namespace": ["/aws/sagemaker/*"]}},
        ),
    )


class TrainingJobsStack(ClusterStack):
    """The role, network rules and guardrails of a plan's training jobs."""

    KIND = "training jobs"

    def _make(self) -> None:
        plan, network = self._plan, self._network
        policy = self._policy()
        role_arn = job_role(
            self,
            "ExecutionRole",
            cluster=plan.cluster_name,
            policy=policy.resource,
            in_vpc=bool(network.vpc_id),
            named_arn=plan.request.security.roles.nodes,
        )
        outputs = {OUTPUTS["node_policy_arn"]: policy.arn, OUTPUTS["store_uri"]: network.store_uri}
        outputs[HYPERPOD_OUTPUTS["role_arn"]] = role_arn
        if network.vpc_id:
            group = NodeSecurityGroup(self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True)
            outputs[OUTPUTS["security_group_id"]] = group.group.attr_group_id
            outputs[OUTPUTS["subnet_id"]] = network.subnet_id
        outputs |= {"ClusterName": cluster_name(plan), "Region": plan.place.region, "PlanDigest": plan.digest}
        outputs[JOBS_OUTPUT] = f"{CLUSTER_TAG}={plan.cluster_name}"
        for name, value in outputs.items():
            add_output(self, name, value)
        self._watch(training_job_guard.rights(plan, self), training_job_widgets(plan), training_job_guard.announce)

    def _policy(self) -> NodePolicy:
        """The permissions of jobs: their part of the store, and deletion in their own journals."""
        plan, store = self._plan, self._network.store
        facts = self._catalog.instance_types[plan.place.instance_type]
        compiles = keeps_compiled_programs(facts)
        journal = JOURNAL_FOLDER if plan.request.checkpoint.store_uri is not None else f"{plan.name}/{JOURNAL_FOLDER}"
        tidy = iam.PolicyStatement(sid="DeleteJournal", actions=["s3:DeleteObject"], resources=[store.objects(journal)])
        return NodePolicy(
            self,
            "NodePolicy",
            store=store,
            kms_key_arn=plan.request.storage.kms_key_arn,
            fetched=(),
            secrets=tuple(plan.request.run.secrets.values()),
            compile_cache=compiles,
            image=image_of(plan, facts),
            path=OWN_PATH,
            in_store=[*store_statements(store, compile_cache=compiles), tidy],
            reached=reached_locations(plan.request),
            # Local disks are encrypted by their hardware; other volumes get the key (VolumeKmsKeyId).
            grants_key=not facts.nvme_gb,
        )


findings = cluster_findings
build = functools.partial(add_cluster, TrainingJobsStack)
