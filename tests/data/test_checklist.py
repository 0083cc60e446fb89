"""docs/add-an-instance-type.md, checked against every type in the catalog."""

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from launcher.catalog.load import Catalog
from launcher.catalog.selector import Key
from launcher.catalog.tables import read_cells
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price, Unpriced

PAGE = Path(__file__).parents[2] / "docs" / "add-an-instance-type.md"
ROWS = {cells["name"]: cells for cells in read_cells("instance_types.csv")}
OPTIONAL = {"accelerator", "usage_classes", "targets", "block_counts", "unknown", "note"}
"""Cells that are empty where they do not apply; the other points of the list say when."""

WITHOUT_ZONES = {
    "p6e-gb200.36xlarge": "part of an UltraServer in a local zone",
    "u-p6e-gb200x36": "an UltraServer in a local zone",
    "u-p6e-gb200x72": "an UltraServer in a local zone",
}


def row(_catalog: Catalog, each: InstanceType) -> None:
    empty = {name for name, cell in ROWS[each.name].items() if not cell} - OPTIONAL
    assert empty == set(each.unknown), f"cells left empty: {empty}; named in unknown: {each.unknown}"
    assert not each.unknown or each.note
    assert each.vcpus > 0
    assert each.memory_gib > 0
    assert each.network_gbps > 0
    assert each.nvme_gb >= 0


def source(catalog: Catalog, each: InstanceType) -> None:
    cells = ROWS[each.name]
    assert cells["source"] in catalog.store.sources
    assert date.fromisoformat(cells["as_of"]) >= date(2026, 11, 20)


def chip(catalog: Catalog, each: InstanceType) -> None:
    if each.accelerator is None:
        assert each.accelerators == 0
        return
    accelerators = catalog.accelerators[each.accelerator]
    assert each.accelerators > 0
    assert accelerators.peak_bf16_tflops > 0
    assert accelerators.memory_gib > 0
    assert accelerators.memory_gb_per_s > 0
    assert accelerators.source


def network(_catalog: Catalog, each: InstanceType) -> None:
    if "network_cards" in each.unknown:
        assert not each.targets
        return
    assert each.network_cards > 0
    assert len(each.enis_per_card) == each.network_cards
    assert 0 <= each.efa_interfaces <= each.network_cards


def usage(_catalog: Catalog, each: InstanceType) -> None:
    assert each.usage_classes
    assert set(each.usage_classes) <= {"on-demand", "spot", "capacity-block"}
    assert ("capacity-block" in each.usage_classes) == bool(each.block_counts)
    assert list(each.block_counts) == sorted(set(each.block_counts))


def targets(_catalog: Catalog, each: InstanceType) -> None:
    assert set(each.targets) <= {kind.value for kind in TargetKind}
    assert bool(each.targets) != ("never deployed" in each.note)
    if each.targets:
        assert ("hyperpod-slurm" in each.targets) == each.ml


def zones(catalog: Catalog, each: InstanceType) -> None:
    assert bool(each.az_ids) == (each.name not in WITHOUT_ZONES), "name it in WITHOUT_ZONES with the reason"
    assert all(catalog.region_of_az(zone) for zone in each.az_ids)
    assert len(set(each.az_ids)) == len(each.az_ids)


def on_demand(catalog: Catalog, each: InstanceType) -> None:
    priced = [region for region in catalog.regions if isinstance(catalog.on_demand(each.name, region), Price)]
    if not priced:
        somewhere = catalog.on_demand(each.name, "us-east-1")
        assert isinstance(somewhere, Unpriced)
        assert somewhere.reason.startswith("AWS lists no on-demand price")


def options(catalog: Catalog, each: InstanceType) -> None:
    for region in catalog.regions_of(each.name):
        for price in (catalog.price(Key("spot", each.name, region)), catalog.capacity_block(each.name, region)):
            assert isinstance(price, Price) or len(price.reason.split()) > 3
    for option in (PurchaseOption.SPOT, PurchaseOption.CAPACITY_BLOCK):
        if option.value not in each.usage_classes:
            assert catalog.regions_offering(each.name, option) == ()
            keys = (Key(option.value, each.name, region) for region in catalog.regions)
            assert not [row for key in keys for row in catalog.selector.rows(key) if row.usd]


def marks(catalog: Catalog, each: InstanceType) -> None:
    assert each.confirmed == (not each.unknown)
    if each.accelerator is not None and not each.confirmed:
        assert not catalog.accelerators[each.accelerator].confirmed


CHECKS: dict[str, Callable[[Catalog, InstanceType], None]] = {
    check.__name__.replace("_", "-"): check
    for check in (row, source, chip, network, usage, targets, zones, on_demand, options, marks)
}


def test_checklist_page_and_checks_have_the_same_points():
    listed = re.findall(r"^\d+\. `([a-z-]+)`:", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert listed == list(CHECKS)


@pytest.mark.parametrize("point", CHECKS)
def test_every_type_meets_every_point(catalog: Catalog, point: str):
    problems = []
    for name, each in catalog.instance_types.items():
        try:
            CHECKS[point](catalog, each)
        except AssertionError as problem:
            problems.append(f"{name}: {problem}")
    assert not problems, "\n".join(problems)


def test_unavailable_types_have_a_reason_and_no_row(catalog: Catalog):
    for unavailable_type in catalog.unavailable_types.values():
        assert unavailable_type.reason
        assert unavailable_type.name not in catalog.instance_types
    assert catalog.unavailable_types["trn3"].reason == "no public type or price"
