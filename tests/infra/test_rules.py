"""The rules of others: CDK's own validation, cdk-nag, cfn-lint, CloudFormation's limits."""

import json
import re

from tests.infra.linting import complaints

ACCEPTED = (
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
        r"AwsSolutions-IAM5\[Resource::[^\]]*(s3\.data-source\.lustre\.fsx\.amazonaws\.com|corpus-of-the-team/tokens)/\*\]",
        r"-training/ProviderAccess/Policy",
        "FSx makes the linked role and the objects are the user's; both wildcards end at one service or one prefix",
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
        r"AwsSolutions-IAM5\[Resource::(\*|[^\]]*:log-group:<SessionLog\w+>:\*)\]",
        r"-training/SessionLog/Policy",
        "log streams are named by the session, below one group; groups are listed by a call that takes no resource",
    ),
)
"""Findings that stay: rule, construct and why. Each is on one resource of a stack."""


def accepted(rule, construct):
    """The place in ACCEPTED that a violation has, or None."""
    for index, (rule_pattern, construct_pattern, _) in enumerate(ACCEPTED):
        if re.fullmatch(rule_pattern, rule) and construct.endswith(construct_pattern):
            return index
    return None


def test_every_finding_is_accepted_for_a_reason(assembly):
    assert [each for each in assembly.violations if accepted(*each) is None] == []


def test_nothing_is_accepted_that_does_not_occur(synthesised, plan_names):
    used = {accepted(*each) for name in plan_names for each in synthesised(name).violations}
    assert used == set(range(len(ACCEPTED)))
    assert len(ACCEPTED) <= 12


def test_cfn_lint_finds_no_error(assembly):
    assert complaints(assembly.folder, assembly.plan.place.region) == []


def test_cfn_lint_finds_what_is_wrong(tmp_path):
    """A call that looks at nothing finds nothing, too."""
    wrong = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"Nonsense": 1}}}}
    (tmp_path / "x.template.json").write_text(json.dumps(wrong))
    assert [each["Rule"]["Id"] for each in complaints(tmp_path, "us-east-2")] == ["E3002"]


def test_templates_stay_far_from_the_limits(assembly):
    for path in assembly.folder.glob("*.template.json"):
        assert path.stat().st_size < 1_000_000
        assert len(json.loads(path.read_text())["Resources"]) < 500


def test_no_price_stands_in_a_template_but_the_rate_that_was_passed(assembly, synthesised):
    """The plan's own budget is not a price."""
    text = json.dumps([each["Resources"] for each in assembly.templates.values()])
    assert not re.search(r"(?i)price|usd_per", text)
    rated = synthesised("p5-spot", usd_per_hour="98.32")
    amounts = set(re.findall(r"98\.32\d*", json.dumps(rated.templates)))
    assert amounts == {"98.320000"}
