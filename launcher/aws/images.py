"""AMIs and container images: whether an account can use them."""

import re
from dataclasses import dataclass
from datetime import datetime

from launcher.aws.calls import unless_absent
from launcher.aws.session import Session

_ECR = re.compile(
    r"(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<repository>[^:@]+)"
    r"(?P<version>[:@].+)?"
)
_NO_AMI = frozenset(("InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable"))
_NOT_SHOWN = _NO_AMI | {"UnauthorizedOperation"}
_NO_IMAGE = frozenset(("ImageNotFoundException", "RepositoryNotFoundException"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EcrImage:
    """A container image in ECR; `version` is its tag or its digest."""

    registry: str
    region: str
    repository: str
    version: str


def ecr_image(name: str) -> EcrImage | None:
    """The parts of an image's name; None if it is not in ECR.

    >>> ecr_image("123456789012.dkr.ecr.us-east-2.amazonaws.com/team/train:1.4").version
    '1.4'
    >>> ecr_image("ubuntu:24.04") is None
    True
    """
    match = _ECR.fullmatch(name)
    if match is None:
        return None
    return EcrImage(
        registry=match["registry"],
        region=match["region"],
        repository=match["repository"],
        version=(match["version"] or ":latest")[1:],
    )


def ami_state(session: Session, ami: str) -> str | None:
    """The state of a machine image, such as "available"; None if the account sees no image with that id."""
    described = unless_absent(session.client("ec2").describe_images, f"describe image {ami}", _NO_AMI, ImageIds=[ami])
    return str(described["Images"][0].get("State", "")) if described is not None and described["Images"] else None


def name_and_date(session: Session, ami: str) -> tuple[str | None, datetime | None]:
    """The name of a machine image and its date; None for each one that EC2 does not show.

    Raises:
        AwsError: the call failed.
    """
    described = unless_absent(
        session.client("ec2").describe_images, f"describe image {ami}", _NOT_SHOWN, ImageIds=[ami]
    )
    image: dict[str, str] = next(iter(described["Images"]), {}) if described is not None else {}
    created = image.get("CreationDate")
    return image.get("Name") or None, datetime.fromisoformat(created) if created else None


def is_in_ecr(session: Session, image: EcrImage) -> bool:
    """Whether a container image exists."""
    kind = "imageDigest" if image.version.startswith("sha256:") else "imageTag"
    described = unless_absent(
        session.client("ecr").describe_images,
        f"look for {image.repository}:{image.version}",
        _NO_IMAGE,
        registryId=image.registry,
        repositoryName=image.repository,
        imageIds=[{kind: image.version}],
    )
    return described is not None
