"""The table of serving images."""

import re
from datetime import date

import pytest

from launcher.catalog.load import load
from launcher.catalog.serving_images import load_images
from launcher.model.enums import ServingTask, TargetKind
from launcher.planning.endpoint_checks import FIRST_WITHOUT_INFERENTIA
from tests.checks import some

IMAGES = load_images()


@pytest.mark.parametrize("image", IMAGES.images, ids=lambda image: image.name)
class TestEveryImage:
    def test_image_is_pinned_to_release_with_source(self, image):
        assert re.match(r"\d+\.\d+\.\d+", image.tag)
        assert image.source
        assert date(2026, 1, 1) <= image.as_of <= date(2026, 11, 20)

    def test_image_chips_families_and_regions_exist(self, image):
        catalog = load()
        assert set(image.chips) <= catalog.accelerators.keys()
        assert set(image.families) <= {model.family for model in catalog.models.values()}
        assert set(image.regions) <= IMAGES.accounts.keys()

    def test_neuron_engine_sdk_supports_inferentia(self, image):
        if image.role == "engine" and "Inferentia2" in image.chips:
            assert tuple(map(int, image.sdk.split(".")[:2])) < FIRST_WITHOUT_INFERENTIA
            assert f"sdk{image.sdk}" in image.tag
            assert "neuron" in image.ami


def test_every_serving_chip_has_engine_on_both_platforms():
    for target in (TargetKind.SAGEMAKER_ENDPOINT, TargetKind.EKS):
        for chip in some(accelerator.name for accelerator in load().accelerators.values() if accelerator.serves):
            assert IMAGES.engine(target, chip, ServingTask.CHAT) is not None
            assert IMAGES.engine(target, chip, ServingTask.EMBEDDING) is not None


def test_image_uri_uses_registry_of_region():
    image = IMAGES.engine(TargetKind.SAGEMAKER_ENDPOINT, "L40S", ServingTask.CHAT)
    assert IMAGES.uri(image, "eu-south-2").startswith("503227376785.dkr.ecr.eu-south-2.amazonaws.com/vllm:")
    assert ".amazonaws.com.cn/" in IMAGES.uri(image, "cn-north-1")
    assert IMAGES.uri(image, "mars-1") is None
    neuron = IMAGES.engine(TargetKind.SAGEMAKER_ENDPOINT, "Inferentia2", ServingTask.CHAT)
    assert IMAGES.uri(neuron, "eu-south-2") is None


def test_registry_accounts_belong_to_existing_regions():
    assert IMAGES.accounts.keys() <= load().regions.keys() | {"cn-north-1", "cn-northwest-1"}
    assert all(re.fullmatch(r"\d{12}", account) for account in IMAGES.accounts.values())


def test_only_neuron_has_device_plugin_image():
    plugin = IMAGES.device_plugin("Inferentia2")
    assert IMAGES.uri(plugin, "us-east-1") == "public.ecr.aws/neuron/neuron-device-plugin:2.22.4.0"
    assert IMAGES.device_plugin("L40S") is None
