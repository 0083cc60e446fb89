"""Checkpoint layouts of frameworks: stored from one node, restored on another with their trackers.

Each player writes what the framework's own source writes; `launcher/agent/checkpoint/layouts.csv` names file and line.
"""

import json
import sys
import textwrap

import pytest

from tests.plans import ROOT

PLAYERS = {
    "megatron": (
        "mkdir iter_0000100; echo w >iter_0000100/model; printf 100 >latest_checkpointed_iteration.txt",
        'cd "$SLIPWAY_RESUME_DIR"; echo "$(cat latest_checkpointed_iteration.txt)"; cat iter_0000100/model',
        ["100", "w"],
        100,
    ),
    "deepspeed": (
        "mkdir global_step25; echo w >global_step25/states; printf global_step25 >latest",
        'cd "$SLIPWAY_RESUME_DIR"; cat "$(cat latest)/states"',
        ["w"],
        25,
    ),
    "openrlhf": (
        "for a in _actor _critic; do t=global_step20; mkdir -p $a/$t; echo $a >$a/$t/s; printf $t >$a/latest; done",
        'cd "$SLIPWAY_RESUME_DIR"; for a in _actor _critic; do cat "$a/$(cat $a/latest)/s"; done',
        ["_actor", "_critic"],
        20,
    ),
    "nanotron": (
        "mkdir 40; echo w >40/model; printf 40 >latest.txt",
        'cd "$SLIPWAY_RESUME_DIR"; cat "$(cat latest.txt)/model"',
        ["w"],
        40,
    ),
    "lightning": (
        'echo w >"epoch=0-step=50.ckpt"; cp "epoch=0-step=50.ckpt" last.ckpt',
        'cd "$SLIPWAY_RESUME_DIR"; cat "$SLIPWAY_RESUME_FILE" "$SLIPWAY_CHECKPOINT_DIR/last.ckpt"',
        ["w", "w"],
        50,
    ),
    "composer": (
        "for r in 0 1; do echo $r >ep0-ba100-rank$r.pt; ln -s ep0-ba100-rank$r.pt latest-rank$r.pt; done",
        'cd "$SLIPWAY_RESUME_DIR"; cat latest-rank0.pt latest-rank1.pt',
        ["0", "1"],
        100,
    ),
    "hf": (
        "mkdir checkpoint-50; echo w >checkpoint-50/model.safetensors; echo {} >checkpoint-50/trainer_state.json",
        'cat "$SLIPWAY_RESUME_DIR/model.safetensors"',
        ["w"],
        50,
    ),
}


def shell(*commands):
    return ("sh", "-c", "; ".join(commands))


@pytest.mark.parametrize("layout", PLAYERS)
def test_layout_restored_on_other_node_in_framework_form(node, bucket, layout):
    writes, reads, expected, step = PLAYERS[layout]
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', writes))
    assert node.run() == 0
    (event,) = node.events("checkpoint-uploaded")
    assert (event["step"], event["layout"]) == (step, layout)
    assert [event["layout"] for event in node.events("checkpoint-layout")] == [layout]
    assert bucket.whole() == [step]
    assert bucket.manifest(step).layout == layout
    node.job(command=shell(reads), run="r2")
    assert node.run(node="elsewhere") == 0
    assert node.output("elsewhere") == expected
    # On a node that has it already, of another run: the same, from what lies there.
    node.job(command=shell(reads), run="r3")
    assert node.run(attempt=2) == 0
    assert node.output() == expected
    assert not node.events("checkpoint-dropped")


@pytest.mark.parametrize(
    "name,writes,file,more",
    [
        ("checkpoint-50", "mkdir checkpoint-50; echo w >checkpoint-50/model", "/model", {}),
        ("model_50.pt", "echo w >model_50.pt", "", {"pattern": r"model_(\d+)\.pt"}),
    ],
)
def test_own_links_and_paths_lead_to_the_restored_checkpoint(node, name, writes, file, more):
    links = f"ln -s {name} latest; ln -s $PWD/{name} newest.link; echo x >other; ln -s other link"
    links += f"; echo $PWD/{name} >last; echo $PWD/other >path"
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', writes, links), **more)
    assert node.run() == 0
    assert [event["step"] for event in node.events("checkpoint-uploaded")] == [50]
    (left,) = node.events("files-left")
    assert "other (2 bytes), path (" in left["reason"]
    reads = shell(
        'cd "$SLIPWAY_CHECKPOINT_DIR"',
        f"cat latest{file} newest.link{file}",
        "readlink newest.link",
        f'[ "$(cat last)" = "$PWD/{name}" ] && echo *',
    )
    expected = ["w", "w", name, f"last latest {name} newest.link"]
    node.job(command=reads, run="r2", **more)
    assert node.run(node="elsewhere") == 0
    assert node.output("elsewhere") == [*expected[:3], " ".join(sorted(expected[3].split()))]
    # On the node that has it already, from what lies there.
    node.job(command=reads, run="r3", **more)
    assert node.run(attempt=2) == 0
    assert node.output()[:3] == expected[:3]


def test_tracker_with_an_absolute_path_holds_that_of_the_restored_checkpoint(node):
    """As MMEngine's last_checkpoint."""
    policy = {"pattern": r"iter_(\d+)\.pth", "tracker": {"file": "last_checkpoint", "text": "{name}"}}
    writes = ("echo w >iter_50.pth", "printf %s $PWD/iter_50.pth >last_checkpoint")
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', *writes), **policy)
    assert node.run() == 0
    assert [event["step"] for event in node.events("checkpoint-uploaded")] == [50]
    node.job(command=shell('cat "$(cat "$SLIPWAY_CHECKPOINT_DIR/last_checkpoint")"'), run="r2", **policy)
    assert node.run(node="elsewhere") == 0
    assert node.output("elsewhere") == ["w"]


