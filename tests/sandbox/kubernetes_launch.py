"""A launch on Kubernetes in the sandbox that loses a node."""

import hashlib
from datetime import UTC, datetime

from launcher.model.report import RunStatus
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions

STEPS = 300
TRAINER = """
import hashlib, os, signal, sys, time
from pathlib import Path
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
part, steps = os.environ["SLIPWAY_PART"], int(sys.argv[1])
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
step, state = 0, b""
if resume:
    step, state = int(resume.rpartition("-")[2]), Path(resume, "state").read_bytes()
print(f"begins at {step}", flush=True)
while step < steps:
    time.sleep(0.05)
    step += 1
    state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    if step % 20 == 0 or step == steps or stop:
        partial = folder / f"tmp-{step}"
        partial.mkdir(exist_ok=True)
        (partial / "state").write_bytes(state)
        partial.rename(folder / f"step-{step}")
    with open(os.environ["SLIPWAY_METRICS"], "a") as metrics:
        print('{"step": %d, "steps": %d}' % (step, steps), file=metrics)
    if stop:
        sys.exit(85)
print(f"ends with {state.hex()}", flush=True)
"""


def run_undisturbed() -> str:
    """The result of the first pod's uninterrupted run."""
    state = b""
    for step in range(1, STEPS + 1):
        state = hashlib.sha256(state + f"0 {step}".encode()).digest()
    return state.hex()


def launched(folder, plan):
    """Run a launch that loses a node, to its end; return the run's folder and its report."""
    (folder / "plan.yaml").write_text(plan)
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text(TRAINER)
    priced = price(folder / "plan.yaml", datetime.now(UTC), PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    messages = []
    options = LaunchOptions(
        root=folder,
        sandbox=True,
        interrupt_after_s=0.5,
        notify=messages.append,
        progress=lambda now: messages.append(str(now)),
        scheduler="local",
    )
    run, report = launch_quote(priced, rank, quoted, options)
    assert (report.status, report.scheduler, report.simulated) == (RunStatus.SUCCEEDED, "kubernetes", True)
    first, *_, last = report.attempts
    assert first.ended_by == "spot-interruption"
    assert 0 < last.resumed_from_step < STEPS == last.last_step
    log = (run.logs / f"attempt-{len(report.attempts)}.log").read_text()
    assert f"ends with {run_undisturbed()}" in log
    assert f"begins at {last.resumed_from_step}" in log
    assert any("EC2 reclaims ip-10-0-" in line for line in messages)
    # The API is asked when the control plane is there, before the nodes.
    steps = ("control plane first", "requesting the API of slipway-", "read back and as planned")
    told_at = [next(index for index, line in enumerate(messages) if step in line) for step in steps]
    assert told_at == sorted(told_at)
    return run, report
