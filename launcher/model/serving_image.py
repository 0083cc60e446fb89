"""Container images that serve a model, and the known support of each."""

from collections.abc import Mapping
from datetime import date

from launcher.model.enums import ServingTask, TargetKind
from launcher.model.record import record


@record
class ServingImage:
    """One pinned image."""

    name: str
    # "engine" for a serving image, "device-plugin" for one that exposes a node's chips to Kubernetes.
    role: str
    platforms: tuple[TargetKind, ...]
    chips: tuple[str, ...]
    # None: every task.
    task: ServingTask | None
    # Model families; empty: every one.
    families: tuple[str, ...]
    repository: str
    tag: str
    # Its Neuron SDK release; None if not applicable.
    sdk: str | None
    # The InferenceAmiVersion whose driver it needs on SageMaker; None if not applicable.
    ami: str | None
    # Empty: every region of the registry.
    regions: tuple[str, ...]
    as_of: date
    source: str
    note: str


@record
class ServingImages:
    """Every pinned image, and the account of AWS's registry in each region."""

    images: tuple[ServingImage, ...]
    accounts: Mapping[str, str]

    def engine(self, target: TargetKind, chip: str, task: ServingTask) -> ServingImage | None:
        """The serving image for a chip; None if none is pinned."""
        images = (image for image in self.images if target in image.platforms and image.task in (None, task))
        return next((image for image in images if image.role == "engine" and chip in image.chips), None)

    def device_plugin(self, chip: str) -> ServingImage | None:
        """The image that exposes a chip to Kubernetes; None if the chip's own operator does."""
        return next((image for image in self.images if image.role == "device-plugin" and chip in image.chips), None)

    def uri(self, image: ServingImage, region: str) -> str | None:
        """The pull URI of an image in a region; None if the registry does not have the image."""
        if image.repository.startswith("public.ecr.aws/"):
            return f"{image.repository}:{image.tag}"
        account = self.accounts.get(region)
        if account is None or (image.regions and region not in image.regions):
            return None
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"{account}.dkr.ecr.{region}.{suffix}/{image.repository}:{image.tag}"
