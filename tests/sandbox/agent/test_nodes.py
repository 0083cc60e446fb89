"""A job of several nodes: one agent per node, one checkpoint of all, and events that reach every node."""

import json
import signal
import sys

import pytest

from launcher.agent.events import NEWER
from launcher.agent.node.process import signal_group
from launcher.sandbox.cluster.imds import MetadataService
from tests.sandbox.agent.ranks import RANK, codes


@pytest.fixture
def pair(node, bucket):
    """Starts the agents of a step on two nodes; each call is one life of the job."""
    (node.folder / "train.py").write_text(RANK)
    (node.folder / "shared").mkdir()
    (node.folder / "shared" / "stop-at").write_text("")

    def start(*, restart=0, **of_second):
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        common |= {"SLURM_RESTART_COUNT": str(restart), "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}
        return [
            node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), SLURMD_NODENAME=f"vn{rank}", **common | variables)
            for rank, variables in enumerate(({}, of_second))
        ]

    return start


LINK_ON_ONE = """
import os, sys, time
from pathlib import Path
rank, folder = os.environ["SLIPWAY_NODE_RANK"], Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
resume = os.environ["SLIPWAY_RESUME_DIR"]
print(*(f"{path.name}={path.read_text()}" for path in sorted(Path(resume).iterdir())) if resume else "", flush=True)
for step in (1, 2) if not resume else ():
    part = folder / "part"
    part.mkdir()
    if rank == "0":
        (part / "weights").write_text(f"of node 0 at {step}")
    else:
        (part / "weights-1").write_text(f"of node 1 at {step}")
        (part / "weights").symlink_to("weights-1")
    if sys.argv[1:] == ["folder"]:
        (part / f"x{'/y' if rank == '1' and step == 1 else ''}").parent.mkdir(exist_ok=True)
        (part / f"x{'/y' if rank == '1' and step == 1 else ''}").write_text("x")
    part.rename(folder / f"step-{step}")
    time.sleep(4)
"""
"""A path that is a file on the first node and a link on the second."""


class TestPathsOfSeveralKinds:
    def test_file_on_one_node_and_link_on_another_are_restored_with_own_content(self, node, bucket, pair):
        node.job(command=(sys.executable, "-c", LINK_ON_ONE))
        assert codes(pair()) == [0, 0]
        assert node.steps("checkpoint-uploaded")[-1] == 2
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        node.job(command=(sys.executable, "-c", LINK_ON_ONE))
        assert codes(pair(restart=1)) == [0, 0]
        assert node.output("vn0")[-1] == "weights=of node 0 at 2 weights-1=of node 1 at 2"
        assert node.output("vn1")[-1] == "weights=of node 1 at 2 weights-1=of node 1 at 2"

    def test_file_on_one_node_and_folder_on_another_is_named_and_next_step_stored(self, node, bucket, pair):
        node.job(command=(sys.executable, "-c", LINK_ON_ONE, "folder"))
        assert codes(pair()) == [0, 0]
        (dropped,) = node.events("checkpoint-dropped")
        assert (dropped["step"], dropped["reason"]) == (
            1,
            "'x' is a file on node 0 and a folder on node 1; all nodes must write the same kind there",
        )
        assert node.steps("checkpoint-uploaded") == [2]


