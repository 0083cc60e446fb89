"""A trainer of a few minutes on the standard library alone: it counts, saves, leaves on a notice, and goes on."""

import json
import os
import signal
import time
from pathlib import Path

STEPS, SECONDS, EVERY = 60, 2.0, 10


def save(folder, step):
    """A whole checkpoint: it appears under its name when it is finished."""
    new = folder / f".step-{step}"
    new.mkdir(parents=True, exist_ok=True)
    (new / "state.json").write_text(json.dumps({"step": step}))
    new.rename(folder / f"step-{step}")


def main():
    """Count from where the last checkpoint ended; the first rank alone saves and reports."""
    notice = []
    signal.signal(signal.SIGUSR1, lambda *_: notice.append(True))
    folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ.get("SLIPWAY_RESUME_DIR")
    first = json.loads((Path(resume) / "state.json").read_text())["step"] if resume else 0
    leads = os.environ.get("SLURM_PROCID", "0") == "0"
    print(f"from step {first}", flush=True)
    for step in range(first + 1, STEPS + 1):
        time.sleep(SECONDS)
        if leads and "SLIPWAY_METRICS" in os.environ:
            with Path(os.environ["SLIPWAY_METRICS"]).open("a") as metrics:
                metrics.write(json.dumps({"step": step, "steps": STEPS, "seconds": SECONDS}) + "\n")
        if leads and (step % EVERY == 0 or notice):
            save(folder, step)
        if notice:
            raise SystemExit(1)
    print("done", flush=True)


if __name__ == "__main__":
    main()
