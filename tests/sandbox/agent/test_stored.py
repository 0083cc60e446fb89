"""Which files of a folder are stored, the reasons for the others, and the check that stored files are unchanged."""

import sys

import pytest

SHELL = 'cd "$SLIPWAY_CHECKPOINT_DIR"; '
ODD = {
    "fifo": ("mkfifo tmp/x", "'x', a FIFO"),
    "dangling link": ("ln -s nowhere tmp/x", "'x', a link to nothing"),
    "circular link": ("ln -s . tmp/x", "'x', a circular link"),
    "link out": ("ln -s / tmp/x", "'x', a link to a folder outside the checkpoint"),
    "name": (r"touch $(printf 'tmp/\377')", "a name that is not UTF-8"),
    "folder's name": (r"mkdir $(printf 'tmp/\377'); touch $(printf 'tmp/\377/x')", "a name that is not UTF-8"),
    "long path": (
        "d=tmp; for i in 1 2 3 4 5; do d=$d/$(printf %0250d 0); mkdir $d; done; touch $d/x",
        "the path is too long",
    ),
}


def drop(node, attempt=None):
    return [(event["step"], event["reason"]) for event in node.events("checkpoint-dropped", attempt)]


class TestUnstorableCheckpoints:
    @pytest.mark.parametrize("odd", ODD)
    def test_unstorable_checkpoint_reported_at_once_and_job_fails(self, node, bucket, odd):
        make, reason = ODD[odd]
        script = f"{SHELL} mkdir tmp; echo weights >tmp/data; {make}; mv tmp step-3"
        node.job(command=("bash", "-c", script))
        assert node.run() == 74
        ((step, dropped_reason),) = drop(node)
        assert (step, dropped_reason.startswith("step-3 holds"), reason in dropped_reason) == (3, True, True)
        assert bucket.whole() == []
        assert (
            node.events()[-1]["reason"] == "the command completed, but its last checkpoint, step 3, is not in the store"
        )

    def test_older_storable_checkpoint_stays(self, node, bucket):
        script = f"{SHELL} mkdir tmp; echo w >tmp/data; mv tmp step-1; mkdir tmp; mkfifo tmp/x; mv tmp step-2; sleep 1"
        node.job(command=("bash", "-c", script))
        assert node.run() == 74
        assert [step for step, _ in drop(node)] == [2]
        assert bucket.whole() == [1]

    def test_unstorable_checkpoint_reported_once_during_command(self, node, bucket):
        node.job(command=("bash", "-c", f"{SHELL} mkdir tmp; mkfifo tmp/x; mv tmp step-3; exec sleep 60"))
        agent = node.start()
        node.wait_for("checkpoint-dropped")
        agent.terminate()
        assert agent.wait() == 143
        assert len(drop(node)) == 1

    def test_unstorable_part_on_one_node_does_not_delay_other_node(self, node, bucket):
        script = f"{SHELL} mkdir tmp; echo w >tmp/data; [ $SLURM_NODEID = 0 ] || mkfifo tmp/x; mv tmp step-1; sleep 2"
        node.job(command=("bash", "-c", script))
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
        assert [agent.wait(timeout=90) for agent in agents] == [74, 74]
        ((_, dropped_reason),) = drop(node)
        assert "its part cannot be used: step-1 holds 'x', a FIFO" in dropped_reason

    def test_empty_folders_of_other_ranks_do_not_prevent_storing(self, node, bucket):
        """Every rank makes the folder, the first one alone writes."""
        script = f"{SHELL} for i in 1 2; do mkdir tmp; [ $SLURM_NODEID = 1 ] || echo w >tmp/data; mv tmp step-$i; done"
        node.job(command=("bash", "-c", script))
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
        assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
        assert bucket.whole()[-1] == 2


