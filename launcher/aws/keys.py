"""KMS keys of the account, and the default key of EBS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, translate_errors

ENABLED = "Enabled"
EBS_OWN_ALIAS = "alias/aws/ebs"
"""EC2's name for the key that AWS manages for EBS in an account (EC2 API reference, GetEbsDefaultKmsKeyId)."""
_NO_KEY = frozenset(("NotFoundException", "InvalidArnException"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsKey:
    """A key: KMS's terms for its state, its use and its kind."""

    arn: str
    state: str
    usage: str
    spec: str

    @property
    def encrypts(self) -> bool:
        """Whether the key is symmetric: the services accept no other (EBS user guide, FSx, CloudWatch Logs)."""
        return self.usage == "ENCRYPT_DECRYPT" and self.spec == "SYMMETRIC_DEFAULT"


def key(session: Session, arn: str) -> KmsKey | None:
    """A key by its ARN, requested in its own region; None if it does not exist.

    Raises:
        AwsError: the credentials may not read the key, or the call failed.
    """
    answer = unless_absent(session.client("kms").describe_key, f"describe key {arn}", _NO_KEY, KeyId=arn)
    if answer is None:
        return None
    metadata = answer["KeyMetadata"]
    return KmsKey(
        arn=str(metadata["Arn"]),
        state=str(metadata.get("KeyState", "")),
        usage=str(metadata.get("KeyUsage", "")),
        spec=str(metadata.get("KeySpec", "")),
    )


def key_policy(session: Session, arn: str) -> Mapping[str, Any]:
    """The policy of a key: KMS has only one, "default".

    Raises:
        AwsError: the policy may not be read, or is not JSON.
    """
    with translate_errors(f"read the policy of key {arn}"):
        text = session.client("kms").get_key_policy(KeyId=arn, PolicyName="default").get("Policy", "")
        policy = safe_json.loads(text)
    return policy if isinstance(policy, dict) else {}


def default_volume_key(session: Session) -> str | None:
    """The account's own default key for EBS in a region; None if AWS manages the default key."""
    with translate_errors("ask for the default key of EBS"):
        default = str(session.client("ec2").get_ebs_default_kms_key_id().get("KmsKeyId", ""))
    return None if not default or default.endswith(EBS_OWN_ALIAS) else default
