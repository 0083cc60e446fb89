"""Requests that the SDK signed are accepted; a request changed after signing is not."""

import base64
import os
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from launcher.aws.eks import token as eks_token
from launcher.aws.session import Session
from launcher.sandbox import signed
from launcher.sandbox.keys import AccessKey, KeyRing
from launcher.sandbox.kubernetes import tokens
from launcher.sandbox.signed import AccessError, Request, SignatureFault

ENDPOINT = "http://localhost:4566"
NAMES = ("a b", "é/+", "x%20y", "//deep//", "~_-.", "=&?", "plain")


def send(service, call, key, *, region="us-west-2", **given):
    """What the SDK sends for a call, with its body."""
    client = boto3.client(
        service,
        endpoint_url=ENDPOINT,
        region_name=region,
        aws_access_key_id=key.id,
        aws_secret_access_key=key.secret,
        aws_session_token=key.token or None,
        config=Config(retries={"total_max_attempts": 1}),
    )
    caught = []

    def stop(request, **_):
        caught.append(request)
        raise KeyboardInterrupt

    client.meta.events.register("before-send", stop)
    with pytest.raises(KeyboardInterrupt):
        getattr(client, call)(**given)
    (request,) = caught
    body = request.body.read() if hasattr(request.body, "read") else request.body or b""
    text = {
        name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
    }
    headers = {"host": "localhost:4566", **text}
    target = request.url.removeprefix(ENDPOINT)
    body = body.encode() if isinstance(body, str) else body
    return Request(method=request.method, target=target, headers=headers, body=lambda: body)


def presign(key, *, region, name, **more):
    """A presigned address of an object, as somebody asks for it."""
    credentials = {
        "aws_access_key_id": key.id,
        "aws_secret_access_key": key.secret,
        "aws_session_token": key.token or None,
    }
    client = boto3.client("s3", endpoint_url=ENDPOINT, region_name=region, **credentials)
    url = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": name}, **more)
    return Request(method="GET", target=url.removeprefix(ENDPOINT), headers={"host": "localhost:4566"})


def why(request, keys):
    """Why a request is refused, None where it is taken."""
    try:
        signed.check(request, keys)
    except AccessError as problem:
        return problem.refusal
    return None


@pytest.fixture
def known_keys():
    return KeyRing()


@pytest.fixture(params=["the owner's", "for a time"])
def key(request, known_keys):
    return known_keys.owner if request.param == "the owner's" else known_keys.grant(timedelta(hours=1))


