"""The measurement of a run: the rate of a training job, and the times around the job."""

from datetime import datetime

from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.money import Range
from launcher.model.record import record


@record
class Measurement:
    """One measured run of a training job.

    `model` is the plan's name of the model; `params_b` and `active_params_b` are billions of parameters.
    `accelerators` are the chips of all nodes, `tokens_per_s` their joint rate after warm-up: the middle over all
    measured time, low and high over single intervals. A trainer that counts samples instead of tokens has
    `samples_per_s`, and no tokens. Seconds: `step_s` of a step, within `step_range_s` over single
    intervals; `compile_s` before the first steps, beyond their own time; `checkpoint_write_s` that the job waited for a
    checkpoint, `restore_s` to read one back, `boot_s` from the submission to the first attempt; None if not reported.
    `running_h` are the hours of all attempts, `interruptions` the attempts that ended because nodes were lost,
    `restart_s` seconds from such an end to the next attempt with its checkpoint read back, over `restarts` of them; the
    region and the purchase option identify the capacity. `idle_tail_h` are the hours that a node stayed after the job,
    None until known; `idle_tail_assumed_h` those that a quote without any run assumes on this `target`, None if nothing
    could be learned. `memory_gib` is the peak memory of a chip that the trainer reports. `mfu` is the rate's share of
    the chips' dense bf16 peak. `parallelism` has the degrees that the trainer reported, None if it reported none;
    `software` has versions by name: those that the trainer reports, and the driver that the agent found. `revision` is
    the git revision of the code. A `simulated` measurement is from the sandbox and does not measure the hardware.
    """

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
    accelerators: int
    nodes: int
    tokens_per_s: Range | None
    step_s: float | None
    checkpoint_write_s: float | None
    restore_s: float | None
    boot_s: float | None
    run: str
    image: str | None
    revision: str | None
    measured_at: datetime
    simulated: bool
    region: str | None = None
    purchase_option: str | None = None
    target: str | None = None
    running_h: float | None = None
    restart_s: float | None = None
    idle_tail_h: float | None = None
    idle_tail_assumed_h: float | None = None
    compile_s: float | None = None
    memory_gib: float | None = None
    interruptions: int | None = None
    restarts: int | None = None
    step_range_s: Range | None = None
    mfu: Range | None = None
    parallelism: tuple[tuple[str, int], ...] | None = None
    software: tuple[tuple[str, str], ...] = ()
    samples_per_s: Range | None = None

    @property
    def rate(self) -> Range:
        """The joint rate in tokens per second, or in samples of a trainer that counts no tokens."""
        rate = self.tokens_per_s or self.samples_per_s
        if rate is None:
            raise ValueError(f"{self.run} has no rate")
        return rate
