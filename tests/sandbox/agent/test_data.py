"""`run.data`: folders in S3 that the nodes fetch before the command, completely or one share per node."""

import json
import sys

from launcher.agent.job import DataSpec
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

COMMAND = (sys.executable, "-c", "print('READ', open(sys.argv[1]).read()) if (sys := __import__('sys')) else 0")


def source(path, below="data", **changes):
    return DataSpec(uri=f"s3://{BUCKET}/{PREFIX}{below}", path=str(path), **changes)


def job(node, *sources, command=("true",)):
    node.job(command=command, data=sources, plan_uri=f"s3://{BUCKET}/{PREFIX}tiny", mode="none", uri=None)


def files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_data_fetched_before_command_and_not_twice(node, bucket, tmp_path):
    bucket.write("data/a/x.txt", b"one")
    bucket.write("data/y.txt", b"two")
    place = tmp_path / "data"
    job(node, source(place), command=(*COMMAND, str(place / "a" / "x.txt")))
    assert node.run() == 0
    assert node.output() == ["READ one"]
    assert files(place) == {"a/x.txt": "one", "y.txt": "two"}
    bucket.write("data/y.txt", b"longer")
    (place / "a" / "x.txt.slipway-partial").write_text("of an attempt that was killed")
    assert node.run(attempt=2) == 0
    assert [(event["files"], event["bytes"], event["there"]) for event in node.events("data-fetched")] == [
        (2, 6, 0),
        (1, 6, 1),
    ]
    assert files(place)["y.txt"] == "longer"


def two_nodes(node):
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    return [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]


def test_two_nodes_share_data_download_on_shared_file_system(node, bucket, tmp_path):
    for number in range(5):
        bucket.write(f"data/{number}.txt", str(number).encode())
    listing_prefix = tmp_path / "seen-by"
    listing = ["bash", "-c", f"ls {tmp_path / 'fsx'} | grep -c txt$ >{listing_prefix}$SLIPWAY_NODE_RANK"]
    job(node, source(tmp_path / "fsx", shared=True), command=tuple(listing))
    assert [agent.wait(timeout=90) for agent in two_nodes(node)] == [0, 0]
    assert [(tmp_path / f"seen-by{rank}").read_text() for rank in (0, 1)] == ["5\n", "5\n"]
    assert [node.events("data-fetched", part=part)[0]["files"] for part in (0, 1)] == [3, 2]


def test_missing_data_stops_start(node, bucket, tmp_path):
    job(node, source(tmp_path / "data", below="nothing"))
    assert node.run() == 78
    (failed,) = node.events("failed")
    assert failed["reason"] == f"run.data[0]: s3://{BUCKET}/{PREFIX}nothing contains no objects"
    assert json.loads((node.folder / "job.json").read_text())["data"][0]["shared"] is False
