"""Text that a stranger may read holds no secret, no account number and no address of a person."""

import json

import pytest

from launcher.model.masking import MASK, mask_secrets, secret_values

KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    "text, secret",
    [
        (f"AWS_SECRET_ACCESS_KEY={KEY}", KEY),
        (f"aws_secret_access_key = {KEY}", KEY),
        (f'{{"SecretAccessKey": "{KEY}"}}', KEY),
        ("using AKIAIOSFODNN7EXAMPLE for it", "AKIAIOSFODNN7EXAMPLE"),
        ("Authorization: Bearer abcdefghijklmnop0123456789", "abcdefghijklmnop0123456789"),
        ("export HF_TOKEN=hf_abcdefghijklmnopqrstuv", "hf_abcdefghijklmnopqrstuv"),
        ("token hf_abcdefghijklmnopqrstuv was refused", "hf_abcdefghijklmnopqrstuv"),
        ("WANDB_API_KEY: 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
        ("wandb login --password 'x' password=hunter2hunter2", "hunter2hunter2"),
        ("postgres://team:s3cr3tpass@db.example.com/runs", "s3cr3tpass"),
        ("GET https://b.s3.amazonaws.com/k?X-Amz-Signature=0badc0de&X-Amz-Date=2", "0badc0de"),
        ("https://hooks.slack.com/services/T00/B00/abcdefghijkl to #runs", "abcdefghijkl"),
        ("POST https://discord.com/api/webhooks/123/abc-DEF_ghi", "abc-DEF_ghi"),
        ("https://acme.webhook.office.com/webhookb2/1f-2e@3d/IncomingWebhook/9a", "1f-2e"),
        ("key AIzaSyA-1234567890abcdefghijklmnopqrst", "AIzaSyA-1234567890abcdefghijklmnopqrst"),
        ("+ wandb login 0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
        ("mysql --user me --password hunter2hunter2 runs", "hunter2hunter2"),
        ("curl --auth-token 'abc123def456' x", "abc123def456"),
        ("k8s-aws-v1.aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8", "aHR0cHM6Ly9zdHMuYW1hem9uYXdzLmNvbS8"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\n-----END RSA PRIVATE KEY-----", "MIIEpAIB"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEpAIBcut off", "MIIEpAIB"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij", "eyJzdWIiOiIxMjM0In0"),
        ("arn:aws:iam::123456789012:role/slipway", "123456789012"),
        ("s3://cdk-slipway-assets-123456789012-us-east-2/a", "123456789012"),
        ("notify: [first.last@example.com]", "first.last@example.com"),
    ],
)
def test_secret_is_masked_in_usual_places(text, secret):
    assert secret in text
    assert secret not in mask_secrets(text)


NESTED = {
    "env": [{"name": "WANDB_API_KEY", "value": "hunter2hunter2"}, {"name": "LANG", "value": "C.UTF-8"}],
    "args": ["train", "--auth-token", "hunter2hunter2", "--lr", "1e-3"],
    "script": 'token = Path(environ["AWS_TOKEN_FILE"]).read_text()\nPASSWORD="hunter2hunter2"; echo "done"\n',
    "path": 'password: "hunter2hunter2\\\\"',
    "signed": 'curl "https://b.s3.amazonaws.com/k?X-Amz-Signature=hunter2hunter2" "https://hooks.slack.com/services/hunter2"',
    "place": {"uri": "s3://bucket", "mail": "me@example.com"},
}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_masked_json_is_json_at_every_nesting(depth, separators):
    text = json.dumps(NESTED, separators=separators)
    for _ in range(depth - 1):
        text = json.dumps(text, separators=separators)
    safe = mask_secrets(text)
    assert "hunter2" not in safe
    assert "me@example.com" not in safe
    masked = json.loads(safe)
    for _ in range(depth - 1):
        masked = json.loads(masked)
    assert masked.keys() == NESTED.keys()
    assert masked["env"] == [{"name": "WANDB_API_KEY", "value": MASK}, NESTED["env"][1]]
    assert masked["args"] == ["train", "--auth-token", MASK, "--lr", "1e-3"]
    assert masked["place"] == {"uri": "s3://bucket", "mail": "EMAIL"}


@pytest.mark.parametrize(
    "text",
    [
        "step 400 loss 2.31 tokens 12288000000 tokens_per_s 11250",
        '"tokens": 4096, "tokens_b": 2.0, "max_tokens": 8192',
        "tokenizer: meta-llama/Llama-3.1-8B is loaded",
        "2026-11-28T15:00:00Z i-0123456789abcdef0 sg-0123456789abcdef0 DOWN*",
        "e554774e857acd723e4c9f8870df5279c89f6cf4c337c6c6b33220d8680796f9",
        "token: null, password: none",
        "train.py --max-tokens 4096 --tokenizer gpt2 --token-budget 1000000 --use-token --lr 1e-3",
    ],
)
def test_text_without_secret_is_unchanged(text):
    assert mask_secrets(text) == text


def test_known_secret_values_are_masked():
    known = secret_values(
        {"MY_API_KEY": "correct horse", "TEAM_PASSWORD": "battery", "HOME": "/home/me", "X_KEY": "ab"}
    )
    assert known == {"correct horse", "battery"}
    assert (
        mask_secrets("the trainer printed correct horse battery staple", known)
        == f"the trainer printed {MASK} {MASK} staple"
    )
