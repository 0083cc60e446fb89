"""Trainers of several nodes."""

RANK = """
import os, shutil, signal, sys, time
from pathlib import Path
rank, steps, pause = os.environ["SLURM_NODEID"], int(sys.argv[1]), float(sys.argv[2])
words = sys.argv[3:]
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
first = 1
if resume:
    names = sorted(path.name for path in Path(resume).iterdir())
    first = int(resume.rpartition("-")[2]) + 1
    print("found", *names, "own", Path(resume, "same-name").read_text(), "step", first - 1, flush=True)
for step in range(first, steps + 1):
    time.sleep(pause + (2 if f"slow-{rank}" in words else 0))
    while "paced" in words and step > first and not Path(os.environ["SLIPWAY_METRICS"]).with_name("go-on").exists():
        time.sleep(0.05)
    if f"fail-{rank}" in words:
        sys.exit(3)
    if "together" in words:
        left = Path(os.environ["SLIPWAY_METRICS"]).with_name("left")
        if stop or left.exists():
            left.touch()
            sys.exit(85)
        continue
    if f"skip-{rank}-{step}" in words or ({"only-0", "only-1"} & {*words} - {f"only-{rank}"}):
        if stop:
            sys.exit(85)
        continue
    partial = folder / f"tmp-{step}"
    partial.mkdir(exist_ok=True)  # a later attempt finds what an earlier one left
    if f"torn-{rank}" in words:
        (partial / "half").write_text("")
        continue
    (partial / f"shard-{rank}").write_text(f"{rank} {step}")
    (partial / f"base-{rank}").write_text(rank * 1000)
    (partial / "same-name").write_text(rank)
    partial.rename(folder / f"step-{step}")
    if "rotate" in words and rank == "0":
        for old in folder.glob("step-*"):
            if int(old.name[5:]) < step - 1:
                shutil.rmtree(old)
    if f"change-{rank}-{step}" in words:
        time.sleep(1.2)
        (folder / f"step-{step}" / f"shard-{rank}").write_text("other")
    print("step", step, flush=True)
    with open(os.environ["SLIPWAY_METRICS"], "a") as file:
        file.write('{"step": %d}\\n' % step)
    if stop and step >= int(Path(os.environ["SLIPWAY_METRICS"]).with_name("stop-at").read_text() or 0):
        sys.exit(85)
if "hang" in words:
    time.sleep(600)
"""


def codes(agents):
    return [agent.wait(timeout=90) for agent in agents]
