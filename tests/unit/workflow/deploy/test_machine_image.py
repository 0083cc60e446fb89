"""AWS's image of nodes: read before the question, with its name and date, and kept by later deployments."""

import json

import pytest
from moto import mock_aws

from launcher import plan_file
from launcher.aws.session import Session
from launcher.model.ec2 import NEURON_IMAGE, NVIDIA_IMAGE
from launcher.model.pcs import IMAGE_PARAMETER
from launcher.planning.pin import pinned_plan
from launcher.sandbox.aws.images import IMAGE, publish_images
from launcher.targets.clusters import cluster_of

REGION = "us-east-2"
VARIABLES = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
PLAN = """
slipway: 1
name: pinned
workload: {{train: {{hours: 4}}}}
target: {{kind: {kind}, region: us-east-2, instance_type: {type}, nodes: 1{more}}}
purchase: {{option: on-demand}}
run: {{command: [python, train.py]}}
"""


@pytest.fixture
def session():
    """An account with AWS's parameters (the sandbox's) and one image, in moto."""
    publish_images()
    with mock_aws():
        yield Session(environment=VARIABLES, region=REGION)


@pytest.fixture
def image_of(session, catalog):
    """The image of a plan of a kind and type."""

    def image(kind, instance_type, more=""):
        plan = pinned_plan(plan_file.loads(PLAN.format(kind=kind, type=instance_type, more=more)), catalog)
        return cluster_of(plan).image(plan, session)

    return image


@pytest.mark.parametrize(
    "kind, instance_type, parameter",
    [
        ("ec2", "g6e.2xlarge", NVIDIA_IMAGE),
        ("ec2", "trn1.32xlarge", NEURON_IMAGE),
        ("pcs", "p5.48xlarge", IMAGE_PARAMETER),
    ],
)
def test_newest_image_of_the_type_is_pinned_by_id(image_of, kind, instance_type, parameter):
    image = image_of(kind, instance_type)
    assert (image.id, image.parameter, image.kept) == (IMAGE, parameter, False)
    assert image.text == f"{IMAGE}, AWS's newest"


@pytest.mark.parametrize("kind, more", [("ec2", ", ami: ami-0123456789abcdef0"), ("parallelcluster", "")])
def test_own_image_and_other_targets_pin_none(image_of, kind, more):
    assert image_of(kind, "p5.48xlarge", more) is None


def deploy(session, image):
    """A stack of the plan with an image."""
    body = {
        "Parameters": {"ImageId": {"Type": "String"}},
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
    }
    session.client("cloudformation").create_stack(
        StackName="slipway-pinned-training",
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": "ImageId", "ParameterValue": image}],
    )


def test_image_of_the_stack_is_kept_with_its_name_and_date(session, image_of):
    ec2 = session.client("ec2")
    registered = ec2.register_image(Name="Deep Learning AMI 20261112")["ImageId"]
    (first,) = ec2.describe_images(ImageIds=[registered])["Images"]
    deploy(session, first["ImageId"])
    image = image_of("ec2", "g6e.2xlarge")
    assert (image.id, image.name, image.kept) == (first["ImageId"], first["Name"], True)
    day = first["CreationDate"][:10]
    assert image.text == f"{image.id} ({first['Name']}, {day}), kept from the first deployment"


def test_image_of_a_stack_whose_creation_failed_is_given_again(session, image_of):
    deploy(session, "ami-0123456789abcdef0")
    client = session.client("cloudformation")

    def fail(parsed, **_):
        """Moto rolls no creation back."""
        for stack in parsed["Stacks"]:
            stack["StackStatus"] = "ROLLBACK_COMPLETE"

    client.meta.events.register("after-call.cloudformation.DescribeStacks", fail)
    image = image_of("ec2", "g6e.2xlarge")
    assert (image.id, image.kept) == (IMAGE, False)


def test_credentials_that_may_not_describe_images_pin_the_id_alone(session, image_of):
    client = session.client("ec2")

    def refuse(**_):
        raise client.exceptions.ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "x")

    client.meta.events.register("before-call.ec2.DescribeImages", refuse)
    image = image_of("ec2", "g6e.2xlarge")
    assert (image.id, image.name, image.created_at) == (IMAGE, None, None)
