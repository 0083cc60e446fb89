"""The measurement of a run: the rate of a training job, and the times around the job."""

from datetime import datetime

from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.money import Range
from launcher.model.record import record

MEASUREMENTS = "measurements.jsonl"
"""The file that keeps the measured runs of a folder, one a line."""


@record
class Measurement:
    """One measured run of a training job; what was not reported is None."""

    # The plan's name of the model, and its billions of parameters: all, and those that a token uses.
    model: str
    params_b: float
    active_params_b: float
    method: Method
    precision: Precision
    recompute: Recompute
    stack: Stack
    sequence_length: int
    global_batch_tokens: float | None
    instance_type: str
    accelerator: str
    # The chips of all nodes.
    accelerators: int
    nodes: int
    # Their joint rate after warm-up: the middle over all measured time, low and high over single intervals. None
    # for a trainer that counts samples.
    tokens_per_s: Range | None
    # Seconds of a step.
    step_s: float | None
    # Seconds that the job waited for a checkpoint, to read one back, and from the submission to the first attempt.
    checkpoint_write_s: float | None
    restore_s: float | None
    boot_s: float | None
    run: str
    image: str | None
    # The git revision of the code.
    revision: str | None
    measured_at: datetime
    # From the sandbox: it does not measure the hardware.
    simulated: bool
    # What identifies the capacity.
    region: str | None = None
    purchase_option: str | None = None
    target: str | None = None
    # The hours of all attempts.
    running_h: float | None = None
    # Seconds from the loss of nodes to the next attempt with its checkpoint read back.
    restart_s: float | None = None
    # Hours that a node stayed after the job, None until known; and those that a quote without any run assumes on
    # this target, None if nothing could be learned.
    idle_tail_h: float | None = None
    idle_tail_assumed_h: float | None = None
    # Seconds before the first steps, beyond their own time.
    compile_s: float | None = None
    # The peak memory of a chip that the trainer reports.
    memory_gib: float | None = None
    # The attempts that ended because nodes were lost, and the restarts of `restart_s`.
    interruptions: int | None = None
    restarts: int | None = None
    # Seconds of a step over single intervals.
    step_range_s: Range | None = None
    # The rate's share of the chips' dense bf16 peak.
    mfu: Range | None = None
    # The degrees that the trainer reported.
    parallelism: tuple[tuple[str, int], ...] | None = None
    # Versions by name: those that the trainer reports, and the driver that the agent found.
    software: tuple[tuple[str, str], ...] = ()
    # The rate of a trainer that counts samples instead of tokens.
    samples_per_s: Range | None = None

    @property
    def rate(self) -> Range:
        """The joint rate in tokens per second, or in samples of a trainer that counts no tokens."""
        rate = self.tokens_per_s or self.samples_per_s
        if rate is None:
            raise ValueError(f"{self.run} has no rate")
        return rate
