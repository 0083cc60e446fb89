"""Every call that a guard's code makes is allowed to its role, with what the call needs besides, on its own resources.

Dependent actions are those of the Service Authorization Reference and of the services' guides: PCS (minimum
permissions of UpdateComputeNodeGroup), SageMaker (deletion of a scaled endpoint), Application Auto Scaling (permissions
to SageMaker). The stacks are those of plans with every guard on, with and without the permissions boundary.
"""

import ast
import json
from functools import cache

import botocore.session
import pytest
from botocore import xform_name

from launcher.catalog.assets import asset
from launcher.workflow.deploy.policies import PolicyRequest, policies_of
from tests.infra.caused_calls import caused
from tests.infra.guarded_plans import BOUNDARY, KINDS, RATE, guarded_plan
from tests.infra.iam import ACCOUNT, allows, fits, formats
from tests.infra.role_policies import REGION, STORE, Stack, roles

SERVICES = (
    *("sns", "application-autoscaling", "autoscaling", "cloudformation", "cloudwatch", "dynamodb", "ec2", "eks"),
    *("lambda", "logs", "pcs", "s3", "sagemaker", "ssm"),
)
"""The later one has a method that two of them have: `delete_endpoint`, `list_tags`."""
EVERY_GUARD = {
    "get_parameter",
    "get_parameter_history",
    "put_parameter",
    "describe_stacks",
    "describe_stack_events",
    "put_metric_data",
    "publish",
}
"""The calls of each guard's modules, by their names in boto3."""
IN_THE_STORE = {"list_objects_v2", "get_object", "put_object", "delete_object", "delete_objects"}
NODES = {"describe_instances", "terminate_instances", "get_metric_data", "describe_spot_price_history"}
OF_HYPERPOD = {
    *("get_metric_statistics", "list_cluster_nodes", "batch_delete_cluster_nodes", "describe_cluster"),
    "get_log_events",
}
OF_ENDPOINTS = {
    "describe_endpoint",
    "list_inference_components",
    "delete_inference_component",
    "delete_endpoint",
    "describe_inference_component",
    "describe_log_streams",
    "get_log_events",
}
CALLS = {
    "parallelcluster": NODES | IN_THE_STORE | {"get_metric_statistics", "get_item", "update_item"},
    "pcs": NODES
    | IN_THE_STORE
    | {
        "get_metric_statistics",
        "list_compute_node_groups",
        "get_compute_node_group",
        "update_compute_node_group",
    },
    "ec2": NODES
    | IN_THE_STORE
    | {
        "get_metric_statistics",
        "describe_auto_scaling_groups",
        "describe_scaling_activities",
        "set_desired_capacity",
    },
    "eks": NODES - {"terminate_instances"} | {"describe_nodegroup", "update_nodegroup_config", "invoke"} | IN_THE_STORE,
    "hyperpod-slurm": OF_HYPERPOD | IN_THE_STORE,
    "hyperpod-eks": OF_HYPERPOD | {"invoke", "list_cluster_events", "describe_cluster_event"} | IN_THE_STORE,
    "sagemaker-training": {
        "get_metric_data",
        "describe_log_groups",
        "put_retention_policy",
        "list_training_jobs",
        "list_tags",
        "describe_training_job",
        "stop_training_job",
    }
    | IN_THE_STORE,
    "sagemaker-endpoint": OF_ENDPOINTS,
    "sagemaker-endpoint-to-zero": OF_ENDPOINTS | {"describe_scalable_targets", "register_scalable_target"},
    "sagemaker-endpoint-asynchronous": OF_ENDPOINTS,
}
IAM_NAMES = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:DeleteObjects": "s3:DeleteObject",
    "lambda:Invoke": "lambda:InvokeFunction",
}
"""IAM's actions where they are named otherwise than the operation."""


@cache
def operations():
    """Service and operation by the name of boto3's method."""
    loaded = botocore.session.get_session()
    return {
        xform_name(operation): (service, operation)
        for service in SERVICES
        for operation in loaded.get_service_model(service).operation_names
    }


def test_call_table_lists_every_call_of_guard_code():
    called = set()
    for path in asset("templates/guard").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "get_paginator":
                called.add(ast.literal_eval(node.args[0]))
            elif node.func.attr in operations():
                called.add(node.func.attr)
    # A pattern's search is no search of SageMaker.
    assert called - {"search"} == EVERY_GUARD.union(*CALLS.values())


@pytest.fixture(scope="module", params=[(kind, limit) for kind in KINDS for limit in (None, BOUNDARY)], ids=str)
def guard(request, synthesised, catalog):
    """The kind, the guard's role, its stack, and the boundary's document or None."""
    kind, limit = request.param
    assembly = synthesised(guarded_plan(kind, catalog, limit), **RATE)
    (role,) = [role for role in roles(assembly) if role.logical_id.startswith("GuardrailsGuardRole")]
    (stack,) = [
        Stack(file.removesuffix(".template.json"), template)
        for file, template in assembly.templates.items()
        if role.logical_id in template["Resources"]
    ]
    document = None
    if limit is not None:
        written = policies_of(PolicyRequest(account=ACCOUNT, region=REGION), assembly.plan.request).boundary
        document = json.loads(written.text)
    assert role.boundary == limit
    return kind, role, stack, assembly.plan, document


