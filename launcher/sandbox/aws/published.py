"""AWS::CloudFormation::Stack: the nested stacks that AWS publishes for ParallelCluster, its provider and its policies.

Judged by: the templates that AWS publishes for ParallelCluster 3.16.1, whose parameters and outputs it has.

Emulated: their parameters and outputs, each as a stack in CloudFormation; the role of the policies' stack with its
boundary and additional policy, so that IAM returns the role. Not emulated: the provider's function, the permissions of
the role, any other nested stack.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.cloudformation.models import cloudformation_backends
from moto.iam.models import iam_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

_TEMPLATE = re.compile(
    r"https://(?P<region>[a-z0-9-]+)-aws-parallelcluster\.s3\.(?P=region)\.amazonaws\.com(?:\.cn)?"
    r"/parallelcluster/(?P<version>\d+\.\d+\.\d+)/templates/(?P<path>custom_resource/cluster|policies/policies)\.yaml"
)
_PROVIDER = "custom_resource/cluster"
_PARAMETERS = {
    _PROVIDER: frozenset(("CustomLambdaRole", "AdditionalIamPolicies", "CustomBucket")),
    "policies/policies": frozenset(
        (
            *("Region", "EnableFSxS3Access", "EnableIamAdminAccess", "FsxS3Buckets", "PermissionsBoundaryPolicy"),
            *("EnableBatchAccess", "IAMRoleAndPolicyPrefix", "AdditionalPolicies"),
        )
    ),
}
"""Parameters of release 3.16.1: the custom resource's template,
and cloudformation/policies/parallelcluster-policies.yaml."""
_POLICY_ARN = re.compile(r"arn:[^:]+:iam::[^:]+:policy/[A-Za-z0-9_-]+")
_LAMBDA = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
_LOGGING = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"


@dataclass(frozen=True, slots=True)
class PublishedStacks:
    """The model of nested stacks. `versions` maps a provider's token to its release."""

    versions: dict[str, str] = field(default_factory=dict)

    def model(self) -> Model:
        """The emulated nested stack."""
        return Model(type="AWS::CloudFormation::Stack", make=self._make, change=self._change, remove=self._remove)

    def _make(self, requested: Requested) -> Created:
        path, release = _read_published(requested)
        write = _provider if path == _PROVIDER else _policies
        template = write(requested, _parameters(requested, path))
        stack = _cloudformation(requested).create_stack(requested.name, json.dumps(template), {})
        if stack.status != "CREATE_COMPLETE":
            failed = [
                event.resource_status_reason for event in stack.events if event.resource_status == "CREATE_FAILED"
            ]
            _cloudformation(requested).delete_stack(stack.stack_id)
            raise ResourceRefusedError(
                f"Embedded stack was not successfully created: {'; '.join(filter(None, failed))}"
            )
        outputs = {f"Outputs.{output['OutputKey']}": output["OutputValue"] for output in stack.outputs or ()}
        if path == _PROVIDER:
            self.versions[outputs["Outputs.ServiceToken"]] = release
        return Created(physical_resource_id=stack.stack_id, attributes=outputs)

    def _change(self, requested: Requested, before: Created) -> Created:
        path, release = _read_published(requested)
        _parameters(requested, path)
        token = before.attributes.get("Outputs.ServiceToken")
        if token is not None:
            self.versions[token] = release
        return before

    def _remove(self, requested: Requested, stack: Created) -> None:
        self.versions.pop(stack.attributes.get("Outputs.ServiceToken", ""), None)
        _cloudformation(requested).delete_stack(stack.physical_resource_id)


def _provider(requested: Requested, parameters: Mapping[str, Any]) -> dict[str, Any]:
    role = parameters.get("CustomLambdaRole")
    roles = iam_backends[requested.account_id][get_partition(requested.region_name)].roles.values()
    if role and role not in {known_role.arn for known_role in roles}:
        raise ResourceRefusedError(f"CustomLambdaRole: no role {role}")
    function = f"function:pcluster-cfn-{secrets.token_hex(6)}"
    token = f"arn:aws:lambda:{requested.region_name}:{requested.account_id}:{function}"
    return {"Resources": {}, "Outputs": {"ServiceToken": {"Value": token}}}


def _policies(requested: Requested, parameters: Mapping[str, Any]) -> dict[str, Any]:
    del requested
    boundary, more = parameters.get("PermissionsBoundaryPolicy"), parameters.get("AdditionalPolicies")
    for name, arn in (("PermissionsBoundaryPolicy", boundary), ("AdditionalPolicies", more)):
        if arn and _POLICY_ARN.match(arn) is None:
            raise ResourceRefusedError(f"Parameter {name} failed to satisfy constraint: got {arn}")
    properties: dict[str, Any] = {
        "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [_LAMBDA]},
        "ManagedPolicyArns": [_LOGGING, *([more] if more else [])],
        **({"PermissionsBoundary": boundary} if boundary else {}),
    }
    return {
        "Resources": {"ParallelClusterLambdaRole": {"Type": "AWS::IAM::Role", "Properties": properties}},
        "Outputs": {"ParallelClusterLambdaRoleArn": {"Value": {"Fn::GetAtt": ["ParallelClusterLambdaRole", "Arn"]}}},
    }


def _read_published(requested: Requested) -> tuple[str, str]:
    url = requested.need("TemplateURL")
    match = _TEMPLATE.fullmatch(url)
    if match is None:
        raise ResourceRefusedError(f"the sandbox supports only ParallelCluster's own nested stack, got {url}")
    if match["region"] != requested.region_name:
        raise ResourceRefusedError(f"the provider of {match['region']} does not work in {requested.region_name}")
    return match["path"], match["version"]


def _parameters(requested: Requested, path: str) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = requested.get("Parameters", {})
    unknown = set(parameters) - _PARAMETERS[path]
    if unknown:
        raise ResourceRefusedError(f"Parameters: [{', '.join(sorted(unknown))}] do not exist in the template")
    return parameters


def _cloudformation(requested: Requested) -> Any:
    return cloudformation_backends[requested.account_id][requested.region_name]
