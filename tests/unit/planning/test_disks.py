"""Sizes that a plan states against the disks of each target: NVMe, root volume, shared file system, training volume."""

import pytest

from launcher.model.enums import TargetKind
from launcher.model.plan import Place
from launcher.planning.disks import disk_findings, training_volume_gib
from tests import plans


def request_of(*data, **parts):
    run = {"command": ["true"], "data": [{"uri": "s3://team/a", **source} for source in data], **parts.pop("run", {})}
    return plans.request_of({"slipway": 1, "name": "small", "workload": {"train": {"hours": 1}}, "run": run, **parts})


def findings_of(catalog, kind, name, *data, nodes=1, **parts):
    request = request_of(*data, **parts)
    place = Place(
        target=TargetKind(kind), instance_type=name, nodes=nodes, region="us-east-2", az_id=None, option="on-demand"
    )
    return list(disk_findings(request, place, catalog.instance_types[name]))


@pytest.mark.parametrize(
    "kind, name, data, subject",
    [
        ("sagemaker-training", "g5.xlarge", {"path": "/opt/images", "gib": 400}, "the NVMe disks"),
        ("eks", "g6.12xlarge", {"path": "/data", "gib": 50_000}, "the NVMe disks"),
        ("eks", "c5.4xlarge", {"path": "/data", "gib": 80}, "the volume of 100 GiB"),
        ("parallelcluster", "g6.12xlarge", {"path": "/opt/images", "gib": 90}, "the root volume of 100 GiB"),
        ("parallelcluster", "g6.12xlarge", {"path": "/scratch/images", "gib": 5_000}, "the NVMe disks (/scratch)"),
        ("pcs", "g6.12xlarge", {"path": "/fsx/images", "gib": 1_300}, "the shared file system (/fsx)"),
    ],
)
def test_data_larger_than_disk_refused(catalog, kind, name, data, subject):
    (finding,) = findings_of(catalog, kind, name, data)
    assert finding.code == "disk-too-small"
    assert subject in finding.message
    assert finding.hint


@pytest.mark.parametrize(
    "kind, name, data",
    [
        ("sagemaker-training", "g5.12xlarge", {"path": "/opt/images", "gib": 400}),
        ("sagemaker-training", "m5.4xlarge", {"path": "/opt/images", "gib": 400}),
        ("parallelcluster", "g6.12xlarge", {"path": "/scratch/images", "gib": 400}),
        ("pcs", "g6.12xlarge", {"path": "/fsx/images", "gib": 400}),
        ("eks", "p5.48xlarge", {"path": "/data", "gib": 9_000}),
    ],
)
def test_data_fitting_disk_accepted(catalog, kind, name, data):
    assert findings_of(catalog, kind, name, data) == []


def test_sharded_data_is_divided_by_nodes(catalog):
    data = {"path": "/opt/images", "gib": 800, "shard": True}
    assert findings_of(catalog, "sagemaker-training", "g5.xlarge", data, nodes=2)
    assert not findings_of(catalog, "sagemaker-training", "g5.xlarge", data, nodes=8)


def test_outputs_add_to_data_size(catalog):
    data = {"path": "/opt/images", "gib": 150}
    assert not findings_of(catalog, "sagemaker-training", "g5.xlarge", data)
    assert findings_of(catalog, "sagemaker-training", "g5.xlarge", data, run={"outputs_gib": 100})


def test_training_volume_follows_data_without_instance_store(catalog):
    request = request_of({"path": "/opt/images", "gib": 401}, run={"outputs_gib": 20})
    assert training_volume_gib(request, 1, catalog.instance_types["m5.4xlarge"]) == 530
    assert training_volume_gib(request, 1, catalog.instance_types["g5.xlarge"]) == 100


@pytest.mark.parametrize(
    "name, part, hint",
    [
        ("p5.48xlarge", {}, "set its path below /scratch (NVMe, 28,312 GiB)"),
        ("p5.48xlarge", {"storage": {"lustre_gib": 4_800}}, "(NVMe, 28,312 GiB) or /fsx (shared, 4,800 GiB)"),
        ("c5.4xlarge", {}, "use a type with NVMe disks"),
    ],
)
def test_data_on_a_root_volume_are_sent_to_a_larger_disk(catalog, name, part, hint):
    (finding,) = findings_of(catalog, "parallelcluster", name, {"path": "/opt/images", "gib": 90}, **part)
    assert finding.hint.endswith(hint)