def needs(kind, stack, plan):
    """Action, ARN and context of every request of a guard, with those that a call causes."""
    place, cluster = f"us-east-2:{ACCOUNT}".replace("us-east-2", plan.place.region), plan.cluster_name
    name = f"slipway-{cluster}"
    variables = stack.value(
        next(
            resource["Properties"]["Environment"]["Variables"]
            for key, resource in stack.resources.items()
            if key.startswith("GuardrailsGuard") and resource["Type"] == "AWS::Lambda::Function"
        )
    )
    own = {"ResourceTag/slipway_cluster": cluster, "ResourceTag/slipway_machine": "node"}
    own |= {"ResourceTag/parallelcluster_cluster-name": name, "ResourceTag/parallelcluster_node-type": "Compute"}
    sample = f"us-east-2:{ACCOUNT}"  # of references (tests/infra/role_policies.py)
    prefix = variables.get("FOLDER_URI", "s3://-/-").removeprefix("s3://").partition("/")[2]
    logs = f"Clusters/{name}/abc123:log-stream:LifecycleConfig/workers/i-1" if "hyperpod" in kind else "TrainingJobs:*"
    logs = f"Endpoints/{name}:log-stream:main/i-1" if "endpoint" in kind else logs
    on = {
        "ssm": (f"arn:aws:ssm:{sample}:parameter{variables['STATE']}", {}),
        "cloudformation": (stack.pseudo["AWS::StackId"], {}),
        "sns": (variables["TOPICS"].split()[0], {}),
        "cloudwatch": ("*", {"namespace": "Slipway"}),
        "s3": (f"{STORE}/{prefix}/messages/boots/x", {}),
        "dynamodb": (f"arn:aws:dynamodb:{place}:table/parallelcluster-{name}", {"LeadingKeys": ["COMPUTE_FLEET"]}),
        "eks": (f"arn:aws:eks:{place}:nodegroup/{name}/workers/8131d980-7fb5-11ee-9589-0a6424944f95", own),
        "ec2": (f"arn:aws:ec2:{place}:instance/i-1", own),
        "autoscaling": (
            f"arn:aws:autoscaling:{place}:autoScalingGroup:8131d980:autoScalingGroupName/{name}",
            own,
        ),
        "logs": (f"arn:aws:logs:{place}:log-group:/aws/sagemaker/{logs}", {}),
    }
    sagemaker = {
        **dict.fromkeys(("ListClusterNodes", "BatchDeleteClusterNodes", "DescribeCluster"), "cluster/abc123"),
        **dict.fromkeys(("ListClusterEvents", "DescribeClusterEvent"), "cluster/abc123"),
        "DescribeEndpoint": f"endpoint/{name}",
        "DeleteEndpoint": f"endpoint/{name}",
        "DeleteInferenceComponent": f"inference-component/{name}",
        "DescribeInferenceComponent": f"inference-component/{name}",
    }
    for method in sorted(EVERY_GUARD | CALLS[kind]):
        service, operation = operations()[method]
        action = IAM_NAMES.get(f"{service}:{operation}", f"{service}:{operation}")
        arn, context = on.get(service, ("*", {}))
        if service == "sagemaker":
            arn, context = f"arn:aws:sagemaker:{place}:{sagemaker.get(operation, 'training-job/x')}", own
        elif service == "pcs":
            controller = f"arn:aws:pcs:{place}:cluster/{stack.attribute('Cluster', 'Id')}"
            arn = controller if operation == "ListComputeNodeGroups" else f"{controller}/computenodegroup/pcs_x"
            context = own
        elif service == "lambda":
            arn = variables.get("PODS_FUNCTION") or variables["ASKS"]
            arn = arn if arn.startswith("arn:") else f"arn:aws:lambda:{sample}:function:{arn}"
        elif action == "s3:ListBucket":
            arn, context = STORE, {"prefix": f"{prefix}/messages/"}
        elif service == "application-autoscaling":
            arn = f"arn:aws:application-autoscaling:{place}:scalable-target/0ec5"
            context = {"service-namespace": "sagemaker"}
        yield action, arn if formats(action) else "*", context
        yield from caused(method, place, name, stack)


def test_guard_role_allows_every_guard_call(guard):
    kind, role, stack, plan, limit = guard
    refused = [
        (action, arn, context)
        for action, arn, context in needs(kind, stack, plan)
        if not allows(role.documents, action, arn, boundary=limit, **context)
    ]
    assert refused == []


def test_guard_calls_use_resources_of_matching_kind(guard):
    kind, _, stack, plan, _ = guard
    for action, arn, _ in needs(kind, stack, plan):
        assert arn == "*" or any(fits(arn, form) for form in formats(action)), (action, arn)