def test_attempt_without_complete_checkpoint_keeps_recorded_layout(node, bucket):
    writes = shell('cd "$SLIPWAY_CHECKPOINT_DIR"', PLAYERS["megatron"][0])
    node.job(command=writes)
    assert node.run() == 0
    assert json.loads(bucket.read("layout.json"))["layout"] == "megatron/step"
    for key in bucket.sizes():
        bucket.delete(key)  # it was killed before the commit
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', "mkdir step-5; echo w >step-5/_DONE"))
    assert node.run(attempt=2, node="elsewhere") == 0
    assert node.events("checkpoint-uploaded", attempt=2) == []
    (event,) = node.events("checkpoints-not-recognised", attempt=2)
    assert "this run's are of layout megatron" in event["reason"]


def test_shards_of_two_nodes_with_one_tracker_are_complete(node, bucket):
    """DeepSpeed on folders of the nodes' own: `latest` is rank 0's."""
    node.job(
        command=shell(
            'cd "$SLIPWAY_CHECKPOINT_DIR"',
            "mkdir global_step25; echo $SLURM_NODEID >global_step25/shard$SLURM_NODEID",
            "[ $SLURM_NODEID = 1 ] || printf global_step25 >latest",
        )
    )
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
    assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
    assert [file.path for file in bucket.manifest(25).files] == ["shard0", "shard1"]
    node.job(command=shell('cd "$SLIPWAY_RESUME_DIR"', 'cat "$(cat latest)"/shard*'), run="r2")
    agents = [
        node.start(node=f"new{rank}", SLURM_NODEID=str(rank), **common | {"SLURM_JOB_ID": "8"}) for rank in (0, 1)
    ]
    assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
    assert [node.output(f"new{rank}") for rank in (0, 1)] == [["0", "1"], ["0", "1"]]


def test_checkpoint_without_tracker_is_reported(node, bucket):
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', "mkdir global_step25", "echo w >global_step25/states"))
    assert node.run() == 0
    (dropped,) = node.events("checkpoint-dropped")
    assert dropped["reason"] == "it was unfinished when the command ended: latest does not name it"
    (event,) = node.events("checkpoints-not-recognised")
    assert event["reason"].endswith("global_step25; global_step25: latest does not name it")
    assert bucket.whole() == []


class TestStoreWithAnotherLayout:
    @pytest.fixture
    def stored(self, node, bucket):
        node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', PLAYERS["deepspeed"][0]))
        assert node.run() == 0
        return node

    def test_layout_stays_and_files_of_new_framework_are_reported(self, stored, bucket):
        stored.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', PLAYERS["hf"][0]), run="r2")
        assert stored.run(node="elsewhere") == 0
        (event,) = stored.events("checkpoints-not-recognised")
        assert event["reason"] == (
            "no file is recognised as a checkpoint, so none is stored: checkpoint-50; this run's are of layout "
            "deepspeed, and "
            "these look like hf: name it as checkpoint.layout, or start at step 0 with --fresh"
        )
        assert bucket.whole() == [25]

    def test_planned_new_layout_starts_anew_with_report(self, stored, bucket):
        stored.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', PLAYERS["hf"][0]), run="r2", layout="hf")
        assert stored.run(node="elsewhere") == 0
        (skipped,) = stored.events("restore-skipped")
        assert skipped["reason"].startswith("it is of layout deepspeed: name it as checkpoint.layout")
        assert bucket.whole() == [25, 50]

    def test_removed_pattern_of_stored_layout_stops_start(self, stored, bucket):
        stored.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', "echo w >run-60k"), run="r2", pattern=r"run-(\d+)k")
        assert stored.run(node="second") == 0
        stored.job(command=("true",), run="r3")
        assert stored.run(node="third") == 74
        (failed,) = [event for event in stored.events("failed") if event["run"] == "r3"]
        fix = r"step 60: it is of layout pattern: write checkpoint: {pattern: 'run\-(\d+)k'}, or start at step 0"
        assert fix in failed["reason"]


def test_checkpoint_of_earlier_agent_version_is_restored(node, bucket):
    node.job(command=shell('cd "$SLIPWAY_CHECKPOINT_DIR"', "mkdir tmp", "echo w >tmp/model", "mv tmp checkpoint-7"))
    assert node.run() == 0
    document = json.loads(bucket.read("step-7/manifest.json"))
    assert document["schema"] == "slipway.checkpoint/1"
    assert "layout" not in document
    writes = ('cd "$SLIPWAY_CHECKPOINT_DIR"', PLAYERS["hf"][0])
    node.job(command=shell('cat "$SLIPWAY_RESUME_DIR/model"', *writes), run="r2")
    assert node.run(node="elsewhere") == 0
    assert node.output("elsewhere") == ["w"]
    assert bucket.whole() == [7, 50]


def test_documented_own_trainer_resumes_from_file(node, bucket):
    page = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    section = page[page.index("### A trainer of your own") :].split("\n\n")[1]
    (node.folder / "train.py").write_text(textwrap.dedent(section))
    command = (sys.executable, str(node.folder / "train.py"))
    node.job(command=command, pattern=r"model_(\d+)\.npz")
    assert node.run() == 0
    assert bucket.whole()[-1] == 60
    node.lose()
    show = 'echo "$SLIPWAY_RESUME_FILE"; ls "$SLIPWAY_RESUME_DIR"'
    node.job(command=("sh", "-c", show), pattern=r"model_(\d+)\.npz")
    assert node.run(attempt=2) == 0
    assert node.output()[-2].endswith("/model_00060.npz")
    assert node.output()[-1] == "model_00060.npz"
