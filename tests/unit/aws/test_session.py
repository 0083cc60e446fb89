"""Every failed AWS call raises one of our errors; credential errors name the fix."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from botocore.handlers import BUILTIN_HANDLERS
from botocore.parsers import ResponseParserError

from launcher.agent import safe_json
from launcher.aws import api_shape, stacks
from launcher.aws.regions import region_names
from launcher.aws.session import CredentialsError, Session, bare_session, boto_session, translate_errors
from launcher.model.errors import AwsError


def answer(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeStacks")


@pytest.mark.parametrize(
    "problem, hint",
    [
        (UnauthorizedSSOTokenError(), "aws sso login"),
        (SSOTokenLoadError(error_msg="token expired"), "aws sso login"),
        (TokenRetrievalError(provider="sso", error_msg="refresh failed"), "aws sso login"),
        (answer("ExpiredToken"), "aws sso login"),
        (answer("RequestExpired"), "aws sso login"),
        (NoCredentialsError(), "aws configure sso"),
        (PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"), "AWS_PROFILE"),
        (ProfileNotFound(profile="nobody"), "AWS_PROFILE"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_unusable_credentials_have_a_login_hint(problem, hint):
    with pytest.raises(CredentialsError, match="stack x: ") as caught, translate_errors("stack x"):
        raise problem
    assert hint in caught.value.hint
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "problem, message",
    [
        (answer("Throttling"), "stack x: Throttling: no"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:9"), "stack x: Could not connect"),
        (ResponseParserError("half an answer"), "stack x: the answer is cut short"),
        (UnicodeEncodeError("utf-8", "a\ud800", 1, 2, "surrogates not allowed"), "half of a pair of surrogates"),
    ],
)
def test_other_aws_errors_have_no_login_hint(problem, message):
    with pytest.raises(AwsError, match=message) as caught, translate_errors("stack x"):
        raise problem
    assert not isinstance(caught.value, CredentialsError)


def test_truncated_json_is_an_error_of_the_call():
    with (
        pytest.raises(AwsError, match="describe topic x: the answer is cut short") as caught,
        translate_errors("describe topic x"),
    ):
        safe_json.loads('{"Statement": [')
    assert "not valid JSON: Expecting value" in caught.value.message


def test_expired_session_is_reported_by_any_call(tmp_path, monkeypatch):
    """The profile is one of IAM Identity Center whose token is not there: the call itself finds that out."""
    (tmp_path / "config").write_text(
        "[profile work]\nsso_start_url = https://example.awsapps.com/start\nsso_region = us-east-1\n"
        "sso_account_id = 123456789012\nsso_role_name = Admin\nregion = us-east-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CredentialsError) as caught:
        stacks.find(Session(environment={"AWS_PROFILE": "work"}, region="us-east-1"), "x")
    assert "aws sso login" in caught.value.hint


@pytest.mark.parametrize("variable", ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])
def test_session_with_keys_ignores_profile_of_this_process(monkeypatch, variable):
    """The sandbox's environment has keys and no profile; the user's shell may name one that does not exist."""
    monkeypatch.setenv(variable, "nobody")
    keys = {"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "own"}
    assert boto_session(keys, "us-east-1").client("s3").meta.region_name == "us-east-1"
    assert "us-east-1" in region_names()
    assert api_shape._model.__wrapped__("sagemaker").service_name == "sagemaker"
    with pytest.raises(ProfileNotFound):
        boto_session({variable: "nobody"}, "us-east-1").client("s3")


def test_session_calls_the_handlers_of_botocore_and_of_packages_imported_later():
    bare_session()
    called = []
    later = ("example-event", lambda **_: called.append("later"))
    BUILTIN_HANDLERS.append(later)
    try:
        events = bare_session().get_component("event_emitter")
    finally:
        BUILTIN_HANDLERS.remove(later)
    events.emit("example-event")
    assert called == ["later"]
    with pytest.raises(ParamValidationError, match="Invalid bucket name"):
        events.emit("before-parameter-build.s3.ListObjects", params={"Bucket": "no bucket"}, model=None, context={})


def test_handler_of_one_session_is_not_called_by_another():
    called = []
    bare_session().get_component("event_emitter").register("example-event", lambda **_: called.append("first"))
    bare_session().get_component("event_emitter").emit("example-event")
    assert called == []
