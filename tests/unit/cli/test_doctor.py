"""The page, the document and the exit code of `slipway doctor`."""

import json

import pytest

from launcher.answers.doctor import document, page
from launcher.model.administrator import ADMINISTRATOR, by_administrator
from launcher.model.diagnosis import Diagnosis, advice, failed_check, ok, unknown
from launcher.rendering.policies import PolicyAccount, bootstrap_command

FOUND = Diagnosis(
    name="probe",
    checks=(
        ok("credentials", "credentials are valid", "account 123456789012, arn:aws:iam::123456789012:user/ada"),
        failed_check(
            "quota All P5 Spot Instance Requests",
            "1,536 vCPUs for 8 x p5.48xlarge",
            "768, 192 of it used",
            "aws service-quotas request-service-quota-increase --region us-east-2 --service-code ec2 --quota-code "
            "L-C4BD4855 --desired-value 1728",
        ),
        unknown("rights", "the caller may deploy and follow", "these credentials may not ask"),
        advice(
            "notifications", "guardrails.notify has a recipient", "nobody is notified", "guardrails: {notify: [...]}"
        ),
    ),
)


@pytest.mark.parametrize("width", [80, 120])
def test_page_equals_golden(golden, width):
    golden(f"doctor/page-{width}.txt", "\n".join(page(FOUND, "us-east-2", width)) + "\n")


def test_page_at_any_width_has_no_wider_line():
    reason = "the sandbox cannot do this (servicequotas): NotImplementedError('The list_service_quotas action')"
    for width in range(60, 100):
        diagnosis = Diagnosis(name="probe", checks=(unknown("quota", "quotas allow the plan", reason),))
        assert [line for line in page(diagnosis, "us-east-2", width) if len(line) > width] == []


def test_document_has_contract_keys():
    json_document = document(FOUND)
    assert (json_document["schema"], json_document["name"], json_document["verdict"]) == (
        "slipway.doctor/1",
        "probe",
        "refused",
    )
    assert {frozenset(check) for check in json_document["checks"]} == {
        frozenset(("name", "result", "asked", "got", "fix"))
    }
    assert [check["result"] for check in json_document["checks"]] == ["ok", "failed", "unknown", "advice"]


def test_long_command_gets_own_line_and_sentence_is_wrapped():
    account = PolicyAccount(id="123456789012", qualifier="slipway", boundary_arn=None)
    command = bootstrap_command(account, "us-east-2", ["arn:aws:iam::123456789012:policy/A"], qualified=True)
    checks = (
        failed_check("bootstrap", "a bootstrap", "none", by_administrator(command, "the policies come first")),
        failed_check("plugin", "it is on PATH", "missing", "install the plugin of the session manager " * 3),
    )
    lines = page(Diagnosis(name=None, checks=checks), "us-east-2", 80)
    assert command in lines
    remark = " ".join(lines[lines.index(command) - 1 : lines.index(command)])
    assert " ".join(remark.split()) == f"fix ({ADMINISTRATOR}; the policies come first):"
    assert all(len(line) <= 80 for line in lines if line != command)


def test_diagnosis_without_failed_checks_is_ready():
    assert document(Diagnosis(name=None, checks=FOUND.checks[2:]))["verdict"] == "ready"


def test_doctor_without_credentials_refuses_and_reports_local_checks(slipway):
    code, out, _ = slipway("doctor", "examples/p5-spot.yaml", "--json")
    checks = {check["name"]: check["result"] for check in json.loads(out)["checks"]}
    assert code == 5
    assert checks["credentials"] == "failed"
    assert checks["CDK and Node"] == "ok"
    assert checks["type offered"] == "unknown"


def test_doctor_without_plan_or_region_refused(slipway):
    code, _, err = slipway("doctor")
    assert code == 2
    assert "add --region" in err


@pytest.mark.parametrize("more", [[], ["--region", "eu-west-1"]], ids=["any region", "one region"])
def test_doctor_checks_region_where_launch_would_run(slipway, tmp_path, monkeypatch, more):
    """Not where a price that is too old to launch would be lower."""
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    assert slipway("init", "plan.yaml").code == 0
    region = json.loads(slipway("quote", "plan.yaml", "--json", *more).out)["region"]
    assert f"my-job in {region}" in slipway("doctor", "plan.yaml", *more).out
