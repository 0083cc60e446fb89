"""A finished copy on a node gets back what its trainer has removed of its set."""

import json
import shutil
from dataclasses import replace

import pytest

from launcher.agent.checkpoint.commit import assemble, commit
from launcher.agent.checkpoint.files import local_files, sha256_of
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.upload import Sender
from launcher.agent.errors import AgentError
from launcher.agent.node.placement import Placement
from launcher.agent.node.reserve import Reserve
from tests.attack.disks import fill, mounted

WRITER = Placement(run="r1", attempt=1, session="r1.a1", part=0, parts=1, node="n")


def unchanged_files(_):
    """The trainer left it."""


def remove(best):
    shutil.rmtree(best)


def partly_removed(best):
    (best / "model").unlink()


def written_again(best):
    (best / "model").write_text("of a later evaluation")


@pytest.fixture
def copy(store, tmp_path):
    """Step 30 on the node, which names step 10 as the best; the store has step 10."""
    previous = tmp_path / "previous"
    for step in (10, 30):
        folder = previous / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "model").write_text(f"weights of {step}")
        (folder / "trainer_state.json").write_text(json.dumps({"best_model_checkpoint": "out/checkpoint-10"}))
    best = FinishedFolder(
        step=10,
        path=previous / "checkpoint-10",
        files=local_files(previous / "checkpoint-10"),
        layout="hf",
        folder="checkpoint-10",
    )
    part, _ = Sender(store, WRITER).send(best)
    commit(store, assemble(store, part, session=WRITER.session), session=WRITER.session)
    newest = previous / "checkpoint-30"
    hashes = {file.path: sha256_of(newest / file.path) for file in local_files(newest)}
    return replace(best, step=30, path=newest, files=local_files(newest), folder="checkpoint-30", hashes=hashes)


@pytest.mark.parametrize("change", [unchanged_files, remove, partly_removed, written_again])
def test_copy_on_node_is_restored_with_the_best_as_it_was_stored(store, tmp_path, copy, change):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    change(tmp_path / "previous" / "checkpoint-10")
    skipped = []
    restore = Restore(
        store=store,
        checkpoints=checkpoints,
        previous=tmp_path / "previous",
        part=0,
        on_skip=lambda *reason: skipped.append(reason),
    )
    restored = restore.newest(finished_here=copy)
    assert (restored.step, restored.is_local_only, restored.lacking, skipped) == (30, True, (), [])
    assert (restored.finished.main, restored.finished.entries[1:]) == ("checkpoint-30", ("checkpoint-10",))
    models = {path.parent.name: path.read_text() for path in checkpoints.glob("*/model")}
    assert models == {"checkpoint-10": "weights of 10", "checkpoint-30": "weights of 30"}
    later = tmp_path / "previous" / "checkpoint-10.later" / "model"
    assert later.exists() == (change is written_again)


@pytest.mark.parametrize(
    "part, brought", [(0, {"checkpoint-10/model", "checkpoint-10/trainer_state.json"}), (1, set())]
)
def test_node_brings_its_own_part_of_the_best(store, tmp_path, copy, part, brought):
    """The first node also brings the parts of nodes that the job no longer has."""
    remove(tmp_path / "previous" / "checkpoint-10")
    restore = Restore(
        store=store,
        checkpoints=tmp_path,
        previous=tmp_path / "previous",
        part=part,
        parts=2,
        on_skip=lambda *_: None,
    )
    together = restore.complete_set(copy, ["checkpoint-10"])
    assert {file.path for file in together.files if file.path.startswith("checkpoint-10/")} == brought
    assert together.hashes.keys() == ({file.path for file in together.files})


def test_disk_that_cannot_take_the_best_keeps_the_copy(store, tmp_path, copy):
    remove(tmp_path / "previous" / "checkpoint-10")
    (tmp_path / "previous" / ".slipway-restore").write_text("in the way")
    skipped = []
    restore = Restore(
        store=store,
        checkpoints=tmp_path,
        previous=tmp_path / "previous",
        part=0,
        on_skip=lambda *reason: skipped.append(reason),
    )
    assert restore.complete_set(copy) is copy
    assert [(step, "cannot be put back" in reason) for step, reason in skipped] == [(30, True)]


@pytest.mark.parametrize("reserved", [True, False])
def test_copy_on_a_full_node_is_put_back_with_its_tracker_by_the_reserve(store, tmp_path, reserved):
    """Its files are moved; only the tracker needs room, which others have taken to the last byte."""
    with mounted(tmp_path / "disk", 4 << 20) as disk:
        reserve, newest = Reserve(disk), disk / "previous" / "iter_0000003"
        newest.mkdir(parents=True)
        (disk / "checkpoints").mkdir()
        (newest / "data").write_text("weights of 3")
        files = local_files(newest)
        hashes = {file.path: sha256_of(newest / file.path) for file in files}
        copy = FinishedFolder(step=3, path=newest, files=files, layout="megatron", folder=newest.name, hashes=hashes)
        if reserved:
            reserve.fill()
        fill(disk / "junk")
        restore = Restore(
            store=store,
            checkpoints=disk / "checkpoints",
            previous=disk / "previous",
            part=0,
            on_skip=lambda *_: None,
            spend_reserve=reserve.spend,
        )
        if not reserved:
            with pytest.raises(AgentError, match="No space left"):
                restore.newest(finished_here=copy)
            return
        assert restore.newest(finished_here=copy).step == 3
        assert (disk / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "3"
        assert (disk / "checkpoints" / newest.name / "data").read_text() == "weights of 3"
