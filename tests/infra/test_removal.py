"""What a removal by hand leaves and meets, by the templates of every kind; and what each synthesis prints about it."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.plans import ROOT

LOG_GROUP, BUCKET = "AWS::Logs::LogGroup", "AWS::S3::Bucket"
REWRITTEN = ("/aws/eks/",)
"""Log groups of fixed names that a service writes again after the stack has deleted them: the note names them."""
CUSTOM = {"Custom::HyperPodChart", "Custom::PclusterCluster"}
"""Custom resources: the first one's deletion does nothing, the second one's is AWS's own provider."""


@cache
def resources():
    """Every resource of the golden stacks, which are of every kind, by stack and logical id."""
    found = {}
    for path in sorted((ROOT / "tests/golden/infra").rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for key, resource in document.get("Resources", {}).items():
            found[f"{path.parent.name}/{path.stem}", key] = resource
    return found


def resources_of_type(kind):
    return {place: resource for place, resource in resources().items() if resource["Type"] == kind}


def test_retained_resources_have_generated_names_that_no_second_deploy_meets():
    retained = {
        place: resource
        for place, resource in resources().items()
        if resource.get("DeletionPolicy", "Delete") != "Delete"
    }
    assert {resource["Type"] for resource in retained.values()} <= {BUCKET, LOG_GROUP}
    names = [
        resource.get("Properties", {}).get(key)
        for resource in retained.values()
        for key in ("BucketName", "LogGroupName")
    ]
    assert set(names) == {None}


def test_buckets_are_retained_because_a_bucket_with_objects_cannot_be_deleted():
    assert resources_of_type(BUCKET)
    assert all(resource["DeletionPolicy"] == "Retain" for resource in resources_of_type(BUCKET).values())


def test_no_role_can_create_a_log_group_that_its_stack_deletes():
    creators = [
        json.dumps(statement["Resource"])
        for _, resource in resources().items()
        for statement in statements(resource)
        if {"*", "logs:*", "logs:Create*", "logs:CreateLogGroup"} & set(list_names(statement["Action"]))
    ]
    assert creators
    # Shared by all training jobs of an account; no stack has it.
    assert all("/aws/sagemaker/TrainingJobs" in text for text in creators)


def test_functions_log_to_groups_of_their_stack_and_leave_their_network_first():
    for (stack, key), function in resources_of_type("AWS::Lambda::Function").items():
        group = function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"]
        assert resources()[stack, group]["DeletionPolicy"] == "Delete", key
        if "VpcConfig" in function["Properties"]:
            # Lambda removes its network interfaces with its role, which therefore goes last.
            assert function["DependsOn"], key


def test_fixed_log_groups_that_services_rewrite_are_those_of_the_note():
    names = {json.dumps(group["Properties"].get("LogGroupName")) for group in resources_of_type(LOG_GROUP).values()} - {
        "null"
    }
    kinds = {name.strip('"').rpartition("slipway-")[0] for name in names}
    expected = {"/aws/eks/", "/aws/sagemaker/Endpoints/", "/aws/sagemaker/InferenceComponents/", ""}
    vended = {kind for kind in kinds if "/aws/vendedlogs/pcs/" in kind}
    assert kinds - vended == expected
    assert kinds & set(REWRITTEN) == set(REWRITTEN)


def test_custom_resources_are_known():
    assert {resource["Type"] for resource in resources().values() if resource["Type"].startswith("Custom::")} == CUSTOM


def statements(value):
    if isinstance(value, dict):
        if value.get("Effect") == "Allow" and "Action" in value:
            yield value
        for inner in value.values():
            yield from statements(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from statements(inner)


def list_names(value):
    return [value] if isinstance(value, str) else value


@pytest.fixture
def stacks():
    """A network, a protected store and the stack of a cluster, in this order."""
    from aws_cdk import App, Stack

    app = App()
    return [
        Stack(app, "slipway-x-network"),
        Stack(app, "slipway-x-checkpoints", termination_protection=True),
        Stack(app, "slipway-x-training"),
    ]


@pytest.mark.parametrize(
    "example, words",
    [
        ("eks/p5-capacity-block", "--log-group-name /aws/eks/slipway-p5-eks/cluster"),
        ("hyperpod-eks/p5en-spot", "aws logs delete-log-group --region "),
        ("pcs/p5en-capacity-block", "slipway down pcs-p5en-block --region"),
        (
            "p5-spot",
            "slipway-x-checkpoints):\n  slipway cdk -- destroy -c plan=p.yaml slipway-x-training slipway-x-network",
        ),
        ("sagemaker/trn1", "slipway cdk -- destroy -c plan=p.yaml slipway-x-training"),
    ],
)
def test_removal_note_names_the_commands_of_each_kind(plan_at, stacks, example, words):
    from infra.by_hand import removal_note

    assert words in "\n".join(removal_note(plan_at(ROOT / f"examples/{example}.yaml"), stacks, Path("p.yaml")))


def test_removal_note_of_path_with_a_space_is_one_word_of_the_shell(plan_at, stacks):
    from infra.by_hand import removal_note

    note = removal_note(plan_at(ROOT / "examples/p5-spot.yaml"), stacks, Path("my plans/p.yaml"))
    assert any("slipway cdk -- destroy -c 'plan=my plans/p.yaml' slipway-x-training" in line for line in note)


def test_removal_note_of_unprotected_stacks_is_empty(plan_at, stacks):
    from infra.by_hand import removal_note

    assert removal_note(plan_at(ROOT / "examples/p5-spot.yaml"), stacks[:1], Path("p.yaml")) == []


def test_removal_note_names_the_command_for_a_network_that_others_hold(run_app):
    answer = run_app(ROOT / "examples/p5-spot.yaml")
    assert "name them: slipway down p5-spot --region us-east-2" in " ".join(answer.err.split())


@pytest.mark.parametrize("example, name", [("ec2/lora-g6e", "lora-g6e-ec2"), ("pcs/p5-spot", "pcs-p5-spot")])
def test_image_note_names_the_parameter_that_a_deployment_by_hand_needs(run_app, example, name):
    answer = " ".join(run_app(ROOT / f"examples/{example}.yaml").err.split())
    assert f"--parameters slipway-{name}-training:ImageId=$(aws ssm get-parameter --region" in answer


def test_removal_note_leaves_a_shared_network(plan_at, run_app):
    answer = run_app(ROOT / "examples/shared-network.yaml")
    err = " ".join(answer.err.split())
    assert "(--all stops at slipway-team-a-checkpoints, slipway-team-shared-network): slipway cdk -- destroy" in err
    assert " slipway-team-a-training" in err
