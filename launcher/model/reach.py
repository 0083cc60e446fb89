"""S3 locations outside the cluster's store that a plan's nodes use, with their KMS keys."""

from launcher.model.record import record
from launcher.model.request import PlanRequest


@record
class Reach:
    """A folder in S3: where the plan names it, whether the job writes there, and its key if it is no key of S3's."""

    path: str
    uri: str
    writes: bool
    kms_key_arn: str | None


def reached(request: PlanRequest) -> tuple[Reach, ...]:
    """Where the trainer keeps its own checkpoints, and what the nodes fetch."""
    policy, own = request.checkpoint, request.checkpoint.own_uri
    reaches = []
    if own is not None and own.startswith("s3://"):
        reaches.append(Reach(path="checkpoint.uri", uri=own, writes=True, kms_key_arn=policy.kms_key_arn))
    for index, source in enumerate(request.run.data):
        reaches.append(
            Reach(path=f"run.data[{index}].uri", uri=source.uri, writes=False, kms_key_arn=source.kms_key_arn)
        )
    return tuple(reaches)
