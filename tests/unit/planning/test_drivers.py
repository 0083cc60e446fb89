"""Drivers of default images: each drives every type of its target, or planning says that it does not."""

from dataclasses import replace

import pytest

from launcher.catalog.drivers import load_drivers
from launcher.model.enums import Level, TargetKind
from launcher.planning.drivers import driver_findings
from launcher.planning.pin import pinned_plan
from launcher.targets.registry import TARGETS, training_targets
from tests import plans
from tests.checks import some


def findings_of(catalog, kind, name, **target):
    request = plans.request_of(
        {
            "slipway": 1,
            "name": "small",
            "workload": {"train": {"hours": 1}},
            "target": {"kind": kind, "region": "us-east-2", "instance_type": name, "nodes": 1, **target},
            "purchase": {"option": "on-demand"},
            "run": {"command": ["true"]},
        }
    )
    place = replace(pinned_plan(request, catalog).place, target=TargetKind(kind))
    return [(finding.level, finding.code) for finding in driver_findings(request, place, catalog)]


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("parallelcluster", (Level.ERROR, "driver-too-old")),
        ("eks", (Level.INFO, "driver")),
        ("pcs", (Level.INFO, "driver")),
        ("hyperpod-slurm", (Level.WARNING, "driver-unknown")),
        ("hyperpod-eks", (Level.WARNING, "driver-unknown")),
        ("sagemaker-training", (Level.WARNING, "driver-unknown")),
    ],
)
def test_g7_driver_by_target_is_error_or_information(catalog, kind, expected):
    assert findings_of(catalog, kind, "g7.12xlarge") == [expected]


def test_own_image_has_no_driver_finding(catalog):
    assert findings_of(catalog, "parallelcluster", "g7.12xlarge", ami="ami-0123456789abcdef0") == []


def test_every_chip_with_minimum_driver_has_finding_on_every_target(catalog):
    drivers = load_drivers()
    assert set(drivers) - set(catalog.accelerators) == set(training_targets())
    for chip in some(set(drivers) & set(catalog.accelerators)):
        names = [name for name, facts in catalog.instance_types.items() if facts.accelerator == chip]
        for kind in TARGETS:
            for name in names:
                if kind in training_targets() and kind.value in catalog.instance_types[name].targets:
                    assert findings_of(catalog, kind.value, name)


@pytest.mark.parametrize("name", ["p5.48xlarge", "g7e.12xlarge", "g6.12xlarge", "trn1.32xlarge", "c5.4xlarge"])
def test_other_types_have_no_driver_finding(catalog, name):
    assert findings_of(catalog, "eks", name) == []
