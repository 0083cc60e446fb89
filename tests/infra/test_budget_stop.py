"""budget.stop_at_usd in the stacks: settings and rights of the guard, and plans deployed without a quote."""

import pytest

from launcher.model.errors import ImpossibleError

PLAN = """
slipway: 1
name: tiny
workload: {{train: {{hours: 4}}}}
target: {{kind: {kind}, region: us-east-2, az_id: use2-az1, instance_type: p5.48xlarge, nodes: 2}}
{more}purchase: {{option: {option}}}
checkpoint: {{grace_seconds: 200}}
budget: {{stop_at_usd: 500.50}}
"""
RATES = {"usd_per_hour": "110.08", "other_usd_per_hour": "1.25"}


def plan(kind="parallelcluster", option="on-demand"):
    more = "network: {api_cidrs: [52.94.76.0/24]}\n" if kind.endswith("eks") else ""
    return PLAN.format(kind=kind, more=more, option=option)


def guard_of(assembly):
    """The guard's function; EKS has another beside it, which counts pods from within the network."""
    functions = assembly.resources("training", "AWS::Lambda::Function").values()
    (guard,) = [
        function for function in functions if "FOLDER_URI" in function.get("Environment", {}).get("Variables", {})
    ]
    return guard


@pytest.mark.parametrize("kind", ["parallelcluster", "hyperpod-slurm", "eks"])
def test_guard_with_spending_limit_gets_rates_and_stop_uri(synthesised, kind):
    assembly = synthesised(plan(kind), **RATES)
    variables = guard_of(assembly)["Environment"]["Variables"]
    assert (variables["STOP_AT_USD"], variables["NODES"], variables["OTHER_USD_PER_HOUR"]) == ("500.5", "2", "1.25")
    # 200 s of grace and 180 s for the upload are two of its periods.
    assert (variables["STOP_SETTLE_MINUTES"], variables["STOP_RESERVE_MINUTES"]) == ("10", "20")
    assert "STOP_TO_ZERO" not in variables
    assert assembly.template("training")["Outputs"]["StopUri"]["Value"] == variables["STOP_URI"]
    assert "/.budget/" in str(variables["STOP_URI"])
    assert "/500.5.json" in str(variables["STOP_URI"])
    roles = assembly.resources("training", "AWS::IAM::Role").values()
    statements = [statement for role in roles for policy in role.get("Policies", []) for statement in _of(policy)]
    (tells,) = [statement for statement in statements if statement.get("Sid") == "WriteStopMessage"]
    assert tells["Action"] == ["s3:GetObject", "s3:PutObject"]
    assert "/.budget/*" in str(tells["Resource"])


@pytest.mark.parametrize("kind", ["parallelcluster", "hyperpod-slurm", "hyperpod-eks", "eks"])
def test_every_guard_reads_job_messages_in_private_folder(synthesised, kind):
    assembly = synthesised(plan(kind).replace("budget: {stop_at_usd: 500.50}", ""), **RATES)
    folder = guard_of(assembly)["Environment"]["Variables"]["FOLDER_URI"]["Fn::Join"][1]
    assert assembly.template("training")["Outputs"]["GuardMessageUri"]["Value"]["Fn::Join"][1] == [*folder, "/messages"]
    roles = assembly.resources("training", "AWS::IAM::Role").values()
    may = {
        statement.get("Sid"): statement
        for role in roles
        for policy in role.get("Policies", [])
        for statement in _of(policy)
    }
    assert may["MoveMessages"]["Action"] == ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    assert "/jobs/.guard/" in str(may["MoveMessages"]["Resource"])
    assert "jobs/.guard/" in str(may["ListMessages"]["Condition"]["StringLike"]["s3:prefix"])


def _of(policy):
    return policy["PolicyDocument"]["Statement"]


def test_spending_limit_without_rate_refused(synthesised):
    with pytest.raises(ImpossibleError) as caught:
        synthesised(plan())
    (finding,) = caught.value.findings
    assert (finding.code, finding.path) == ("stop-without-rate", "budget.stop_at_usd")
    assert "-c usd_per_hour=" in finding.hint


SPOT = {"usd_per_hour": "60", "other_usd_per_hour": "1.25", "job_hours": "5.5", "max_usd": "400"}
JOB = {
    "JOB_MAX_USD": "400",
    "JOB_MAX_USD_NAME": "--max-usd",
    "JOB_NODE_HOURS": "11.0",
    "NODES": "2",
    "OTHER_USD_PER_HOUR": "1.25",
}
"""The quoted hours of both nodes."""


@pytest.mark.parametrize(
    "kind, option, spot, job",
    [
        ("ec2", "spot", "true", JOB),
        ("ec2", "on-demand", None, {}),
        ("parallelcluster", "spot", "true", {}),
        ("hyperpod-slurm", "spot", None, {}),
    ],
)
def test_guard_on_ec2_spot_reads_prices_and_compares_replacements(synthesised, kind, option, spot, job):
    assembly = synthesised(plan(kind, option).replace("budget: {stop_at_usd: 500.50}", ""), **SPOT)
    variables = guard_of(assembly)["Environment"]["Variables"]
    assert variables.get("SPOT") == spot
    assert {name: variables[name] for name in variables if name.startswith("JOB_") or name in JOB} == job
    roles = assembly.resources("training", "AWS::IAM::Role").values()
    actions = [str(policy) for role in roles for policy in role.get("Policies", [])]
    assert any("ec2:DescribeSpotPriceHistory" in text for text in actions) is (spot == "true")


def test_guard_without_spending_limit_has_no_stop_variables(synthesised):
    assembly = synthesised(plan().replace("budget: {stop_at_usd: 500.50}", ""), **RATES)
    function = guard_of(assembly)
    assert not [variable for variable in function["Environment"]["Variables"] if variable.startswith("STOP_")]
    assert "StopUri" not in assembly.template("training")["Outputs"]