class TestLinks:
    def test_tree_is_restored_with_links_modes_and_empty_folders(self, node, bucket):
        """As Hugging Face's caches are: a link to a blob beside it, and one out of the checkpoint."""
        script = f"""{SHELL} umask 022; mkdir -p tmp/blobs tmp/snapshot tmp/cache/empty; echo w >tmp/blobs/1
echo 'echo runs' >tmp/run.sh; chmod 750 tmp/run.sh; echo k >tmp/key; chmod 600 tmp/key; echo out >../elsewhere
ln -s ../blobs/1 tmp/snapshot/model; ln -s snapshot tmp/latest; ln -s "$PWD/../elsewhere" tmp/out; mv tmp step-1"""
        node.job(command=("bash", "-c", script))
        assert node.run() == 0
        assert [file.path for file in bucket.manifest(1).files] == ["blobs/1", "key", "out", "run.sh"]
        node.lose()
        show = """cd "$SLIPWAY_RESUME_DIR"; find . -mindepth 1 -printf '%P %m %l\n' | LC_ALL=C sort; cat latest/model
sh -c ./run.sh"""
        node.job(command=("bash", "-c", show))
        assert node.run(attempt=2) == 0
        assert [line.rstrip() for line in node.output()] == [
            "blobs 755",
            "blobs/1 644",
            "cache 755",
            "cache/empty 755",
            "key 600",
            "latest 777 snapshot",
            "out 644",
            "run.sh 750",
            "snapshot 755",
            "snapshot/model 777 ../blobs/1",
            "w",
            "runs",
        ]


def then(change):
    """Writes a checkpoint, and changes it when it is told to."""
    wait = "until [ -e ../../../../go ]; do sleep 0.1; done"
    return "bash", "-c", f"{SHELL} mkdir tmp; echo w >tmp/data; mv tmp step-1; {wait}; {change}"


SAME_TIME = "cp -p step-1/data /tmp/ref.$$; echo W >step-1/data; touch -r /tmp/ref.$$ step-1/data; rm /tmp/ref.$$"
"""Other content of the same size, with the same modification time."""


def restored_files(node):
    """The content of the files that the next attempt on another node finds."""
    node.lose()
    node.job(command=("sh", "-c", 'cd "$SLIPWAY_RESUME_DIR"; for f in *; do echo "$f=$(paste -sd+ $f)"; done'))
    assert node.run(attempt=2) == 0
    return {name: text.rstrip("+") for name, text in (line.split("=", 1) for line in node.output() if "=" in line)}


def written_files(node, change):
    """What is in the checkpoint after the change."""
    content = {"data": "w+more" if "more" in change else "W" if "echo W" in change else "" if ": >" in change else "w"}
    return {**content, **({"new": "new"} if "new" in change else {})}


def let_go(node, front, agent):
    """The trainer goes on, and when it has ended S3 does."""
    (node.folder / "go").touch()
    node.wait_for("command-ended")
    front.rule = lambda *_: None
    return agent.wait()


class TestCheckpointWrittenAgain:
    """The front holds S3 up while the trainer writes a finished checkpoint again: it is a new version of its step."""

    @pytest.mark.parametrize("change", ["echo more >>step-1/data", "echo new >step-1/new", ": >step-1/data", SAME_TIME])
    def test_rewrite_before_upload_stores_final_content(self, node, bucket, front, change):
        front.rule = lambda method, path: 503 if method == "PUT" and path.endswith("/data") else None
        node.job(command=then(change), final_upload_s=5.0)
        agent = node.start()
        node.wait_for("upload-retry")
        assert let_go(node, front, agent) == 0
        assert (bucket.whole(), drop(node)) == ([1], [])
        assert restored_files(node) == written_files(node, change)

    @pytest.mark.parametrize("change", ["echo more >>step-1/data", "echo new >step-1/new", SAME_TIME])
    def test_rewrite_before_commit_stores_final_content(self, node, bucket, front, change):
        front.rule = lambda method, path: 503 if method == "PUT" and path.endswith("manifest.json") else None
        node.job(command=then(change), final_upload_s=5.0)
        agent = node.start()
        node.wait_for("upload-retry")
        assert let_go(node, front, agent) == 0
        assert bucket.whole() == [1]
        assert node.events("checkpoint-changed")
        assert restored_files(node) == written_files(node, change)

    def test_last_step_saved_twice_stores_last_content(self, node, bucket):
        """As trainers do that save at their last step and once more at the end."""
        script = f"{SHELL} for i in 1 2; do mkdir -p step-1; echo $i >step-1/data; touch step-1/_DONE; sleep 0.4; done"
        node.job(command=("bash", "-c", script))
        assert node.run() == 0
        assert ({*bucket.whole()}, drop(node)) == ({1}, [])
        assert restored_files(node)["data"] == "2"

    def test_rewrite_interrupted_by_kill_is_not_stored(self, node, bucket, front):
        front.rule = lambda method, path: 503 if method == "PUT" and path.endswith("/data") else None
        node.job(command=then("rm step-1/_DONE; echo half >step-1/data; kill -9 $$"), final_upload_s=5.0)
        agent = node.start()
        node.wait_for("upload-retry")
        assert let_go(node, front, agent) not in (0, 74)
        assert bucket.whole() == []

    def test_checkpoint_removed_by_trainer_after_upload_is_committed(self, node, bucket, front):
        front.rule = lambda method, path: 503 if method == "PUT" and path.endswith("manifest.json") else None
        node.job(command=then("rm -r step-1"))
        agent = node.start()
        node.wait_for("upload-retry")
        assert let_go(node, front, agent) == 0
        assert bucket.whole() == [1]

    @pytest.mark.slow
    def test_checkpoint_continued_after_pause_is_replaced(self, node, bucket):
        """Written in place, with a pause of 13 seconds in the middle."""
        trainer = """
import os, time
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "step-1")
folder.mkdir()
(folder / "half").write_text("1")
time.sleep(13)
(folder / "other").write_text("2")
time.sleep(60)
"""
        node.job(command=(sys.executable, "-c", trainer))
        agent = node.start()
        node.wait_for("checkpoint-changed")
        node.wait_until(lambda: len(node.events("checkpoint-uploaded")) == 2)
        agent.terminate()
        agent.wait()
        assert node.events("checkpoint-replaced")
        node.lose()
        node.job(command=("sh", "-c", 'ls "$SLIPWAY_RESUME_DIR"'))
        assert node.run(attempt=2) == 0
        assert node.output() == ["half", "other"]