@pytest.mark.parametrize(
    "service, call, given",
    [
        ("sts", "get_caller_identity", {}),
        ("dynamodb", "get_item", {"TableName": "t", "Key": {"id": {"S": "é"}}}),
        ("eks", "describe_cluster", {"name": "a b"}),
        ("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"{}", "CustomAttributes": "a  b"}),
        *(("s3", "put_object", {"Bucket": "b", "Key": name, "Body": b"x", "Metadata": {"k_k": "v"}}) for name in NAMES),
        *(("s3", "list_objects_v2", {"Bucket": "b", "Prefix": name}) for name in NAMES),
    ],
)
def test_request_signed_by_the_sdk_is_accepted(service, call, given, known_keys, key):
    request = send(service, call, key, **given)
    assert signed.check(request, known_keys) == key
    assert why(request, KeyRing()) is SignatureFault.KEY


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_presigned_url_is_accepted_until_expiry(name, region, known_keys, key):
    """In us-east-1 the SDK makes them in version 2."""
    request = presign(key, region=region, name=name)
    assert why(request, known_keys) is None
    assert why(replace(request, method="PUT"), known_keys) is SignatureFault.SIGNATURE
    other = replace(request, target=request.target.replace("/bucket/", "/bucked/"))
    assert why(other, known_keys) is SignatureFault.SIGNATURE
    assert why(presign(key, region=region, name=name, ExpiresIn=-5), known_keys) in (
        SignatureFault.EXPIRED,
        SignatureFault.UNSIGNED,
    )


def test_temporary_key_needs_a_session_token_and_expires(known_keys):
    temporary_key = known_keys.grant(timedelta(hours=1))
    bare = AccessKey(id=temporary_key.id, secret=temporary_key.secret)
    assert why(send("sts", "get_caller_identity", bare), known_keys) is SignatureFault.SESSION
    ended = known_keys.grant(timedelta(seconds=-1))
    assert why(send("sts", "get_caller_identity", ended), known_keys) is SignatureFault.EXPIRED


def test_keys_are_random_and_expired_ones_are_forgotten():
    first, second = KeyRing(), KeyRing()
    assert (first.owner.id, first.owner.secret) != (second.owner.id, second.owner.secret)
    ended = first.grant(timedelta(seconds=-1))
    first.grant(timedelta(hours=1))
    assert first.find(ended.id) is None


def test_changed_request_body_is_refused(known_keys):
    request = send("s3", "put_object", known_keys.owner, Bucket="b", Key="k", Body=b"mine")
    assert why(replace(request, body=lambda: b"thine"), known_keys) is SignatureFault.BODY


def test_request_with_a_clock_skew_above_fifteen_minutes_is_refused(known_keys):
    for minutes, refused in ((-16, SignatureFault.TIME), (-14, None), (14, None), (16, SignatureFault.TIME)):
        moment = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y%m%dT%H%M%SZ")
        assert why(_signed_at(known_keys.owner, moment), known_keys) is refused


def _signed_at(key, moment):
    """A request signed at another time, which the SDK does not do."""
    signer = SigV4Auth(Credentials(key.id, key.secret), "sts", "us-east-1")
    request = AWSRequest("GET", f"{ENDPOINT}/", headers={"host": "localhost:4566", "X-Amz-Date": moment})
    request.context["timestamp"] = moment
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    scope = f"{key.id}/{moment[:8]}/us-east-1/sts/aws4_request"
    authorization = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={signature}"
    headers = {"host": "localhost:4566", "x-amz-date": moment, "authorization": authorization}
    return Request(method="GET", target="/", headers=headers)


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1:1", "[::1]:1", "bucket.localhost:1"])
def test_local_program_is_allowed(host):
    signed.refuse_foreign(host, None)


@pytest.mark.parametrize(
    "host, origin",
    [
        ("rebound.example.org:1", None),
        ("localhost.example.org", None),
        ("", None),
        ("localhost:1", "http://localhost:1"),
        ("localhost:1", "null"),
    ],
)
def test_request_of_a_web_page_is_refused(host, origin):
    with pytest.raises(AccessError, match=r"only as localhost|does not answer web pages"):
        signed.refuse_foreign(host, origin)


class TestTokensOfEks:
    def token(self, key, cluster="train", endpoint="http://localhost:4566"):
        environment = {"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret, "AWS_ENDPOINT_URL": endpoint}
        environment |= {"AWS_SESSION_TOKEN": key.token} if key.token else {}
        return eks_token(Session(environment=environment, region="us-east-2"), cluster)

    def test_token_signed_by_a_known_key_is_accepted(self, known_keys, key):
        assert tokens.Tokens("train", known_keys).allows(self.token(key))

    def test_token_of_another_key_or_cluster_is_refused(self, known_keys):
        taken = tokens.Tokens("train", known_keys)
        forged = AccessKey(id=known_keys.owner.id, secret="guessed")
        refused = (self.token(KeyRing().owner), self.token(known_keys.owner, cluster="other"), self.token(forged))
        assert [taken.allows(token) for token in refused] == [False, False, False]
        assert tokens.refusal(refused[0], "train", known_keys, datetime.now(UTC)).startswith("access key SANDBOX")

    @pytest.mark.parametrize("minutes, taken", [(14, True), (16, False)])
    def test_token_is_valid_for_fifteen_minutes_despite_the_url(self, known_keys, monkeypatch, minutes, taken):
        before = datetime.now(UTC) - timedelta(minutes=minutes)
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: before)
        assert tokens.Tokens("train", known_keys).allows(self.token(known_keys.owner)) is taken

    def test_changed_token_is_refused(self, known_keys):
        body = self.token(known_keys.owner).removeprefix(tokens.PREFIX)
        url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
        longer = url.replace("X-Amz-Expires=60", "X-Amz-Expires=900")
        assert longer != url
        changed = tokens.PREFIX + base64.urlsafe_b64encode(longer.encode()).decode().rstrip("=")
        assert not tokens.Tokens("train", known_keys).allows(changed)


ROUNDS = [pytest.param(150, id="few"), pytest.param(20_000, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_randomly_changed_request_is_refused(rounds, known_keys, capsys):
    seed = int(os.environ.get("SLIPWAY_ATTACK_SEED") or random.randrange(1 << 32))
    with capsys.disabled():
        print(f"\nchanged on its way: SLIPWAY_ATTACK_SEED={seed}")  # noqa: T201
    chance = random.Random(seed)
    temporary_key = known_keys.grant(timedelta(hours=1))
    taken = [
        send("s3", "put_object", known_keys.owner, Bucket="b", Key="k", Body=b"x", Metadata={"m": "v"}),
        send("dynamodb", "list_tables", temporary_key),
        presign(known_keys.owner, region="us-east-1", name="k"),
        presign(temporary_key, region="us-west-2", name="k"),
    ]
    assert [why(request, known_keys) for request in taken] == [None] * len(taken)
    for number in range(rounds):
        after = _with_change(chance.choice(taken), chance)
        assert why(after, known_keys) is not None, (seed, number, after)


def _with_change(request, chance):
    """The request with one letter of a part that is signed changed: of a presigned address neither body nor host."""
    in_header = "authorization" in request.headers
    parts = [
        "method",
        "target",
        *(["body"] if in_header else []),
        *(SIGNED & set(request.headers) if in_header else []),
    ]
    part = chance.choice(sorted(parts))
    if part == "method":
        return replace(request, method=chance.choice([method for method in METHODS if method != request.method]))
    if part == "body":
        body = request.body() + bytes([chance.randrange(256)])
        return replace(request, body=lambda: body)
    text = request.target if part == "target" else request.headers[part]
    place = chance.randrange(len(text))
    letter = chance.choice([letter for letter in LETTERS if letter.lower() != text[place].lower()])
    changed_text = text[:place] + letter + text[place + 1 :]
    if part == "target":
        return replace(request, target=changed_text)
    return replace(request, headers={**request.headers, part: changed_text})


METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SIGNED = {"authorization", "host", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256", "x-amz-meta-m"}
