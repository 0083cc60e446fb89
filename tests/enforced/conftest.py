"""An account with an enforcing IAM: ministack 1.5.33 with AUTH=true, in a separate network namespace.

It evaluates identity policies and boundaries as IAM does (ministack/core/iam_evaluator.py), and refuses with AWS's
texts. Its requests have few of the services' own condition keys: none of `s3:RequestObjectTag`, `s3:if-none-match`,
`dynamodb:LeadingKeys`, `cloudwatch:namespace` and `iam:PermissionsBoundary` (_resolve_condition_key,
s3_service_context, dynamodb_service_context), and its simulation accepts no context. Statements with these keys are
tested only as text (tests/infra, tests/unit/aws/test_person_policy.py). It supports no resource of EventBridge's rules.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import boto3
import pytest

from launcher.aws.session import Session
from launcher.catalog.permissions import load_permissions
from launcher.rendering.policies import PolicyAccount, policy_name, render_policy
from tests.conftest import MINISTACK
from tests.plans import ROOT

REGION = "us-east-2"
ID = "000000000000"
STACK = f"arn:aws:cloudformation:{REGION}:{ID}:stack/slipway-guarded/6f1d0f80-0000-11f0-8000-0000000000000"
"""The account that ministack serves, and a stack in it."""
KNOWN = {
    "AWS::Partition": "aws",
    "AWS::AccountId": ID,
    "AWS::Region": REGION,
    "AWS::StackId": STACK,
    "OutputFnGetAttStoreBucket": "arn:aws:s3:::slipway-guarded-store",
}
"""Values of references that no resource of the template defines."""
FUNCTIONS = {
    "Fn::Join": lambda of: of[0].join(of[1]),
    "Fn::Select": lambda of: of[1][of[0]],
    "Fn::Split": lambda of: of[1].split(of[0]),
    "Fn::Sub": lambda of: of.replace("${AWS::AccountId}", ID),
}
OWNER = {"AWS_ACCESS_KEY_ID": "OWNEROWNEROWNEROWNER", "AWS_SECRET_ACCESS_KEY": "owner"}
"""The account's root, which creates the resources for the tests of policies."""


@dataclass
class Enforced:
    """The account with its address."""

    url: str
    account: PolicyAccount = field(
        default_factory=lambda: PolicyAccount(id=ID, qualifier="hnb659fds", boundary_arn=None)
    )

    def environment(self, keys):
        return {**keys, "AWS_ENDPOINT_URL": self.url, "AWS_REGION": REGION}

    @cached_property
    def owner(self):
        """A session with clients of the account's root, by service."""
        return Session(environment=self.environment(OWNER), region=REGION)

    def user(self, name, documents):
        """Create a user with some policies, by their names; return the user's environment."""
        iam = self.owner.client("iam")
        iam.create_user(UserName=name)
        for title, document in documents.items():
            text = document if isinstance(document, str) else json.dumps(document)
            # As in an account: managed policies, each of which IAM takes 6,144 characters of.
            policy_arn = iam.create_policy(PolicyName=f"{name}-{title}", PolicyDocument=text)["Policy"]["Arn"]
            iam.attach_user_policy(UserName=name, PolicyArn=policy_arn)
        keys = iam.create_access_key(UserName=name)["AccessKey"]
        return self.environment(
            {"AWS_ACCESS_KEY_ID": keys["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"]}
        )

    def policies(self, *names):
        """Policies of `slipway policies` for this account, by their names in the account."""
        return {policy_name(name): render_policy(load_permissions(), name, self.account).text for name in names}


@pytest.fixture(scope="session")
def enforced():
    """ministack with its root and a reachable address; it ends with the tests."""
    with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as listening:
        inside = [sys.executable, str(Path(__file__).with_name("inside.py")), str(listening.fileno()), "4566"]
        process = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--net", "--kill-child", *inside, str(MINISTACK)],
            env={"PATH": os.environ["PATH"], "HOME": home, "AUTH": "true", "LOG_LEVEL": "ERROR", **OWNER},
            pass_fds=[listening.fileno()],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        host, port = listening.getsockname()
        try:
            yield Enforced(url=f"http://{host}:{port}")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def golden_policies():
    """The policies of a role or a managed policy in an example's stack, with resolved references.

    The golden file is also the expected template of the stack (tests/infra/test_snapshots.py).
    """

    def documents(example, prefix, references):
        path = ROOT / "tests/golden/infra" / f"{example}.json"
        path = path if path.exists() else path.with_suffix("") / "training.json"
        stack = json.loads(path.read_text(encoding="utf-8"))
        (properties,) = (
            resource["Properties"]
            for key, resource in stack["Resources"].items()
            if key.startswith(prefix) and resource["Type"] in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy")
        )
        inline = {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies", [])}
        return _filled(inline or {"own": properties["PolicyDocument"]}, references)

    return documents


def _filled(value, references):
    """A template's value with evaluated functions; references are resolved by the prefix of their name."""
    if isinstance(value, list):
        return [_filled(item, references) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, of),) = value.items()
        if name in FUNCTIONS:
            return FUNCTIONS[name](_filled(of, references))
        if name in ("Ref", "Fn::GetAtt", "Fn::ImportValue"):
            text = of[0] if isinstance(of, list) else of
            (matching_arn,) = [arn for prefix, arn in references.items() if text.startswith(prefix)] or [
                arn for prefix, arn in KNOWN.items() if text.rpartition(":Exports")[2].startswith(prefix)
            ]
            return matching_arn
    return {key: _filled(item, references) for key, item in value.items()}


@pytest.fixture(scope="session")
def boto():
    """A plain boto3 client for an environment."""

    def client(environment, service):
        return boto3.client(
            service,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )

    return client