class TestAfterARestore:
    """What the trainer writes after a restore from the store, on an empty node."""

    SAVE = "s() { mkdir tmp; echo $2 >tmp/data; rm -rf step-$1; mv tmp step-$1; sleep 3; };"

    @pytest.mark.parametrize("step", ["8", "2"])
    def test_restored_step_saved_again_or_lower_step_is_newest(self, node, bucket, step):
        """The last step once more, or the first save of a stage that counts anew."""
        node.job(command=("bash", "-c", f"{SHELL} {self.SAVE} s 8 one"))
        assert node.run() == 0
        node.lose()
        node.job(command=("bash", "-c", f"{SHELL} {self.SAVE} s {step} two"))
        assert node.run(attempt=2) == 0
        node.lose()
        node.job(command=("sh", "-c", 'cat "$SLIPWAY_RESUME_DIR"/data'))
        assert node.run(attempt=3) == 0
        assert node.output()[-1] == "two"


class TestFixedNames:
    """A trainer that writes the same files at every save."""

    RENAMED = "s() { echo $1 >part; mv part ckpt.pt; sleep 3; };"
    IN_PLACE = "s() { echo $1 >ckpt.pt; sleep 12; };"
    SEVERAL = "s() { echo $1 >part; mv part last.pt; echo b$1 >part; mv part best.pt; sleep 4; };"

    @pytest.mark.parametrize(
        "save, pattern, found",
        [
            (RENAMED, r"ckpt\.pt", "ckpt.pt=3"),
            pytest.param(IN_PLACE, r"ckpt\.pt", "ckpt.pt=3", marks=pytest.mark.slow),
            (SEVERAL, r"last\.pt|best\.pt", "best.pt=b3 last.pt=3"),
        ],
        ids=["renamed", "in-place", "several"],
    )
    def test_every_version_of_one_file_is_next_checkpoint(self, node, bucket, save, pattern, found):
        node.job(command=("bash", "-c", f"{SHELL} {save} s 1; s 2; s 3; sleep 60"), pattern=pattern)
        agent = node.start()
        node.wait_until(lambda: node.steps("checkpoint-uploaded")[-1:] >= [3])
        agent.kill()
        agent.wait()
        node.lose()
        steps = node.steps("checkpoint-uploaded")
        assert steps == sorted({*steps})
        show = 'cd "$SLIPWAY_CHECKPOINT_DIR"; echo $(for f in *.pt; do echo "$f=$(cat $f)"; done)'
        node.job(
            command=("bash", "-c", f"{SHELL} {show}; echo 4 >part; mv part {found.partition('=')[0]}; sleep 4"),
            pattern=pattern,
        )
        assert node.run(attempt=2) == 0
        assert node.output()[-1] == found
        assert node.restored(2) == steps[-1] == 3
        assert node.steps("checkpoint-uploaded", 2) == [4]

    def test_log_suggests_pattern_for_unrecognised_file(self, node, bucket):
        node.job(command=("bash", "-c", f"{SHELL} echo 1 >ckpt.pt; sleep 4"), interval_s=1.0)
        node.run()
        assert r"pattern: 'ckpt\.pt'" in node.events("checkpoints-not-recognised")[0]["reason"]
