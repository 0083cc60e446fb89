"""A trainer to kill, and the bucket of its checkpoints."""

import json
import shlex
from hashlib import sha256
from pathlib import PurePath

from launcher.agent.manifest import parse

TRAINER = """
import hashlib, json, os, re, shutil, sys, time
from pathlib import Path
steps, pause, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
layout = sys.argv[4] if len(sys.argv) > 4 else "slipway"
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
content = lambda step, size: f"{step} {size} ".encode() + hashlib.shake_256(str(step).encode()).digest(size)
names = {"deepspeed": "global_step{}", "hf": "checkpoint-{}", "lightning": "epoch=0-step={}.ckpt", "orbax": "{}",
         "best": "checkpoint-{}", "fixed": "ckpt.pt", "megatron": "iter_{:07}", "last": "last.ckpt"}
alone = ("lightning", "fixed", "last")  # one file
name = names.get(layout, "step-{}").format
step, data = 0, None
if layout in alone:
    resume = os.environ["SLIPWAY_RESUME_FILE"]
if resume and layout == "deepspeed":
    resume = f"{resume}/{Path(resume, 'latest').read_text()}"
if resume and layout == "megatron":
    resume += "/" + name(int(Path(resume, "latest_checkpointed_iteration.txt").read_text()))
if resume and layout == "orbax":
    resume = f"{resume}/{max(int(each) for each in os.listdir(resume) if each.isdigit())}"
def whole(path):
    data = path.read_bytes()
    found, length = (int(word) for word in data.split(b" ", 2)[:2])
    assert data in (content(found, length), content(found, length).swapcase()), "torn"
    return found
if resume:
    data = Path(resume) if layout in alone else Path(resume, "data")
    step = whole(data)
    assert layout in ("fixed", "last") or step == int(re.search(r"(\\d+)(.ckpt)?$", resume)[1]), "another step"
    assert layout in alone or Path(resume, "base").read_bytes() == content(0, 5000), "torn"
    state = json.loads(Path(resume, "trainer_state.json").read_text()) if layout == "best" else {}
    named = state.get("best_model_checkpoint")
    if named and (folder / Path(named).name).exists():  # of a killed agent's node it may have been removed
        assert whole(folder / Path(named).name / "data") == int(named.rpartition("-")[2]), "torn"
while step < steps:
    time.sleep(pause)
    step += 1
    final = folder / name(step)
    data = final if layout in alone else final / "data"
    if layout == "lightning":
        for each in (final, folder / "last.ckpt"):
            Path("partial").write_bytes(content(step, size))
            Path("partial").rename(each)
        continue
    if layout == "last":
        both = {final: content(step, size)}
        if step % 3 == 0:
            both = {folder / f"epoch={step // 3}-step={step}.ckpt": content(step, size).swapcase()} | both
        for each, written in both.items():
            with each.open("wb", buffering=0) as file:
                for part in (written[: size // 2], written[size // 2 :]):
                    assert file.write(part) == len(part), "disk full"  # an unbuffered write may write a part
                    time.sleep(0.3)
        time.sleep(10.5)
        continue
    if layout == "fixed":
        Path("partial").write_bytes(content(step, size))
        Path("partial").rename(final)
        time.sleep(4)
        continue
    partials = {"orbax": f"{step}.orbax-checkpoint-tmp", "slipway": f"tmp-{step}", "again": f"tmp-{step}"}
    partial = folder / partials.get(layout, final.name)
    partial.mkdir(exist_ok=True)
    (partial / "data").write_bytes(content(step, size))
    (partial / "base").write_bytes(content(0, 5000))
    if partial != final:
        partial.rename(final)
    elif layout == "hf":
        (final / "trainer_state.json").write_text("{}")
    elif layout == "dcp":
        (final / ".metadata").write_bytes(b"")
    elif layout == "megatron":
        (folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    elif layout == "best":
        best = step - step % 3
        named = f"elsewhere/checkpoint-{best}" if best and (folder / f"checkpoint-{best}").exists() else None
        (final / "trainer_state.json").write_text(json.dumps({"best_model_checkpoint": named}))
        time.sleep(1.5)  # a trainer evaluates before it removes what it no longer needs
        for each in folder.glob("checkpoint-*"):
            if int(each.name[11:]) < step - 2 and int(each.name[11:]) != best:
                shutil.rmtree(each)
    elif layout != "again":
        (folder / "latest").write_text(final.name)
    if layout == "again" and step % 2:
        # Written once more: other content, the same size and the same times
        status = (final / "data").stat()
        (final / "data").write_bytes(content(step, size).swapcase())
        os.utime(final / "data", ns=(status.st_atime_ns, status.st_mtime_ns))
print("finished", step, hashlib.sha256(data.read_bytes()).hexdigest(), flush=True)
"""


WRAPPED = 0.25
"""The share of attempts whose trainer runs beside a monitor in a shell."""


def beside_a_monitor(command, rng):
    """The command, now and then beside a monitor in a shell."""
    return ("bash", "-c", f"sleep 600 & {shlex.join(command)}; kill %1") if rng.random() < WRAPPED else command


def finished(lines):
    """The digests of the last checkpoints of the trainers that came to their end, by their own word."""
    return [line.split()[2] for line in lines if line.startswith("finished ")]


def step_of(content):
    """The step that the trainer wrote into a checkpoint."""
    return int(content.split(b" ", 1)[0])


class Bucket:
    """The checkpoints by the content of their objects; each object is read once, as no key is ever written twice."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.digests = {}

    def digest(self, key):
        if key not in self.digests:
            self.digests[key] = sha256(self.bucket.read(key)).hexdigest()
        return self.digests[key]

    def content_of(self, manifest):
        """What the trainer wrote: of a set, the checkpoint that counts."""
        names = {manifest.main, f"{manifest.main}/data" if manifest.main else "data"}
        (key,) = (file.key for file in manifest.files if file.path in names or len(manifest.files) == 1)
        return self.bucket.read(key)

    def check_best(self, manifest):
        """What a committed checkpoint names as the best model was committed with it."""
        states = [file.key for file in manifest.files if PurePath(file.path).name == "trainer_state.json"]
        named = {json.loads(self.bucket.read(key)).get("best_model_checkpoint") for key in states} - {None}
        for best in map(PurePath, named):
            inside = any(file.path.startswith(f"{best.name}/") for file in manifest.files)
            own = best.name in {manifest.main, manifest.folder}
            assert own or inside, f"step {manifest.step} was committed without {best.name}"

    def whole(self):
        keys = set(self.bucket.keys())
        commits = [key for key in keys if key.endswith("/manifest.json")]
        manifests = [parse(self.bucket.read(key).decode()) for key in commits]
        for manifest in manifests:
            for file in manifest.files:
                assert file.key in keys, f"step {manifest.step} was committed and {file.path} is not there"
                assert self.digest(file.key) == file.sha256, f"step {manifest.step} was committed and is torn"
            self.check_best(manifest)
        return {manifest.step: manifest for manifest in manifests}
