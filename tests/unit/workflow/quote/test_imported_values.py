"""`slipway init --from`: values that are written in an unusual way, or that another program fills in."""

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.workflow.quote.imports.read import import_file, plan_text

TEMPLATE = """
Region: ${AWS_REGION}
HeadNode: {InstanceType: m6i.2xlarge}
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: gpu
      ComputeResources: [{Name: p4, InstanceType: p4d.24xlarge, MinCount: 4, MaxCount: 4}]
      CapacityReservationTarget: {CapacityReservationId: '${CR}'}
"""


def read(folder, name, text):
    """What is read of a file, and the request of its plan."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    imported = import_file(path, load())
    return imported, plan_file.loads(plan_text(imported, path))


@pytest.mark.parametrize(
    "resources,instance_type,lost",
    [
        ("{A100:8, Inferentia:6}", "p4d.24xlarge", "others: Inferentia:6"),
        ("{H100: 8}", "p5.48xlarge", ""),
        ("'L4:0.5'", None, "accelerators L4:0.5: the count is no whole number"),
        ("'L4:0'", None, "accelerators L4:0: the count is no whole number"),
    ],
)
def test_written_counts_of_skypilot_accelerators_are_read_or_named(tmp_path, resources, instance_type, lost):
    imported, _ = read(tmp_path, "task.yaml", f"resources: {{accelerators: {resources}}}\nrun: python x.py\n")
    assert imported.get("target.instance_type") == instance_type
    assert lost in "\n".join(imported.lost)
    assert (instance_type is None) == ("set target.instance_type" in "\n".join(imported.lost))


def test_values_that_another_program_fills_in_are_named_as_such(tmp_path):
    imported, request = read(tmp_path, "c.yaml", TEMPLATE)
    lost = "\n".join(imported.lost)
    assert "target.region ${AWS_REGION}: another program fills it in: set target.region" in lost
    assert "purchase.reservation.id ${CR}: another program fills it in" in lost
    assert (request.target.region, request.purchase.reservation) == (None, None)


def test_setting_that_is_lost_twice_is_named_once(tmp_path):
    imported, _ = read(tmp_path, "two.sbatch", "#!/bin/bash\n#SBATCH --nodes=2\nsrun a.sh\nsrun b.sh\n")
    assert len(imported.lost) == len(set(imported.lost))
    assert any(text.startswith("srun: ") for text in imported.lost)


def test_disk_of_a_dstack_task_is_sized_by_slipway(tmp_path):
    text = "type: task\ncommands: [python x.py]\nresources: {gpu: 'H100:8', disk: 200GB}\n"
    assert "resources.disk: Slipway sizes the disks by the type" in read(tmp_path, "t.dstack.yml", text)[0].lost
