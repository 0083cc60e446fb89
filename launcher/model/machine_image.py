"""The AMI with which nodes start: AWS publishes it under a Systems Manager parameter, and a deployment pins its id."""

from datetime import datetime

from launcher.model.record import record

IMAGE_INPUT = "ImageId"
"""The parameter of a cluster's stack that pins an image by its id."""


@record
class MachineImage:
    """An image of AWS: its id, and its name and date as EC2 shows them, None if EC2 shows none.

    `parameter` names AWS's newest image. `kept`: the cluster's stack has the image already, which its updates retain.
    """

    id: str
    name: str | None
    created_at: datetime | None
    parameter: str
    kept: bool

    @property
    def text(self) -> str:
        """The image in one line."""
        facts = [fact for fact in (self.name, self.created_at and f"{self.created_at:%Y-%m-%d}") if fact]
        shown = f"{self.id} ({', '.join(facts)})" if facts else self.id
        return f"{shown}, kept from the first deployment" if self.kept else f"{shown}, AWS's newest"
