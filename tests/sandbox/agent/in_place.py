"""A trainer that writes in place, with no marker, and saves at a signal: its name and how it leaves are given."""

TRAINER = """
import os, signal, sys, time
from pathlib import Path
step, saving, leaving = 0, [], sys.argv[2]
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step = int(resume.rpartition("-")[2]) if resume else 0
print(f"start {step}", flush=True)

def save(name):
    place = folder / f"checkpoint-{name}"
    place.mkdir(exist_ok=True)
    for part in ("model", "optimizer", "trainer"):
        (place / part).write_text(f"{part} at {name}")
        time.sleep(0.1)

signal.signal(signal.SIGUSR1, signal.SIG_IGN)
if sys.argv[1] != "none":
    signal.signal(getattr(signal, sys.argv[1]), lambda *_: saving.append(1))
while step < 400:
    step += 1
    time.sleep(0.05)
    if step == 5:
        save(step)
    if saving:
        if leaving == "late":
            time.sleep(11)
        save(step)
        print(f"SAVED AT {step}", flush=True)
        sys.exit(1 if leaving == "1" else 0)
"""