class TestCheckpoint:
    def test_checkpoint_is_complete_with_every_part(self, node, bucket, pair):
        node.job(1, 0, "slow-1")
        assert codes(pair()) == [0, 0]
        whole = bucket.manifest(1)
        assert (whole.part, whole.parts, whole.attempt) == (None, 2, 1)
        assert [(file.path, file.part) for file in whole.files] == [
            ("base-0", 0),
            ("same-name", 0),
            ("shard-0", 0),
            ("base-1", 1),
            ("same-name", 1),
            ("shard-1", 1),
        ]
        assert node.steps("checkpoint-uploaded") == [1]
        assert [event["step"] for event in node.events("checkpoint-part-uploaded", part=1)] == [1]

    def test_checkpoints_written_on_another_node_than_the_first_are_reported_while_the_job_runs(self, node, pair):
        node.job(1, 0, "only-1", "hang", interval_s=2.0)
        agents = pair()
        node.wait_until(lambda: node.events("no-checkpoint-yet"))
        (event,) = node.events("no-checkpoint-yet")
        assert ", and node 1 wrote to its folder: the trainer's first rank runs there" in event["reason"]
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        assert codes(agents) == [143, 143]

    def test_rotation_on_first_node_removes_parts_on_others(self, node, bucket, pair):
        node.job(4, 2.0, "rotate", "hang")
        agents = pair()
        node.wait_until(lambda: node.steps("checkpoint-uploaded")[-1:] == [4])
        (folder,) = (node.folder / "vn1").glob("slipway-*/*/checkpoints")
        node.wait_until(lambda: sorted(path.name for path in folder.iterdir()) == ["step-3", "step-4"])
        # The event follows the removal.
        node.wait_until(lambda: {event["step"] for event in node.events("checkpoint-rotated", part=1)} == {1, 2})
        assert {1, 2} <= {*node.steps("checkpoint-uploaded")}
        assert node.events("checkpoint-rotated") == []
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        assert codes(agents) == [143, 143]

    def test_every_node_restores_all_shards_and_own_duplicates(self, node, bucket, pair):
        node.job(2, 0)
        assert codes(pair()) == [0, 0]
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        node.job(2, 0)
        assert codes(pair(restart=1)) == [0, 0]
        for rank in (0, 1):
            expected = f"found base-0 base-1 same-name shard-0 shard-1 own {rank} step 2"
            assert node.output(f"vn{rank}")[-1] == expected

    @pytest.mark.parametrize("nodes", [{0}, {0, 1}])
    def test_newest_checkpoint_without_files_of_a_node_is_named_with_the_one_before(self, node, bucket, pair, nodes):
        """As earlier versions could commit one whose second node was slow."""
        node.job(2, 2.0, "paced")
        agents = pair()
        node.wait_until(lambda: node.steps("checkpoint-uploaded") == [1])
        (node.folder / "shared" / "go-on").touch()
        assert codes(agents) == [0, 0]
        document = json.loads(bucket.read("step-2/manifest.json"))
        document["files"] = [file for file in document["files"] if file["part"] in nodes]
        bucket.write("step-2/manifest.json", json.dumps(document).encode())
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        node.job(command=("true",))
        assert codes(pair(restart=1)) == [0, 0]
        assert node.restored(2) == 2
        reasons = [event["reason"] for event in node.events("set-incomplete", 2)]
        expected = (
            "step 2 has no files of node 1, and step 1 has: if the trainer writes checkpoints on every node, begin at "
            "that one (slipway launch FILE --from-step 1)"
        )
        assert reasons == ([expected] if nodes == {0} else [])

    def test_unchanged_files_uploaded_once_per_node(self, node, bucket, pair):
        node.job(4, 0.3, "paced", keep=1)
        agents = pair()
        # On a busy computer the first checkpoint would else be skipped for a newer one, and only one be sent.
        node.wait_until(lambda: node.steps("checkpoint-uploaded") == [1])
        (node.folder / "shared" / "go-on").touch()
        assert codes(agents) == [0, 0]
        for part, name in ((0, "checkpoint-uploaded"), (1, "checkpoint-part-uploaded")):
            sent = [event["sent_bytes"] for event in node.events(name, part=part)]
            assert sent[0] > 1000 > sent[-1]
        newest = bucket.manifest(4)
        foreign = {file.path for file in newest.files if not file.key.startswith("step-4/")}
        assert {"base-0", "base-1"} <= foreign
        # What the newest one points to elsewhere must outlive it.
        assert {file.key for file in newest.files} <= bucket.retained_keys()

    def test_checkpoint_with_missing_part_is_not_visible(self, node, bucket, pair):
        node.job(1, 0, "torn-1", final_upload_s=1.5)
        assert codes(pair()) == [74, 0]
        assert "step-1/manifest.json" not in [*bucket.keys()]
        # The other node's part of a later life of the job does not make the old one whole.
        node.job(1, 0, "torn-0", final_upload_s=1.5)
        assert codes(pair(restart=1)) == [0, 74]
        assert "step-1/manifest.json" not in [*bucket.keys()]
        node.job(0, 0)
        assert codes(pair(restart=2)) == [0, 0]
        assert [event["reason"] for event in node.events("restore-skipped", attempt=3)] == [
            "it has no manifest: its upload did not finish"
        ]

    def test_commit_waits_for_new_version_of_changed_part(self, node, bucket, pair):
        node.job(2, 0.2, "slow-0", "change-1-1")
        assert codes(pair()) == [0, 0]
        reasons = {event["step"]: event["reason"] for event in node.events("checkpoint-dropped")}
        assert reasons in ({}, {1: NEWER})
        assert bucket.whole()[-1] == 2

    def test_checkpoint_is_complete_without_parts_of_non_writing_node(self, node, bucket, pair):
        """As many trainers do that save from the first rank alone."""
        node.job(60, 1.0, "only-0")
        agents = pair()
        node.wait_for("checkpoint-uploaded")  # there is proof once a later one is finished
        for agent in agents:
            agent.send_signal(signal.SIGUSR1)
        assert codes(agents) == [75, 75]
        last = max(int(line.split()[1]) for line in node.output("vn0") if line.startswith("step"))
        assert bucket.whole()[-1] == last
        assert {file.part for file in bucket.manifest(last).files} == {0}
        # The next life knows it from the checkpoint that it goes on from, and one that ends well proves it too.
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        node.job(last + 1, 0, "only-0")
        assert codes(pair(restart=1)) == [0, 0]
        assert bucket.whole()[-1] == last + 1
        assert node.output("vn1")[-1] == f"found base-0 same-name shard-0 own 0 step {last}"

    def test_checkpoint_skipped_by_one_node_does_not_stop_next(self, node, bucket, pair):
        node.job(3, 1.0, "skip-1-1")
        assert codes(pair()) == [0, 0]
        assert bucket.whole()[-1] == 3
        assert 1 not in bucket.whole()
        reasons = {event["step"]: event["reason"] for event in node.events("checkpoint-dropped")}
        assert reasons[1] == "its part cannot be used: this node wrote a later checkpoint instead"

    def test_first_node_writes_for_all_with_writers_first_node(self, node, bucket, pair):
        node.job(1, 0, writers="first-node")
        assert codes(pair()) == [0, 0]
        assert [file.path for file in bucket.manifest(1).files] == ["base-0", "same-name", "shard-0"]
        node.job(1, 0, writers="first-node")
        assert codes(pair(restart=1)) == [0, 0]
        assert node.output("vn1")[-1] == "found base-0 same-name shard-0 own 0 step 1"

    def test_every_node_resumes_from_checkpoint_usable_by_all(self, node, bucket, pair, front):
        node.job(2, 0.8)
        assert codes(pair()) == [0, 0]
        assert bucket.whole()[-2:] == [1, 2]
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        (shard,) = [file.key for file in bucket.manifest(2).files if file.path == "shard-0"]
        front.rule = lambda method, path: 404 if path.endswith(shard) else None
        direct = node.environment["AWS_ENDPOINT_URL"]
        node.environment["AWS_ENDPOINT_URL"] = f"http://{front.upstream}"
        node.job(3, 0)
        assert codes(pair(restart=1, AWS_ENDPOINT_URL=direct)) == [0, 0]
        assert node.steps("restored", 2) == [2, 1][-1:]
        for rank in (0, 1):
            assert [line for line in node.output(f"vn{rank}") if line.startswith("found")][-1].endswith("step 1")


