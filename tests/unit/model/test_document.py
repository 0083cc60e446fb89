"""Digests: equal plans have equal digests, different plans differ, and the machine does not matter."""

import hashlib
import json
from dataclasses import replace

from launcher import plan_file
from launcher.model.document import PlanBase, document, plan_at
from launcher.model.enums import NatMode, PurchaseOption, SavingsPlanKind, TargetKind
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

LATER_OF_JOBS = (
    ("expert_parallel", "auto"),
    ("tensor_parallel", "auto"),
    *((key, None) for key in ("optimizer", "examples", "tokens_per_example", "epochs", "tokens_per_parameter")),
    ("throughput_samples_per_s", None),
)
LATER = [
    ("checkpoint", "restart", "auto"),
    ("checkpoint", "signal", "auto"),
    ("checkpoint", "layout", "auto"),
    ("checkpoint", "pattern", None),
    ("checkpoint", "tracker", None),
    ("checkpoint", "kms_key_arn", None),
    ("purchase", "support_percent", None),
    ("run", "after", []),
    ("storage", "login_pool", False),
    ("network", "nat", "auto"),
    ("network", "private", False),
    ("run", "before", []),
    ("run", "data", []),
    ("run", "outputs", []),
    ("run", "outputs_gib", None),
    ("run", "volumes", []),
    ("security", "encrypt_traffic", False),
    ("security", "roles", document(REQUEST)["security"]["roles"]),
]
"""Keys that came later, with their defaults: plans without them keep their digest."""


def test_resolved_plan_document_keeps_digest() -> None:
    plan = plan_at(REQUEST, PLACE)
    again = plan_file.loads(json.dumps(document(plan.request)))
    assert again == plan.request
    assert plan_at(again, PLACE).digest == plan.digest


def test_every_part_of_place_changes_digest() -> None:
    base = plan_at(REQUEST, PLACE).digest
    others = [
        replace(PLACE, nodes=4),
        replace(PLACE, region="us-west-2", az_id=None),
        replace(PLACE, az_id="use2-az2"),
        replace(PLACE, option=PurchaseOption.ON_DEMAND),
        replace(PLACE, instance_type="p4d.24xlarge"),
    ]
    assert len({base, *(plan_at(REQUEST, other).digest for other in others)}) == len(others) + 1


def test_work_folder_does_not_change_digest() -> None:
    moved = replace(REQUEST, run=replace(REQUEST.run, workdir="/somewhere/else"))
    assert plan_at(moved, PLACE).digest == plan_at(REQUEST, PLACE).digest


def test_pinned_request_has_single_values() -> None:
    target = plan_at(REQUEST, PLACE).request.target
    assert (target.kind, target.region, target.instance_type) == (
        (TargetKind.PARALLELCLUSTER,),
        ("us-east-2",),
        ("p5.48xlarge",),
    )


def test_digest_equals_hash_of_canonical_json() -> None:
    """What no place changes is written once for all of them, and what a place decides is written without its kinds."""
    term = {"option": PurchaseOption.SAVINGS_PLAN, "plan_kind": SavingsPlanKind.COMPUTE, "term_years": 3}
    places = [PLACE, replace(PLACE, az_id=None, instance_type=""), replace(PLACE, **term)]
    base = PlanBase(REQUEST)
    for place in places:
        plan = base.at(place)
        data = document(plan.request)
        left_out = (("run", "workdir"), ("run", "plain_env"), ("network", "subnets"), ("network", "shared_by"))
        for section, key in left_out:
            del data[section][key]
        for section, key, default in LATER:
            if data[section][key] == default:
                del data[section][key]
        for key, default in LATER_OF_JOBS:
            if data["workload"]["train"][key] == default:
                del data["workload"]["train"][key]
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert plan.digest == hashlib.sha256(text.encode()).hexdigest() == plan_at(REQUEST, place).digest
        assert base.digest(place) == plan.digest
        for nat in NatMode:
            assert base.digest(place, nat) == base.at(place, nat).digest
