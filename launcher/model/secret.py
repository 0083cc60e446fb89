"""References of `run.secrets`: the ARN of a secret or parameter, and which part of a secret a variable gets."""

import re

from launcher.model.record import record

SECRETS, PARAMETERS = "secretsmanager", "ssm"
PARAMETER_FORM = "arn:aws:ssm:REGION:ACCOUNT:parameter/NAME, with :VERSION or :LABEL behind it for another version"
_PARAMETER = re.compile(
    r"(?P<own>(?:[^:]+:){5}parameter/[A-Za-z0-9_.\-/]*[A-Za-z0-9_.\-])(?::(?P<version>[A-Za-z0-9_.-]{1,100}))?"
)
"""A parameter's name has letters, digits, `_.-/` (AWS Systems Manager API reference, PutParameter, Name)."""
FORM = "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME, with :JSON_KEY:STAGE:VERSION behind it for a part"
_ARN = re.compile(r"arn:aws[a-z-]*:(secretsmanager|ssm):[a-z0-9-]+:\d{12}:.+")
_NAME = re.compile(r"[A-Za-z0-9/_+=.@!-]{1,512}")
"""A secret's name with its suffix (Secrets Manager API reference, CreateSecret, Name)."""
_PARTS = 7
"""Parts of a secret's own ARN; up to three more name a part, as in task definitions of ECS (Amazon ECS developer guide,
Pass Secrets Manager secrets through environment variables)."""


@record
class SecretReference:
    """A secret or parameter: its service, region and own ARN, for requests and policies."""

    service: str
    region: str
    arn: str
    # Of the JSON object that a key/value secret is; empty: the whole text.
    key: str = ""
    # The stage of a secret; empty: none is named.
    stage: str = ""
    # The version of a secret or parameter, or the label of a parameter; empty: the current one.
    version: str = ""

    @property
    def keys_arn(self) -> str:
        """Every KMS key of its account and region: the reference does not name the key that encrypts the value."""
        arn, partition, _, region, account, *_ = self.arn.split(":")
        return f"{arn}:{partition}:kms:{region}:{account}:key/*"


def secret_reference(text: str) -> SecretReference:
    """The reference that a text is.

    Raises:
        ValueError: the text is none; the message says what it must be.

    >>> reference = secret_reference("arn:aws:secretsmanager:us-east-2:123456789012:secret:team/hf-AbCdEf:HF_TOKEN::")
    >>> reference.arn.rpartition(":")[2], reference.key, reference.stage
    ('team/hf-AbCdEf', 'HF_TOKEN', '')
    """
    match = _ARN.fullmatch(text)
    if match is None:
        raise ValueError("must be the ARN of a secret or of a parameter")
    service, parts = match[1], text.split(":")
    if service == PARAMETERS:
        parameter = _PARAMETER.fullmatch(text)
        if parameter is None:
            raise ValueError(f"must be {PARAMETER_FORM}")
        version = parameter["version"] or ""
        return SecretReference(service=service, region=parts[3], arn=parameter["own"], version=version)
    own, more = parts[:_PARTS], parts[_PARTS:]
    if parts[5] != "secret" or len(own) < _PARTS or _NAME.fullmatch(own[-1]) is None:
        raise ValueError(f"must be {FORM}")
    if len(more) > 3:  # noqa: PLR2004 - key, stage and version
        raise ValueError(
            f"has {len(more)} parts behind the name; allowed: a JSON key, a version stage and a version id"
        )
    key, stage, version = (*more, "", "", "")[:3]
    return SecretReference(service=service, region=parts[3], arn=":".join(own), key=key, stage=stage, version=version)
