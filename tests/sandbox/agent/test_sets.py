"""What a trainer's own resume needs beside its newest checkpoint is stored and put back with it."""

import json
import sys

import pytest

from launcher.answers.checkpoints import page
from launcher.workflow.run.checkpoints import survey
from tests.plans import ROOT
from tests.sandbox.agent.kept import is_hashed

FAKE_LIGHTNING = """
import os, pickle, sys, time, zipfile
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])

def save(name, step, best=""):
    state = {"global_step": step, "callbacks": {"best": {"best_model_path": str(folder / best), "best_k_models": {}}}}
    with zipfile.ZipFile(folder / "part", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(state, protocol=2))
        archive.writestr("archive/data/0", f"weights of {name} at {step}")
    (folder / "part").replace(folder / name)

def held():
    files = {path.name: zipfile.ZipFile(path).read("archive/data/0").decode() for path in sorted(folder.glob("*.ckpt"))}
    print(Path(os.environ.get("SLIPWAY_RESUME_FILE") or "none").name, files, flush=True)
"""
"""Files as Lightning writes them, without its minute of imports."""
PLAIN_NAMES = """
import os, sys, time
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
files = {path.name: path.read_text() for path in sorted(folder.glob("*.ckpt"))}
print(Path(os.environ["SLIPWAY_RESUME_FILE"] or "none").name, files, flush=True)
if not files:
    (folder / "epoch=3-step=40.ckpt").write_text("state of step 40")
    (folder / "best.ckpt").write_text("best of step 40")
    time.sleep(0.1)
    (folder / "last.ckpt").write_text("state of step 45")
    time.sleep(120)
"""
"""A trainer that names its files as Lightning's callbacks do and writes them in place, in a format without a step."""
PLAIN_EPOCHS = """
import os, sys, time
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
files = {path.name: path.read_text() for path in sorted(folder.glob("*.ckpt"))}
print(Path(os.environ["SLIPWAY_RESUME_FILE"] or "none").name, files, flush=True)
if not files:
    for epoch in range(3):
        (folder / f"epoch={epoch}.ckpt").write_text(f"state {epoch}")
        time.sleep(12)
        if epoch == 1:
            (folder / "epoch=1.ckpt").unlink()
    time.sleep(120)
"""
"""A trainer that keeps its best epoch, the first, and the newest one, in a format without a step."""
BEST_AND_LAST = (
    FAKE_LIGHTNING
    + """
held()
if not os.environ.get("SLIPWAY_RESUME_FILE"):
    save("epoch=1-step=20.ckpt", 20, "epoch=1-step=20.ckpt")
    for step in (30, 40, 50):
        time.sleep(4)
        save("last.ckpt", step, "epoch=1-step=20.ckpt")
    time.sleep(60)
"""
)
"""One callback has kept its best of step 20, the other writes its last.ckpt again and again."""


def resume(node, script, *, attempt=2):
    """What the next attempt finds on an empty node."""
    node.lose()
    node.job(command=(sys.executable, "-c", script))
    assert node.run(attempt=attempt) == 0
    return node.output()[-1]


