"""Hardware figures against each other and against the totals vendors publish for whole instances."""

from functools import cache

import pytest
from botocore.loaders import Loader

from launcher.catalog.load import Catalog
from tests.checks import some

GIB_PER_S = 1.073741824
"""GB/s in a GiB/s."""


@pytest.mark.parametrize(
    "name, memory_gib",
    [
        # AWS Neuron documentation, Trn1, Inf2 and Trn2 architecture.
        ("trn1.2xlarge", 32),
        ("trn1.32xlarge", 512),
        ("trn1n.32xlarge", 512),
        ("trn2.3xlarge", 96),
        ("trn2.48xlarge", 1536),
        ("trn2u.48xlarge", 1536),
        ("inf2.xlarge", 32),
        ("inf2.24xlarge", 192),
        ("inf2.48xlarge", 384),
        # EC2 product pages.
        ("p4d.24xlarge", 320),
        ("p4de.24xlarge", 640),
        ("p5.48xlarge", 640),
        ("p5.4xlarge", 80),
        ("p5e.48xlarge", 1128),
        ("p5en.48xlarge", 1128),
        ("g7e.48xlarge", 768),
    ],
)
def test_accelerator_memory_of_a_type_adds_up_to_the_published_total(catalog: Catalog, name: str, memory_gib: float):
    each = catalog.instance_types[name]
    assert each.accelerators * catalog.accelerators[each.accelerator].memory_gib == memory_gib


@pytest.mark.parametrize(
    "name, bf16_tflops, fp8_tflops",
    [
        # AWS Neuron documentation; Trn2 is given in PFLOP/s with one decimal.
        ("trn1.32xlarge", 3040, 3040),
        ("inf2.24xlarge", 1140, 1140),
        ("inf2.48xlarge", 2280, 2280),
        ("trn2.48xlarge", 10700, 20800),
        # AWS Machine Learning Blog, August 2025: 360 PFLOP/s of FP8.
        ("u-p6e-gb200x72", None, 360000),
    ],
)
def test_peak_rates_of_a_type_add_up_to_the_published_total(
    catalog: Catalog, name: str, bf16_tflops: float | None, fp8_tflops: float
):
    each = catalog.instance_types[name]
    chip = catalog.accelerators[each.accelerator]
    if bf16_tflops is not None:
        assert each.accelerators * chip.peak_bf16_tflops == pytest.approx(bf16_tflops, abs=50)
    assert each.accelerators * chip.peak_fp8_tflops == pytest.approx(fp8_tflops, abs=50)


def test_memory_bandwidth_of_a_type_adds_up_to_the_published_total(catalog: Catalog):
    chips = catalog.accelerators
    assert 16 * chips["Trainium1"].memory_gb_per_s / GIB_PER_S == pytest.approx(13120, abs=1)
    assert 12 * chips["Inferentia2"].memory_gb_per_s / GIB_PER_S == pytest.approx(9840, abs=1)
    assert 16 * chips["Trainium2"].memory_gb_per_s == pytest.approx(46400, abs=50)


@pytest.mark.parametrize(
    "name, cards, efa, gbps",
    [
        ("trn1.32xlarge", 8, 8, 800),
        ("trn1n.32xlarge", 16, 16, 1600),
        ("trn2.48xlarge", 16, 16, 3200),
        ("p4d.24xlarge", 4, 4, 400),
        ("p5.48xlarge", 32, 32, 3200),
        ("p5e.48xlarge", 32, 32, 3200),
        ("p5en.48xlarge", 16, 16, 3200),
        ("p6-b200.48xlarge", 8, 8, 3200),
        ("p6-b300.48xlarge", 17, 16, 6400),
        ("inf2.48xlarge", 1, 0, 100),
        ("g6e.48xlarge", 4, 4, 400),
    ],
)
def test_network_cards_and_efa_interfaces_are_as_published(
    catalog: Catalog, name: str, cards: int, efa: int, gbps: float
):
    each = catalog.instance_types[name]
    assert (each.network_cards, each.efa_interfaces, each.network_gbps) == (cards, efa, gbps)


def test_ultraserver_is_a_multiple_of_the_instance(catalog: Catalog):
    one = catalog.instance_types["p6e-gb200.36xlarge"]
    for name, instances in (("u-p6e-gb200x36", 9), ("u-p6e-gb200x72", 18)):
        whole = catalog.instance_types[name]
        assert whole.vcpus == instances * one.vcpus
        assert whole.memory_gib == instances * one.memory_gib
        assert whole.accelerators == instances * one.accelerators
        assert whole.network_gbps == instances * one.network_gbps


def test_trn2u_has_no_spot_sagemaker_or_training_plans(catalog: Catalog):
    each = catalog.instance_types["trn2u.48xlarge"]
    assert "spot" not in each.usage_classes
    assert not each.ml
    assert not each.training_plans
    assert each.targets == ()


def test_every_zone_belongs_to_one_region(catalog: Catalog):
    zones = [zone for region in catalog.regions.values() for zone in region.az_ids]
    assert len(set(zones)) == len(zones)
    assert catalog.region_of_az("use2-az1") == "us-east-2"
    assert catalog.region_of_az("us-east-2a") is None


@cache
def _botocore_enum(shape: str) -> frozenset[str]:
    return frozenset(Loader().load_service_model("sagemaker", "service-2")["shapes"][shape]["enum"])


def test_sagemaker_flags_agree_with_the_botocore_model(catalog: Catalog):
    """One way only: a newer botocore may know more types."""
    for instance_type in some(catalog.instance_types.values()):
        if instance_type.ml:
            assert f"ml.{instance_type.name}" in _botocore_enum("ClusterInstanceType")
        if instance_type.training_plans:
            assert f"ml.{instance_type.name}" in _botocore_enum("ReservedCapacityInstanceType")
        if "sagemaker-endpoint" in instance_type.targets:
            assert f"ml.{instance_type.name}" in _botocore_enum("ProductionVariantInstanceType")


def test_every_chip_is_in_a_type_or_unavailable(catalog: Catalog):
    carried = {instance_type.accelerator for instance_type in catalog.instance_types.values()}
    carried |= {unavailable_type.accelerator for unavailable_type in catalog.unavailable_types.values()}
    assert set(catalog.accelerators) == carried - {None, ""}


def test_unconfirmed_chips_are_marked(catalog: Catalog):
    unconfirmed = {chip.name for chip in catalog.accelerators.values() if not chip.confirmed}
    assert unconfirmed == {"B300", "GB200", "RTX-PRO-4500", "RTX-PRO-6000"}