class TestNotice:
    def test_notice_of_one_node_reaches_every_node(self, node, bucket, pair):
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        node.job(60, 0.3, imds=True, drain=True, grace_seconds=30.0)
        try:
            first, second = pair(AWS_EC2_METADATA_SERVICE_ENDPOINT=service.endpoint)
            node.wait_for("checkpoint-uploaded")
            (node.folder / "shared" / "stop-at").write_text("8")
            service.arm()
            assert codes([first, second]) == [75, 75]
        finally:
            service.stop()
        (at_second,) = node.events("notice", part=1)
        (at_first,) = node.events("notice")
        assert (at_second["source"], "from_node" in at_second) == ("spot", False)
        assert (at_first["source"], at_first["from_node"]) == ("spot", "vn1")
        # Only the node that goes is drained (here there is no Slurm to do it).
        assert node.events("drain-failed", part=1)
        assert not node.events("drain-failed")
        assert node.events("interrupted")[0]["ended_by"] == "spot-interruption"
        last = [max(int(s.split()[1]) for s in node.output(n) if s.startswith("step")) for n in ("vn0", "vn1")]
        assert bucket.whole()[-1] == min(last)

    def test_notice_is_reported_reason_when_all_ranks_leave(self, node, bucket, pair):
        """As collectives have it: one is told to stop, and all do before the others' agents have heard why."""
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        node.job(100_000, 0.02, "together", imds=True)
        try:
            agents = pair(AWS_EC2_METADATA_SERVICE_ENDPOINT=service.endpoint)
            for part in (0, 1):
                node.wait_for("command-started", part=part)
            service.arm()
            assert codes(agents) == [75, 75]
        finally:
            service.stop()
        assert node.events("interrupted")[0]["ended_by"] == "spot-interruption"

    def test_rebalance_on_one_node_hastens_checkpoint_of_first(self, node, bucket, pair):
        service = MetadataService({"instance-id": "i-0123456789abcdef0"})
        node.job(60, 3.0, imds=True, interval_s=600.0)
        interval = node.folder / "vn0"
        try:
            agents = pair(AWS_EC2_METADATA_SERVICE_ENDPOINT=service.endpoint)
            node.wait_for("command-started")
            service.recommend_rebalance()
            node.wait_for("rebalance-recommended")
            values = set()
            (path,) = interval.glob("*/*/interval")
            node.wait_until(lambda: values.add(path.read_text()) or {"1\n", "600\n"} <= values)
        finally:
            service.stop()
            for agent in agents:
                agent.send_signal(signal.SIGTERM)
        assert codes(agents) == [143, 143]


