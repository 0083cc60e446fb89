"""The training-time estimate, and the facts behind it."""

from collections.abc import Mapping
from dataclasses import field

from launcher.model.measurement import Measurement
from launcher.model.money import Assumption, Range
from launcher.model.record import record


@record
class TrainingEstimate:
    """The training speed and duration of a job on a number of chips."""

    # The steady rate of all chips together; the slow rate gives the high hours.
    tokens_per_s: Range
    # The share of the chips' dense bf16 peak that the model's own FLOPs use (6N + 12 L h s per token, as it is
    # published).
    mfu: Range
    # Tokens over `tokens_per_s`.
    steady_hours: Range
    # With evaluation, data and checkpoint stalls, failures and restarts, and on Neuron the first compilation; without
    # spot interruptions.
    expected_hours: Range
    # One checkpoint, in units of 1e9 bytes.
    checkpoint_gb: float
    # The time that the job waits to write it.
    checkpoint_write_s: Range
    assumptions: tuple[Assumption, ...] = ()


@record
class Constant:
    """One number with its range, unit and source; `note` explains the judgement. low <= mid <= high."""

    low: float
    mid: float
    high: float
    unit: str
    source: str
    as_of: str
    note: str = ""

    @property
    def range(self) -> Range:
        """The three values."""
        return Range(low=self.low, mid=self.mid, high=self.high)


@record
class ChipTraits:
    """The estimator's facts about a chip in addition to its peak and memory."""

    name: str
    # A part of the accelerator's lower-case name.
    match: str
    # The network between nodes, Gbit/s per chip.
    gbps_per_chip: float
    # Whether it is a power-capped PCIe card.
    inference_card: bool
    # Whether its NVLink reaches beyond the node.
    rack_scale: bool
    # The numbers of calibration rows measured on the chip, by class of job.
    rows: Mapping[str, int]
    source: str
    # How a published run with LoRA or QLoRA differs from the estimate, where it makes the range wide.
    adapter_report: str = ""


@record
class Spread:
    """How far published figures are from the estimate in a class of jobs: the scale of log(published / estimate).

    `sources` published the `rows`; where they are few, the scale is at least the spread between them.
    """

    name: str
    scale: float
    rows: int
    sources: int


@record
class PublishedBatch:
    """The largest batch, tokens per step, of published runs on models of at least so many billion parameters."""

    moe: bool
    min_params_b: float
    tokens: float
    source: str
    as_of: str


@record(eq=False)
class TrainingFacts:
    """The fitted and sourced numbers behind every training estimate; created once by the catalog."""

    # By the name of their term (`launcher.planning.utilisation.TERMS`).
    coefficients: Mapping[str, float]
    run_framework: float
    run_tuned: float
    # By class of job.
    spreads: Mapping[str, Spread]
    run_scale: float
    # Scales from the estimate to its 10th and to its 90th percentile.
    quantile: float
    chips: tuple[ChipTraits, ...]
    constants: Mapping[str, Constant]
    fitted_on: str
    fitted_rows: int
    fitted_families: int
    batches: tuple[PublishedBatch, ...] = ()
    # The number of rows measured on each family of AWS instances ("p5"), by class of job.
    instance_rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # The user's own runs.
    measured: tuple[Measurement, ...] = ()

    def largest_batch(self, params_b: float, *, moe: bool) -> PublishedBatch | None:
        """The largest batch of published runs of a model's size; None if unknown."""
        known = [batch for batch in self.batches if batch.moe is moe and batch.min_params_b <= params_b]
        return max(known, key=lambda batch: batch.min_params_b, default=None)
