"""External rules: CDK's own validation, cdk-nag, cfn-lint, IAM's reference, CloudFormation's limits."""

import json
import re

import pytest

from tests.checks import some
from tests.infra.accepted import CLUSTERS, EKS, HYPERPOD, HYPERPOD_EKS, INSTANCES, PCS, TRAINING_JOBS, accepted
from tests.infra.conftest import FILES
from tests.infra.linting import complaints, lint_facts, template_complaints
from tests.infra.serving.conftest import FILES as ENDPOINTS
from tests.infra.template_policies import policy_complaints
from tests.plans import ROOT

OWN = {
    "parallelcluster": (),
    "eks": EKS,
    "hyperpod-slurm": HYPERPOD,
    "hyperpod-eks": HYPERPOD_EKS,
    "pcs": PCS,
    "ec2": INSTANCES,
    "sagemaker-training": TRAINING_JOBS,
}
"""What is accepted on one target alone."""


def test_every_finding_is_accepted_with_reason(example_of_kind):
    kind, assembly = example_of_kind
    rules = (*CLUSTERS, *OWN[kind])
    assert [violation for violation in assembly.violations if accepted(rules, *violation) is None] == []


@pytest.mark.parametrize("kind", FILES)
def test_every_accepted_finding_occurs(synthesised, plan_at, kind):
    violations = [violation for path in FILES[kind].values() for violation in synthesised(plan_at(path)).violations]
    kind_violations = [violation for violation in violations if accepted(CLUSTERS, *violation) is None]
    assert {accepted(OWN[kind], *violation) for violation in kind_violations} == set(range(len(OWN[kind])))
    if kind == "parallelcluster":
        assert {accepted(CLUSTERS, *violation) for violation in violations} == set(range(len(CLUSTERS)))


def test_accepted_findings_are_at_most_12():
    assert len(CLUSTERS) + len(HYPERPOD) <= 12


@pytest.mark.slow  # the next test lints a template with each property of theirs
def test_cfn_lint_reports_no_error(example_of_kind):
    _, assembly = example_of_kind
    assert complaints(assembly.folder, assembly.plan.place.region) == []


def test_cfn_lint_reports_no_error_in_templates_with_every_property_of_the_examples(synthesised, plan_at):
    """The longest first; a template is read if it has a fact that none before it has."""
    texts = {
        path: (path.read_text(encoding="utf-8"), assembly.plan.place.region)
        for files in FILES.values()
        for assembly in map(synthesised, map(plan_at, files.values()))
        for path in assembly.folder.glob("*.template.json")
    }
    known, linted = set(), set()
    for path, (text, region) in sorted(some(texts.items()), key=lambda item: -len(item[1][0])):
        facts = set(lint_facts(json.loads(text)))
        if not facts <= known:
            known |= facts
            linted.add(path)
            assert template_complaints(path, region) == [], path
    assert {path.name.rpartition("-")[2] for path in linted} == {path.name.rpartition("-")[2] for path in texts}


def test_cfn_lint_reports_invalid_property(tmp_path):
    """A call that looks at nothing finds nothing, too."""
    wrong = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"Nonsense": 1}}}}
    (tmp_path / "x.template.json").write_text(json.dumps(wrong))
    assert [complaint.rule.id for complaint in complaints(tmp_path, "us-east-2")] == ["E3002"]


@pytest.mark.parametrize(
    "action,resource,wrong",
    [
        ("s3:GetObjects", "*", "no such action"),
        ("s3:GetObject", {"Fn::GetAtt": ["Log", "Arn"]}, "not on"),
        ("s3:GetObject", {"Fn::GetAtt": ["Store", "Arn"]}, "not on"),
        ("s3:GetObject", {"Fn::Join": ["", [{"Fn::GetAtt": ["Store", "Arn"]}, "/jobs/*"]]}, None),
        (
            "sagemaker:ListClusterNodes",
            {"Fn::Sub": "arn:aws:sagemaker:us-east-2:${AWS::AccountId}:endpoint/x"},
            "not on",
        ),
    ],
)
def test_ineffective_iam_policy_is_reported(action, resource, wrong):
    document = {"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource}]}
    template = {
        "Resources": {
            "Store": {"Type": "AWS::S3::Bucket"},
            "Log": {"Type": "AWS::Logs::LogGroup"},
            "Role": {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"PolicyDocument": document}},
        }
    }
    assert [complaint.startswith(wrong) for _, complaint, _ in policy_complaints(template)] == ([True] if wrong else [])


FURTHER = {
    str(path.parent.relative_to(ROOT / "examples")): path
    for path in [*sorted((ROOT / "examples" / "recipes").glob("*/plan.yaml")), ROOT / "examples" / "lora" / "plan.yaml"]
    if "endpoint" not in path.parent.name
}
"""Plans with a trainer of their own beside them."""
BUDGET = re.compile(r"AwsSolutions-IAM5\[Resource::[^\]]*/jobs/\.budget/\*\]")
"""A guard that stops a job at a sum writes each run's word into one folder: its objects do not exist yet."""


@pytest.mark.parametrize("name", FURTHER)
def test_examples_with_trainer_satisfy_rules(synthesised, plan_at, name):
    assembly = synthesised(plan_at(FURTHER[name]), ruled=True, usd_per_hour="21.960000")
    violations = [violation for violation in assembly.violations if accepted(CLUSTERS, *violation) is None]
    assert [violation for violation in violations if not BUDGET.fullmatch(violation[0])] == []
    assert bool(violations) == (assembly.plan.request.budget.stop_at_usd is not None)
    assert complaints(assembly.folder, assembly.plan.place.region) == []


WITHOUT_STACKS = {
    "kubernetes/": "jobs for clusters that exist",
    "open/": "a choice is left, which the launcher makes",
    "recipes/trl-dpo/dpo.yaml": "the trainer's own configuration",
    "recipes/chat-endpoint/": "as the next",
    "recipes/embedding-endpoint/": "endpoints, whose stacks the pinned plans of serve/ have",
    "serve/pinned/llama31-8b-eks.yaml": "manifests alone",
    "serve/": "a choice is left, or Bedrock serves it",
}


def test_every_example_is_checked_or_has_no_stack():
    folder = ROOT / "examples"
    covered = {path for files in (*FILES.values(), FURTHER, ENDPOINTS) for path in files.values()}
    for path in some(folder.rglob("*.yaml")):
        reasons = [stack for stack in WITHOUT_STACKS if str(path.relative_to(folder)).startswith(stack)]
        assert path in covered or reasons, path


def test_templates_stay_below_cloudformation_limits(example_of_kind):
    for path in some(example_of_kind[1].folder.glob("*.template.json")):
        assert path.stat().st_size < 1_000_000
        assert len(json.loads(path.read_text())["Resources"]) < 500


def test_template_contains_no_price(example_of_kind):
    """The plan's own budget is not a price."""
    text = json.dumps([template["Resources"] for template in example_of_kind[1].templates.values()])
    # The name of an allocation strategy of EC2 Auto Scaling.
    text = text.replace("price-capacity-optimized", "")
    assert not re.search(r"(?i)price|usd_per", text)


def test_passed_rate_appears_in_templates(synthesised):
    rated = synthesised("p5-spot", usd_per_hour="98.32")
    assert set(re.findall(r"98\.32\d*", json.dumps(rated.templates))) == {"98.320000"}
