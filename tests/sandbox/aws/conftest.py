"""An embedded AWS per module, its clients, and stacks that are removed after the test."""

import json
from collections.abc import Iterator

import pytest

from launcher.sandbox.sandbox import Sandbox
from tests.sandbox import clients
from tests.sandbox.aws.answers import REGION


@pytest.fixture(scope="module")
def world_sandbox() -> Iterator[Sandbox]:
    with Sandbox(region=REGION, scheduler="local") as started:
        yield started


@pytest.fixture(scope="module")
def client(world_sandbox):
    def make(service):
        return clients.client(world_sandbox, service, config=clients.ONE_TRY)

    return make


@pytest.fixture(scope="module")
def cloudformation(client):
    return client("cloudformation")


@pytest.fixture
def stack(cloudformation, request):
    """Deploys a template by a change set, as the CDK does; the stack as it is then. Removes the stacks at the end."""
    deployed = []

    def deploy(resources, name=None, outputs=None, **more):
        name = name or "t-" + request.node.name.replace("_", "-").replace("[", "-").strip("]")[:100]
        known = {description["StackName"] for description in cloudformation.describe_stacks()["Stacks"]}
        template = {"Resources": resources, "Outputs": outputs or {}, **more}
        kind = "UPDATE" if name in known else "CREATE"
        deployed.append(name)
        cloudformation.create_change_set(
            StackName=name, ChangeSetName="deploy", ChangeSetType=kind, TemplateBody=json.dumps(template)
        )
        cloudformation.execute_change_set(StackName=name, ChangeSetName="deploy")
        cloudformation.delete_change_set(StackName=name, ChangeSetName="deploy")
        return cloudformation.describe_stacks(StackName=name)["Stacks"][0]

    yield deploy
    for name in reversed(deployed):
        cloudformation.delete_stack(StackName=name)
