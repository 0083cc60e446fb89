"""The table of serving images from the shipped data; no other file names an image.

images.csv          each image with its source and date
image_accounts.csv  AWS's registry by region (sagemaker-core image_uri_config and the Deep Learning Containers' list of
                    regions, read 2026-11-20)
"""

import csv
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from pathlib import Path

from launcher.catalog.pinned_images import registry_accounts
from launcher.model.enums import ServingTask, TargetKind
from launcher.model.serving_image import ServingImage, ServingImages

DATA = Path(__file__).parent / "data" / "serving"


@lru_cache(maxsize=1)
def load_images() -> ServingImages:
    """The table, read once."""
    return ServingImages(
        images=tuple(_image(row) for row in _rows("images.csv")),
        accounts=registry_accounts(),
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _image(row: dict[str, str]) -> ServingImage:
    return ServingImage(
        name=row["name"],
        role=row["role"],
        platforms=tuple(TargetKind(platform) for platform in row["platforms"].split("|")),
        chips=tuple(row["chips"].split("|")),
        task=ServingTask(row["task"]) if row["task"] else None,
        families=tuple(family for family in row["families"].split("|") if family),
        repository=row["repository"],
        tag=row["tag"],
        sdk=row["sdk"] or None,
        ami=row["ami"] or None,
        regions=tuple(region for region in row["regions"].split("|") if region),
        as_of=date.fromisoformat(row["as_of"]),
        source=row["source"],
        note=row["note"],
    )