def kill_node(node, second):
    """Kill the second node's command and agent."""
    for event in node.events("command-started", part=1):
        signal_group(event["pid"], signal.SIGKILL)
    second.kill()


class TestFailure:
    def test_failure_on_one_node_ends_every_node_with_exit_code(self, node, bucket, pair):
        node.job(60, 0.5, "fail-1", grace_seconds=1.0)
        assert codes(pair()) == [3, 3]
        assert node.events("failed", part=1)[0]["reason"] == "the command ended with 3"
        assert node.events("failed")[0]["reason"] == "the command ended with 3 (vn1)"

    def test_hung_job_ends_on_every_node(self, node, bucket, pair):
        node.job(2, 0.2, "hang", hung_minutes=0.05, grace_seconds=1.0)
        assert codes(pair()) == [124, 124]
        assert node.events("hung")[0]["step"] == 2
        assert node.events("failed")[0]["reason"] == "no new step for 0.05 minutes after step 2"
        assert bucket.whole()[-1] == 2

    def test_failure_after_lost_node_counts_as_node_lost(self, node, bucket, pair):
        node.job(60, 0.5)
        first, second = pair()
        node.wait_for("checkpoint-uploaded")
        kill_node(node, second)
        for event in node.events("command-started"):
            signal_group(event["pid"], signal.SIGKILL)  # as a collective fails when one of its ranks is gone
        assert codes([first]) == [75]
        ending = node.events("interrupted")[0]
        assert (ending["ended_by"], ending["reason"]) == ("node-lost", "lost: vn1")

    def test_node_lost_with_its_part_of_the_last_checkpoint_is_no_failure(self, node, bucket, pair):
        """The first node's command has completed: the part of the lost node is trained again."""
        node.job(12, 0.5)
        first, second = pair()
        node.wait_for("checkpoint-uploaded")
        kill_node(node, second)
        assert codes([first]) == [75]
        assert node.events("command-ended")[0]["code"] == 0
        ending = node.events("interrupted")[0]
        assert (ending["ended_by"], ending["reason"]) == ("node-lost", "lost: vn1")
