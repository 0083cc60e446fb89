"""A trainer of a few minutes on the standard library alone: it counts, saves, leaves on a notice, and goes on."""

import json
import os
import signal
import time
from pathlib import Path

STEPS, SECONDS, EVERY = 60, 2.0, 10
notice = []
signal.signal(signal.SIGUSR1, lambda *_: notice.append(True))

folder = Path(os.environ.get("SLIPWAY_CHECKPOINT_DIR", "checkpoints"))
resume = os.environ.get("SLIPWAY_RESUME_DIR")
first = json.loads((Path(resume) / "state.json").read_text())["step"] if resume else 0
leader = os.environ.get("SLURM_PROCID", "0") == "0"


def save(step):
    """A whole checkpoint: it appears under its name when it is finished."""
    if leader:
        new = folder / f".step-{step}"
        new.mkdir(parents=True, exist_ok=True)
        (new / "state.json").write_text(json.dumps({"step": step}))
        new.rename(folder / f"step-{step}")


print(f"from step {first}", flush=True)
for step in range(first + 1, STEPS + 1):
    time.sleep(SECONDS)
    if leader and "SLIPWAY_METRICS" in os.environ:
        with Path(os.environ["SLIPWAY_METRICS"]).open("a") as metrics:
            metrics.write(json.dumps({"step": step, "steps": STEPS, "seconds": SECONDS}) + "\n")
    if step % EVERY == 0 or notice:
        save(step)
    if notice:
        raise SystemExit(1)
print("done", flush=True)
