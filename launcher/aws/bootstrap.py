"""The CDK bootstrap of an account's region: its stack and its bucket."""

from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError
from launcher.model.request import DEFAULT_QUALIFIER

ABSENT = frozenset(("404", "NoSuchBucket", "NotFound"))
THEIRS = frozenset(("403", "AccessDenied", "Forbidden"))
"""Codes of HeadBucket, whose response has no body: for a missing bucket, and for another account's bucket."""


def version_parameter(qualifier: str | None) -> str:
    """The name of the parameter that holds the version of the bootstrap stack.

    >>> version_parameter(None)
    '/cdk-bootstrap/hnb659fds/version'
    """
    return f"/cdk-bootstrap/{qualifier or DEFAULT_QUALIFIER}/version"


def staging_bucket(qualifier: str | None, account: str, region: str) -> str:
    """The bucket to which assets are uploaded before a deployment."""
    return f"cdk-{qualifier or DEFAULT_QUALIFIER}-assets-{account}-{region}"


def role_name(qualifier: str | None, part: str, account: str, region: str) -> str:
    """The name of a role of the bootstrap stack.

    `qualifier` is None for the CDK's default; `part` is "deploy", "file-publishing", "lookup" or "cfn-exec".
    """
    return f"cdk-{qualifier or DEFAULT_QUALIFIER}-{part}-role-{account}-{region}"


def version(session: Session, qualifier: str | None) -> int | None:
    """The version of the bootstrap stack of the session's region; None if the region is not bootstrapped.

    Raises:
        AwsError: the version may not be read, is no number, or the call failed.
    """
    name = version_parameter(qualifier)
    parameter = unless_absent(session.client("ssm").get_parameter, f"read {name}", {"ParameterNotFound"}, Name=name)
    if parameter is None:
        return None
    value = str(parameter["Parameter"]["Value"])
    if not value.isdecimal():
        raise AwsError(f"{name} is {value[:40]!r}, expected a number", hint="cdk bootstrap writes it again")
    return int(value)


def bucket_is_there(session: Session, name: str) -> bool | None:
    """Whether a bucket belongs to the account: False if no bucket has that name, None if another account owns it."""
    try:
        with translate_errors(f"look for bucket {name}"):
            session.client("s3").head_bucket(Bucket=name)
    except AwsError as problem:
        if error_code(problem) in ABSENT:
            return False
        if error_code(problem) in THEIRS:
            return None
        raise
    return True