class TestLightning:
    def test_last_file_of_any_format_restored_as_newest_with_best(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", PLAIN_NAMES))
        agent = node.start()
        node.wait_until(lambda: len(node.steps("checkpoint-uploaded")) >= 1)
        node.wait_until(lambda: max(node.steps("checkpoint-uploaded")) > 40)
        agent.kill()
        agent.wait()
        (newest, *_) = survey(objects)
        assert (newest.step, newest.main, newest.counted) == (41, "last.ckpt", True)
        assert newest.others == ("best.ckpt", "epoch=3-step=40.ckpt")
        assert resume(node, PLAIN_NAMES) == (
            "last.ckpt {'best.ckpt': 'best of step 40', 'epoch=3-step=40.ckpt': 'state of step 40', "
            "'last.ckpt': 'state of step 45'}"
        )

    def test_epochs_of_any_format_are_stored_in_order_of_saving_and_listed_as_saves(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", PLAIN_EPOCHS))
        agent = node.start()
        node.wait_until(lambda: 3 in node.steps("checkpoint-uploaded"))
        agent.kill()
        agent.wait()
        assert [(event["step"], event["counted"]) for event in node.events("checkpoint-uploaded")] == [
            (1, True),
            (2, True),
            (3, True),
        ]
        (newest, *_) = survey(objects)
        assert (newest.step, newest.counted, newest.main, newest.others) == (3, True, "epoch=2.ckpt", ("epoch=0.ckpt",))
        listed = page("s3://store", survey(objects), 100)
        assert "  save 3: epoch=2.ckpt, in one set with epoch=0.ckpt" in listed
        assert resume(node, PLAIN_EPOCHS) == "epoch=2.ckpt {'epoch=0.ckpt': 'state 0', 'epoch=2.ckpt': 'state 2'}"
        assert node.events("restored")[-1]["counted"]

    def test_separate_last_checkpoint_restored_with_best(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", BEST_AND_LAST))
        agent = node.start()
        node.wait_until(lambda: 50 in node.steps("checkpoint-uploaded"))
        agent.kill()
        agent.wait()
        assert node.steps("checkpoint-uploaded")[-1] == 50
        (newest, *_) = survey(objects)
        assert (newest.step, newest.main, newest.others) == (50, "last.ckpt", ("epoch=1-step=20.ckpt",))
        assert resume(node, BEST_AND_LAST) == (
            "last.ckpt {'epoch=1-step=20.ckpt': 'weights of epoch=1-step=20.ckpt at 20', "
            "'last.ckpt': 'weights of last.ckpt at 50'}"
        )

    def test_best_removed_during_upload_is_stored(self, node, bucket, front, objects):
        """The trainer has found a better one: what it saved last is stored with the best that it names."""
        script = f"""{FAKE_LIGHTNING}
save("best.ckpt", 10, "best.ckpt"); time.sleep(4)
save("last.ckpt", 20, "best.ckpt")
while not Path("{node.folder}/go").exists(): time.sleep(0.1)
(folder / "best.ckpt").unlink()
"""
        front.rule = lambda method, path: 503 if method == "PUT" and "/step-20/" in path else None
        node.job(command=(sys.executable, "-c", script))
        agent = node.start()
        node.wait_until(lambda: 20 in node.steps("upload-retry"))
        (node.folder / "go").touch()
        node.wait_for("command-ended")
        front.rule = lambda *_: None
        assert agent.wait(timeout=90) == 0
        assert survey(objects)[0].step == 20
        held = f"{FAKE_LIGHTNING}\nheld()"
        assert resume(node, held) == (
            "last.ckpt {'best.ckpt': 'weights of best.ckpt at 10', 'last.ckpt': 'weights of last.ckpt at 20'}"
        )

    def test_resumed_trainer_saves_newer_than_restored_files(self, node, bucket):
        """The best of a lower step is no new checkpoint, though the restore has just written its file."""
        first = f"""{FAKE_LIGHTNING}
save("best.ckpt", 10, "best.ckpt"); time.sleep(3); save("last.ckpt", 20, "best.ckpt"); time.sleep(4)
"""
        node.job(command=(sys.executable, "-c", first))
        assert node.run() == 0
        node.lose()
        node.job(
            command=(sys.executable, "-c", f"""{FAKE_LIGHTNING}\nsave("last.ckpt", 30, "best.ckpt"); time.sleep(4)""")
        )
        assert node.run(attempt=2) == 0
        assert node.steps("checkpoint-uploaded", 2) == [30]
        held = "last.ckpt {'best.ckpt': 'weights of best.ckpt at 10', 'last.ckpt': 'weights of last.ckpt at 30'}"
        assert resume(node, f"{FAKE_LIGHTNING}\nheld()", attempt=3) == held

    def test_last_equal_to_named_checkpoint_stored_once(self, node, bucket):
        script = f"""{FAKE_LIGHTNING}
for step in (10, 20):
    save(f"epoch=0-step={{step}}.ckpt", step); save("last.ckpt", step); time.sleep(4)
"""
        node.job(command=(sys.executable, "-c", script))
        assert node.run() == 0
        assert node.steps("checkpoint-uploaded") == [10, 20]
        assert bucket.manifest(20).files[0].path == "epoch=0-step=20.ckpt"


HF = """
import json, os, time
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
def save(step, best):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    (path / "model").write_text(str(step))
    (path / "trainer_state.json").write_text(json.dumps({"best_model_checkpoint": best and f"out/checkpoint-{best}"}))
    time.sleep(0.5)
resume = os.environ["SLIPWAY_RESUME_DIR"]
print(Path(resume).name, sorted(path.name for path in folder.glob("*")), flush=True)
if not resume:
    save(10, None); save(20, 10); save(30, 10)
"""
"""As transformers with load_best_model_at_end: the best is that of step 10."""


def is_finished(folder, rank, name):
    """Whether a node has recorded a checkpoint as finished and hashed."""
    records = list(folder.glob(f"vn{rank}/*/*/finished.json"))
    return bool(records) and is_hashed(records[0], name)


class TestHuggingFace:
    def test_hugging_face_best_restored_with_newest(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", HF), keep=1)
        assert node.run() == 0
        (newest, *_) = survey(objects)
        assert (newest.step, newest.main, newest.others) == (30, "checkpoint-30", ("checkpoint-10",))
        assert resume(node, HF) == "checkpoint-30 ['checkpoint-10', 'checkpoint-30']"

    def test_parts_of_the_best_on_other_nodes_are_in_the_set(self, node, bucket):
        """Only the first node's folder says which one is the best; both nodes get all parts back."""
        script = HF.replace('(path / "trainer', 'if os.environ["SLURM_NODEID"] == "0": (path / "trainer')
        node.job(command=(sys.executable, "-c", script.replace('"model"', "f\"model-{os.environ['SLURM_NODEID']}\"")))
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
        assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
        models = {f"checkpoint-{step}/model-{rank}" for step in (10, 30) for rank in (0, 1)}
        assert {file.path for file in bucket.manifest(30).files} >= models
        for rank in (0, 1):
            node.lose(f"vn{rank}")
        script = "import os; from pathlib import Path; folder = Path(os.environ['SLIPWAY_CHECKPOINT_DIR'])"
        found = f"{script}; print(sorted(str(path.relative_to(folder)) for path in folder.glob('*/model-*')))"
        node.job(command=(sys.executable, "-c", found))
        again = common | {"SLURM_RESTART_COUNT": "1"}
        agents = [node.start(2, node=f"vn{rank}", SLURM_NODEID=str(rank), **again) for rank in (0, 1)]
        assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
        for rank in (0, 1):
            assert node.output(f"vn{rank}")[-1] == str(sorted(models))

    @pytest.mark.parametrize("removed_on", ["0", "01"], ids=["first-node", "both-nodes"])
    def test_removed_best_of_killed_agents_on_two_nodes_comes_back_on_both(self, node, bucket, front, removed_on):
        """Step 30 is finished on both nodes and in no store; the best that it names is in the store alone."""
        script = HF.replace('(path / "trainer', 'if rank == "0": (path / "trainer').replace(
            '"model"', 'f"model-{rank}"'
        )
        rest = f"""
if not resume:
    import shutil
    if rank in "{removed_on}": shutil.rmtree(folder / "checkpoint-10")
    time.sleep(60)
print(sorted(str(path.relative_to(folder)) for path in folder.glob("*/model-*")))
"""
        script = f"rank = __import__('os').environ['SLURM_NODEID']\n{script}{rest}"
        front.rule = lambda method, path: (
            503 if method == "PUT" and ("/step-30/" in path or "/step-20/" in path) else None
        )
        node.job(command=(sys.executable, "-c", script))
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        agents = [node.start(node=f"vn{rank}", SLURM_NODEID=str(rank), **common) for rank in (0, 1)]
        for rank in (0, 1):
            node.wait_until(lambda rank=rank: is_finished(node.folder, rank, "checkpoint-30"))
        node.wait_until(lambda: 10 in bucket.whole())
        for agent in agents:
            agent.kill()
            agent.wait()
        node.end_commands()
        front.rule = lambda *_: None
        agents = [
            node.start(2, node=f"vn{rank}", SLURM_NODEID=str(rank), SLURM_RESTART_COUNT="1", **common)
            for rank in (0, 1)
        ]
        assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
        models = {f"checkpoint-{step}/model-{rank}" for step in (10, 30) for rank in (0, 1)}
        for rank in (0, 1):
            assert node.output(f"vn{rank}")[-1] == str(sorted(models))
            assert node.events("set-incomplete", attempt=2, part=rank) == []
        stored = {(file.path, file.part) for file in bucket.manifest(30).files if "/model-" in file.path}
        assert stored == {(path, int(path[-1])) for path in models}

    def test_copy_on_node_resumed_with_best(self, node, bucket, front):
        front.rule = lambda method, path: 503 if method == "PUT" and "/step-30/" in path else None
        node.job(command=(sys.executable, "-c", HF), final_upload_s=1.0)
        assert node.run() == 74
        front.rule = lambda *_: None
        node.job(command=(sys.executable, "-c", HF))
        assert node.run(attempt=2) == 0
        assert node.output()[-1] == "checkpoint-30 ['checkpoint-10', 'checkpoint-30']"
        assert node.events("restored", 2)[0]["source"] == "node"

    @pytest.mark.parametrize("stored", [True, False])
    def test_killed_agents_removed_best_comes_from_the_store_or_is_named(self, node, bucket, front, stored):
        script = f"""{HF}
if not resume:
    import shutil
    shutil.rmtree(folder / "checkpoint-10")
    Path("{node.folder}/removed").touch()
    time.sleep(60)
"""
        refused = "/step-30/" if stored else "/step-"
        front.rule = lambda method, path: 503 if method == "PUT" and refused in path else None
        node.job(command=(sys.executable, "-c", script))
        agent = node.start()
        node.wait_until((node.folder / "removed").exists)
        node.wait_until(lambda: 30 in node.steps("upload-retry"))
        (record,) = node.folder.glob("node/*/*/finished.json")
        node.wait_until(lambda: json.loads(record.read_text())["checkpoint-30"]["hashes"])
        agent.kill()
        agent.wait()
        front.rule = lambda *_: None
        node.job(command=(sys.executable, "-c", HF))
        assert node.run(attempt=2) == 0
        assert node.events("restored", 2)[0]["source"] == "node"
        found = ["checkpoint-10", "checkpoint-30"] if stored else ["checkpoint-30"]
        assert node.output()[-1] == f"checkpoint-30 {found}"
        named = [event["reason"] for event in node.events("set-incomplete", 2)]
        assert named == (
            [] if stored else ["step 30 names checkpoint-10 beside it, which neither this node nor the store has"]
        )


NEMO = (
    FAKE_LIGHTNING.partition("def held")[0].replace('(folder / "part").replace(folder / name)', "")
    + """
def save_nemo(loss, step, best):
    path = folder / f"m--val_loss={loss}-step={step}-consumed_samples={step * 8}"
    unfinished = Path(f"{path}-unfinished")
    unfinished.touch()
    (path / "weights").mkdir(parents=True)
    save("", step, best and f"m--val_loss=0.1-step={best}-consumed_samples={best * 8}.ckpt")
    (folder / "part").replace(path / "weights" / "common.pt")
    unfinished.unlink()
    time.sleep(0.5)
resume = os.environ["SLIPWAY_RESUME_DIR"]
print(sorted(path.name for path in folder.glob("m-*") if not path.is_symlink()), flush=True)
if not resume:
    save_nemo(0.1, 10, ""); save_nemo(0.3, 20, 10); save_nemo(0.2, 30, 10)
"""
)
"""As NeMo 2, with best_model_path as Lightning's callback writes it: a folder's name with the suffix of a file."""


class TestNemo:
    def test_nemo_best_restored_with_newest(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", NEMO), keep=1)
        assert node.run() == 0
        (newest, *_) = survey(objects)
        best, last = "m--val_loss=0.1-step=10-consumed_samples=80", "m--val_loss=0.2-step=30-consumed_samples=240"
        assert (newest.step, newest.main, newest.others) == (30, last, (best,))
        assert resume(node, NEMO) == str([best, last])


BEST_APART = (
    FAKE_LIGHTNING
    + """
(folder / "best").mkdir(exist_ok=True)
print(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.ckpt")), flush=True)
if not os.environ.get("SLIPWAY_RESUME_FILE"):
    save("best/epoch=1.ckpt", 20); save("last.ckpt", 30, "best/epoch=1.ckpt"); time.sleep(3)
"""
)
"""Two ModelCheckpoints with a `dirpath` each."""
OPENRLHF = """
import os, time
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])

def save(tag):
    for tree in (folder / "_actor", folder / "_critic"):
        (tree / tag).mkdir(parents=True)
        (tree / tag / "mp_rank_00_model_states.pt").write_text(f"{tree.name} {tag}")
        (tree / "latest").write_text(tag)

print(sorted(str(path.parent.relative_to(folder)) for path in folder.rglob("*.pt")), flush=True)
print([path.read_text() for path in sorted(folder.glob("*/latest"))], flush=True)
if not os.environ["SLIPWAY_RESUME_DIR"]:
    save("global_step20"); save("best_global_step20"); time.sleep(1); save("global_step40")
"""
"""As its trainer/ppo_trainer.py of 2026-08-13: the best model has its own tag in the trees of actor and critic."""


def run_twice_on_two_nodes(node, program):
    """Two attempts of an OpenRLHF trainer, each with an agent on two nodes; all end well."""
    node.job(command=(sys.executable, "-c", program), layout="openrlhf")
    common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
    for attempt in (1, 2):
        changes = common | {"SLURM_RESTART_COUNT": str(attempt - 1)}
        agents = [node.start(attempt, node=f"vn{rank}", SLURM_NODEID=str(rank), **changes) for rank in (0, 1)]
        assert [agent.wait(timeout=90) for agent in agents] == [0, 0]


class TestBestInItsOwnTree:
    def test_lightning_best_in_a_folder_of_its_own_restored(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", BEST_APART))
        assert node.run() == 0
        (newest, *_) = survey(objects)
        assert (newest.step, newest.main, newest.others) == (30, "last.ckpt", ("best/epoch=1.ckpt",))
        assert resume(node, BEST_APART) == "['best/epoch=1.ckpt', 'last.ckpt']"

    def test_openrlhf_best_of_actor_and_critic_restored(self, node, bucket, objects):
        node.job(command=(sys.executable, "-c", OPENRLHF), keep=1)
        assert node.run() == 0
        (newest, *_) = survey(objects)
        assert (newest.step, newest.mains) == (40, ("_actor/global_step40", "_critic/global_step40"))
        assert newest.others == ("_actor/best_global_step20", "_critic/best_global_step20")
        latest = resume(node, OPENRLHF)
        tags = ("best_global_step20", "global_step40")
        assert node.output()[-2] == str([f"{tree}/{tag}" for tree in ("_actor", "_critic") for tag in tags])
        assert latest == "['global_step40', 'global_step40']"

    def test_rotation_on_other_nodes_keeps_restored_best(self, node, bucket):
        """The trainer removes step 40 on the first node alone, and needs the best of step 20 on both until its end."""
        rest = f"""
if os.environ["SLIPWAY_RESUME_DIR"]:
    save("global_step50"); save("global_step60")
    while '"step": 60' not in Path("{node.folder}/shared/events.jsonl").read_text(): time.sleep(0.2)
    for tree in folder.glob("_*") if os.environ["SLURM_NODEID"] == "0" else ():
        __import__("shutil").rmtree(tree / "global_step40")
    while any(Path("{node.folder}").glob("vn*/*/*/checkpoints/_*/global_step40")): time.sleep(0.2)
    print(sorted(path.name for path in folder.glob("*/best_*/*")))
"""
        run_twice_on_two_nodes(node, f"{OPENRLHF}{rest}")
        assert [event["step"] for event in node.events("checkpoint-rotated", part=1)] == [40]
        assert node.output("vn1")[-1] == str(["mp_rank_00_model_states.pt"] * 2)

    def test_best_removed_on_first_node_after_resume_leaves_other_nodes(self, node, bucket):
        """OpenRLHF, resumed, knows no best metric: it removes its earlier best at the next better one, on one node."""
        rest = f"""
if os.environ["SLIPWAY_RESUME_DIR"]:
    for tree in folder.glob("_*") if os.environ["SLURM_NODEID"] == "0" else ():
        __import__("shutil").rmtree(tree / "best_global_step20")
    save("best_global_step50"); save("global_step50"); save("global_step60")
    while '"step": 60' not in Path("{node.folder}/shared/events.jsonl").read_text(): time.sleep(0.2)
    end = time.monotonic() + 40
    while any(Path("{node.folder}").glob("vn*/*/*/checkpoints/_*/best_global_step20")) and time.monotonic() < end:
        time.sleep(0.2)
    print(sorted(str(path.relative_to(folder)) for path in folder.glob("*/best_*")))
"""
        run_twice_on_two_nodes(node, f"{OPENRLHF}{rest}")
        assert node.output("vn1")[-1] == str(["_actor/best_global_step50", "_critic/best_global_step50"])

    def test_resumed_openrlhf_checkpoint_has_parts_of_slow_node(self, node, bucket):
        """The trees are restored: what a node adds to them shows that it writes, so that its part is waited for."""
        rest = """
if os.environ["SLIPWAY_RESUME_DIR"]:
    save("global_step50"); time.sleep(4)
    if rank == "1": time.sleep(8)
    save("global_step60"); save("global_step80")
    if rank == "0": time.sleep(14)
"""
        script = OPENRLHF.replace("mp_rank_00", "mp_rank_0{rank}").replace(' / "mp_rank', ' / f"mp_rank')
        script = f"rank = __import__('os').environ['SLURM_NODEID']\n{script}{rest}"
        node.job(command=(sys.executable, "-c", script), layout="openrlhf")
        common = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
        for attempt, steps in ((1, (40,)), (2, (50, 60, 80))):
            changes = common | {"SLURM_RESTART_COUNT": str(attempt - 1)}
            agents = [node.start(attempt, node=f"vn{rank}", SLURM_NODEID=str(rank), **changes) for rank in (0, 1)]
            assert [agent.wait(timeout=90) for agent in agents] == [0, 0]
            for step in (step for step in steps if step in bucket.whole()):
                names = {file.path for file in bucket.manifest(step).files}
                assert names >= {
                    f"{tree}/global_step{step}/mp_rank_0{rank}_model_states.pt"
                    for tree in ("_actor", "_critic")
                    for rank in (0, 1)
                }, step
            for rank in (0, 1):
                node.lose(f"vn{rank}")
        assert max(bucket.whole()) == 80


TIMM = """
import os, sys, time, zipfile
from pathlib import Path
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
def again(source, target):
    target.unlink(missing_ok=True)
    os.link(source, target)
def save(epoch, best):
    with zipfile.ZipFile(folder / "tmp.pth.tar", "w") as archive:
        archive.writestr("archive/data.pkl", f"weights of {epoch}")
    last = folder / "last.pth.tar"
    last.unlink(missing_ok=True)
    (folder / "tmp.pth.tar").replace(last)
    again(last, folder / f"checkpoint-{epoch}.pth.tar")
    if best:
        again(last, folder / "model_best.pth.tar")
    (folder / f"checkpoint-{epoch - 1}.pth.tar").unlink(missing_ok=True)
read = lambda path: zipfile.ZipFile(path).read("archive/data.pkl").decode()
print({path.name: read(path) for path in sorted(folder.glob("*.tar"))}, flush=True)
if not any(folder.glob("*.tar")):
    for epoch in range(4):
        save(epoch, best=epoch < 2)
        time.sleep(3)
    time.sleep(60)
"""
"""As timm of 2026 (021a5239, utils/checkpoint_saver.py): hard links to the last file, of which the worst is removed."""


def test_timm_last_and_best_epoch_restored(node, bucket):
    pattern = r"last\.pth\.tar|model_best\.pth\.tar"
    node.job(command=(sys.executable, "-c", TIMM), pattern=pattern)
    agent = node.start()
    node.wait_until(lambda: len(node.steps("checkpoint-uploaded")) >= 4)
    agent.kill()
    agent.wait()
    node.lose()
    node.job(command=(sys.executable, "-c", TIMM), pattern=pattern)
    assert node.run(attempt=2) == 0
    assert node.output()[-1] == "{'last.pth.tar': 'weights of 3', 'model_best.pth.tar': 'weights of 1'}"
    assert not node.events("upload-restarted")


TRAINERS = ROOT / ".venv-trainers" / "bin" / "python"
REAL_LIGHTNING = """
import os, time, warnings
warnings.filterwarnings("ignore")
import torch
import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
OUT = os.environ["SLIPWAY_CHECKPOINT_DIR"]

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).pow(2).mean()
    def validation_step(self, batch, index):
        self.log("val_loss", 0.1 * abs(self.current_epoch - 1) + 0.1)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class Pace(Callback):
    def on_train_epoch_start(self, trainer, module):
        print(f"epoch {trainer.current_epoch} step {trainer.global_step}", flush=True)
        time.sleep(4)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(20, 4)), batch_size=2)
best = ModelCheckpoint(dirpath=OUT, monitor="val_loss", mode="min", save_top_k=1)
last = ModelCheckpoint(dirpath=OUT, save_top_k=0, save_last=True, every_n_train_steps=10)
trainer = pl.Trainer(max_epochs=int(os.environ["EPOCHS"]), callbacks=[best, last, Pace()], logger=False,
                     enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
resume = os.path.join(OUT, "last.ckpt")
trainer.fit(Model(), data, data, ckpt_path=resume if os.path.exists(resume) else None)
print("best", os.path.basename(best.best_model_path), os.path.exists(best.best_model_path), flush=True)
"""
REAL_HF = """
import os, sys, time
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
OUT = os.environ["SLIPWAY_CHECKPOINT_DIR"]

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([9.0]))
    def forward(self, x, labels=None):
        return {"loss": (self.weight - 1.0).pow(2).mean() + 0 * x.mean(), "logits": self.weight.expand(len(x), 1)}

class Pace(TrainerCallback):
    def on_save(self, args, state, control, **_):
        time.sleep(3)

def metrics(prediction):
    # Best at step 10, worse ever after
    return {"score": -abs(trainer.state.global_step - 10)}

rows = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
arguments = TrainingArguments(
    OUT, max_steps=int(os.environ["STEPS"]), save_steps=10, eval_steps=10, eval_strategy="steps", report_to=[],
    load_best_model_at_end=True, metric_for_best_model="score", greater_is_better=True, save_total_limit=3,
    use_cpu=True, learning_rate=0.1, per_device_train_batch_size=4, disable_tqdm=True)
trainer = Trainer(Net(), arguments, train_dataset=rows, eval_dataset=rows, compute_metrics=metrics, callbacks=[Pace()])
trainer.train(resume_from_checkpoint=os.environ["SLIPWAY_RESUME_DIR"] or None)
print("resumed", os.path.basename(os.environ["SLIPWAY_RESUME_DIR"]), flush=True)
best = os.path.basename(trainer.state.best_model_checkpoint)
print("final weight", round(trainer.model.weight.item(), 4), "best", best)
"""


@pytest.mark.trainers
@pytest.mark.slow
class TestRealTrainers:
    def test_lightning_with_best_and_last_callback_loses_no_epoch(self, node, bucket):
        node.job(command=(str(TRAINERS), "-c", REAL_LIGHTNING))
        agent = node.start(EPOCHS="30")
        node.wait_until(lambda: max(node.steps("checkpoint-uploaded"), default=0) >= 50)
        agent.kill()
        agent.wait()
        stored = max(node.steps("checkpoint-uploaded"))
        node.lose()
        assert node.run(attempt=2, EPOCHS=str(stored // 10 + 2)) == 0
        begun = [line for line in node.output() if line.startswith("epoch ")]
        assert f"epoch {stored // 10} step {stored}" in begun
        assert node.output()[-1] == "best epoch=1-step=20.ckpt True"

    def test_transformers_with_load_best_model_at_end_loads_best(self, node, bucket):
        node.job(command=(str(TRAINERS), "-c", REAL_HF))
        assert node.run(STEPS="10") == 0
        best = node.output()[-1].split()[2]
        node.lose()
        agent = node.start(attempt=2, STEPS="60")
        node.wait_until(lambda: max(node.steps("checkpoint-uploaded", 2), default=0) >= 20)
        agent.kill()
        agent.wait()
        node.lose()
        assert node.run(attempt=3, STEPS="60") == 0
        assert node.output()[-2].startswith("resumed checkpoint-")
        assert node.output()[-1] == f"final weight {best} best checkpoint-10"
