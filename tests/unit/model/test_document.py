"""Digests: the same plan has the same one, a different plan a different one, and machines do not matter."""

import json
from dataclasses import replace

from launcher import plan_file
from launcher.model.document import document, pinned, resolve
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.plan import Place

REQUEST = plan_file.loads("slipway: 1\nname: x\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2}}\n")
PLACE = Place(
    target=TargetKind.PARALLELCLUSTER,
    instance_type="p5.48xlarge",
    nodes=2,
    region="us-east-2",
    az_id="use2-az1",
    option=PurchaseOption.SPOT,
)


def test_a_resolved_plan_read_back_from_its_document_has_the_same_digest() -> None:
    plan = resolve(REQUEST, PLACE)
    again = plan_file.loads(json.dumps(document(plan.request)))
    assert again == plan.request
    assert resolve(again, PLACE).digest == plan.digest


def test_every_part_of_the_place_changes_the_digest() -> None:
    base = resolve(REQUEST, PLACE).digest
    others = [
        replace(PLACE, nodes=4),
        replace(PLACE, region="us-west-2", az_id=None),
        replace(PLACE, az_id="use2-az2"),
        replace(PLACE, option=PurchaseOption.ON_DEMAND),
        replace(PLACE, instance_type="p4d.24xlarge"),
    ]
    assert len({base, *(resolve(REQUEST, each).digest for each in others)}) == len(others) + 1


def test_the_folder_of_the_files_does_not_change_the_digest() -> None:
    moved = replace(REQUEST, run=replace(REQUEST.run, workdir="/somewhere/else"))
    assert resolve(moved, PLACE).digest == resolve(REQUEST, PLACE).digest


def test_pinning_leaves_nothing_open() -> None:
    target = pinned(REQUEST, PLACE).target
    assert (target.kind, target.region, target.instance_type) == (
        (TargetKind.PARALLELCLUSTER,),
        ("us-east-2",),
        ("p5.48xlarge",),
    )
