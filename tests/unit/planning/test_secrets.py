"""Secrets in `run.env`: recognized by form or name, never shown, accepted where the plan declares them plain."""

import json

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.errors import UnreadableInputError
from launcher.model.secret import secret_reference
from launcher.planning.checks import check
from launcher.planning.pin import pinned_plan
from launcher.planning.secrets import reference_findings


def request(env, plain=()):
    return plan_file.loads(
        json.dumps(
            {
                "slipway": 1,
                "name": "x",
                "workload": {"train": {"model": {"params_b": 0.1}, "hours": 1}},
                "target": {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"},
                "purchase": {"option": "on-demand"},
                "run": {"env": env, "plain_env": list(plain)},
            }
        )
    )


def secret_findings_of(env, plain=()):
    return [finding for finding in check(request(env, plain), load()) if finding.code == "secret-in-env"]


SECRETS = {
    "HF_TOKEN": "hf_" + "aB3" * 12,
    "AWS_ACCESS_KEY_ID": "AKIA" + "ABCDEFGH23456789",
    "AWS_SECRET_ACCESS_KEY": "aB3/" * 10,
    "X": "aB3+" * 10,
    "GH": "ghp_" + "a1" * 18,
    "OPENAI": "sk-proj-" + "a1" * 16,
    "WANDB_API_KEY": "0123456789abcdef" * 2 + "01234567",
    "DB_PASSWORD": "correct-horse",
    "DATABASE_URL": "postgres://me:hunter2@db/x",
    "KEY_FILE_TEXT": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl",
    "JWT": "eyJhbGciOiJI.eyJzdWIiOiIx.abc-_1",
    "client_secret": "not-so-short",
}
PLAIN = {
    "TOKENIZERS_PARALLELISM": "false",
    "MAX_TOKENS": "4096",
    "HF_TOKEN": "/fsx/secrets/token",
    "HF_HOME": "/fsx/hf",
    "NCCL_DEBUG": "INFO",
    "SECRET": "$FROM_ELSEWHERE",
    "USE_AUTH": "true",
    "GIT_REVISION": "0123456789abcdef0123456789abcdef01234567",
    "MODEL": "meta-llama/Llama-3.1-8B-Instruct-with-a-long-n",
    "ENDPOINT": "https://example.com:8443/path",
    "TOKEN": "",
}


@pytest.mark.parametrize("name", SECRETS)
def test_secret_in_env_refused_without_showing_value(name):
    (finding,) = secret_findings_of({name: SECRETS[name]})
    assert (finding.path, finding.level) == (f"run.env.{name}", "error")
    assert SECRETS[name] not in finding.message + finding.hint
    assert "run.secrets" in finding.hint
    assert f"run.plain_env: [{name}]" in finding.hint


@pytest.mark.parametrize("name", PLAIN)
def test_ordinary_env_value_accepted(name):
    assert secret_findings_of({name: PLAIN[name]}) == []


def test_plain_env_exempts_variable_from_secret_check():
    assert [finding.path for finding in secret_findings_of(dict(list(SECRETS.items())[:2]), ["HF_TOKEN"])] == [
        "run.env.AWS_ACCESS_KEY_ID"
    ]


def test_plain_env_does_not_change_digest():
    env = {"NCCL_DEBUG": "INFO"}
    assert len({pinned_plan(request(env, plain), load()).digest for plain in ((), ("NCCL_DEBUG",))}) == 1


ARN = "arn:aws:secretsmanager:us-east-2:123456789012:secret:team/hf-AbCdEf"


@pytest.mark.parametrize(
    "text, part",
    [
        (ARN, ("", "", "")),
        (f"{ARN}:HF_TOKEN::", ("HF_TOKEN", "", "")),
        (f"{ARN}:HF_TOKEN", ("HF_TOKEN", "", "")),
        (f"{ARN}::AWSPREVIOUS:", ("", "AWSPREVIOUS", "")),
        (f"{ARN}:a b::0123", ("a b", "", "0123")),
    ],
)
def test_secret_reference_parses_like_ecs(text, part):
    reference = secret_reference(text)
    assert (reference.arn, (reference.key, reference.stage, reference.version)) == (ARN, part)


@pytest.mark.parametrize(
    "text",
    [
        f"{ARN}:a:b:c:d",
        "arn:aws:s3:::bucket",
        "arn:aws:secretsmanager:us-east-2:1:secret:a",
        ARN.replace("team/hf", "a b"),
    ],
)
def test_invalid_secret_reference_refused_at_variable(text):
    request = plan_file.loads(f"slipway: 1\nname: a\nrun: {{secrets: {{T: {text!r}}}}}\n")
    (finding,) = reference_findings(request.run)
    assert (finding.code, finding.path) == ("not-a-secret", "run.secrets.T")


PARAMETER = "arn:aws:ssm:us-east-2:123456789012:parameter/"


@pytest.mark.parametrize(
    "text, arn, version",
    [
        (f"{PARAMETER}hf", f"{PARAMETER}hf", ""),
        (f"{PARAMETER}team/hf:3", f"{PARAMETER}team/hf", "3"),
        (f"{PARAMETER}team/hf:prod", f"{PARAMETER}team/hf", "prod"),
    ],
)
def test_version_of_parameter_is_no_part_of_its_arn(text, arn, version):
    reference = secret_reference(text)
    assert (reference.arn, reference.version) == (arn, version)


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:ssm:us-east-2:123456789012:document/x",
        "arn:aws:ssm:us-east-2:123456789012:parameter",
        PARAMETER,
        f"{PARAMETER}a b",
        f"{PARAMETER}a:1:2",
    ],
)
def test_other_arn_of_systems_manager_is_refused(text):
    with pytest.raises(ValueError, match="parameter/NAME"):
        secret_reference(text)


@pytest.mark.parametrize("value", ["hf_aB3aB3aB3aB3", "1234567890", "2026-11-29", "[hf_aB3]"])
def test_value_in_the_place_of_a_secrets_arn_is_not_shown(value):
    with pytest.raises(UnreadableInputError) as caught:
        plan_file.loads(f"slipway: 1\nname: x\nrun: {{secrets: {{HF_TOKEN: {value}}}}}\n")
    (finding,) = [finding for finding in caught.value.findings if finding.path.startswith("run.secrets")]
    assert value not in f"{finding.message} {finding.hint}"
    assert "write its ARN" in finding.hint
