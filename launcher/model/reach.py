"""S3 locations outside the cluster's store that a plan's nodes use, with their KMS keys."""

from launcher.model.record import record
from launcher.model.request import PlanRequest


@record
class Reach:
    """A folder in S3: its plan key, whether the job writes to it, and its KMS key, None for S3's own key."""

    path: str
    uri: str
    writes: bool
    kms_key_arn: str | None


def reached_locations(request: PlanRequest) -> tuple[Reach, ...]:
    """The location of the trainer's own checkpoints, and the locations that the nodes fetch."""
    policy, own_uri = request.checkpoint, request.checkpoint.own_uri
    reaches = []
    if own_uri is not None and own_uri.startswith("s3://"):
        reaches.append(Reach(path="checkpoint.uri", uri=own_uri, writes=True, kms_key_arn=policy.kms_key_arn))
    for index, source in enumerate(request.run.data):
        reaches.append(
            Reach(path=f"run.data[{index}].uri", uri=source.uri, writes=False, kms_key_arn=source.kms_key_arn)
        )
    return tuple(reaches)
