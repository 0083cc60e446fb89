"""The difference between training estimates and published runs.

    python -m benchmarks.accuracy [FILE] [--json]

FILE has the columns of launcher/catalog/data/training/runs.csv, which is the default. Without --json, the result is
written to its section of docs/accuracy.md and a summary is printed; with it, nothing is written and one object is
printed:

    n                      rows
    within_25, within_50   share of rows whose published figure is within 0.8-1.25, or 1.5x, of the estimate
    covered                share whose published figure lies inside the low-high range
    median_width           median of high / low of that range; p90_width its 90th percentile
    by_accelerator         the same figures for each label of the accelerator column
    by_class               the same figures for each class of job
    whole_runs             the same figures for hours of whole runs, against expected hours; the rest is steady rates
    leave_one_family_out   the same figures with coefficients fitted without each row's source family

Shares are fractions. Exit codes: 0, or 2 if the file is invalid.
"""

import argparse
import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import fit_training
from benchmarks.report_sections import replace_section
from benchmarks.training_rows import Row, RowsError, read_rows
from launcher.catalog.training import FURTHER_RUNS, JUDGED_RUNS, LATER_RUNS, RUNS, facts_from, load_training
from launcher.model.enums import Method, Stack
from launcher.model.money import Range
from launcher.model.training import TrainingFacts
from launcher.planning import duration, flops, throughput
from launcher.records.measurements import load_measurements

REPORT = Path(__file__).parent.parent / "docs" / "accuracy.md"
SECTION = "training"
CLASSES = (
    "dense pretraining",
    "dense fine-tuning",
    "LoRA, tuned stack",
    "LoRA and QLoRA, framework",
    "Hugging Face",
    "mixture of experts",
)
SHARES = ("within_25", "within_50", "covered")
NEAR, FAR = 1.25, 1.5
FOLDS = 5
"""Parts of the shipped rows, of which one at a time is held out."""
UNREADABLE = 2
WORST = 15
HOW_TO_READ = """\
Each row is estimated from the keys of a plan file: dimensions, method, tokens, sequence length, batch, precision,
recomputation, stack, accelerator type and count. Steady throughput is compared with `tokens_per_s`, and the hours of
whole runs with `expected_hours`.

- **within 0.8-1.25, within 1.5x**: the share of rows whose published figure lies within this factor of the middle
  estimate.
- **in the range**: the share of rows whose published figure lies in the low-high range.
- **average source**: the mean over the sources of the share of a source's rows. A new plan is a new source, so its
  share in the range is the one to compare with 80 %. The number of sources says how exact the share is.
- **width**: the high estimate divided by the low estimate.
- **left out**, and the tables by class and by instance: coefficients and spreads are fitted without any row of the
  same source.
- **held out**: a fifth of the rows at a time is left out, and the fit has other rows of their sources: a job like those
  that its source has published before.
- **unseen**: the rows of further_runs.csv and later_runs.csv, with a fit on runs.csv alone.
- **never fitted**: the rows of judged_runs.csv, with the shipped coefficients.

A range is from the 10th to the 90th percentile. The form of the estimate and the weights of the fit were chosen with
the fitted rows in view. Only rows collected later can test them: the first two tables are made of such rows. The 5 ms
of kernel launches and the 8 ps of 4-bit expansion come from the Qwen rows. For hybrid models, only layers with
attention count as layers. Rows that a newer recipe of the same configuration, or a larger micro-batch of the same
layout, supersedes (`superseded_by`) are neither fitted nor compared. MLPerf rows contain the training blocks without
evaluation.

The rows that no fit has used were found on 2026-11-29 and 2026-11-30. They only judge the fit. The terms of mixtures
were chosen with all but the newest 28 in view. Most of the first 109 are of NVIDIA's recipes for DGX Cloud, which are
one source here, and which alone have full fine-tuning and LoRA on a tuned stack among these rows. Its mixtures with few
large experts (Grok-1, Llama 4 Maverick) run up to 1.8 times as fast as the estimate. DeepSeek-V3 on GB200 runs at a
third of the estimate with a recipe of 2025: a later recipe of the same vendor is 3.3 times as fast. ESM-2 with 150
million parameters on g5.12xlarge is 1.4 to 2.4 times slower than estimated: the fitted rows have no encoder on GPUs.

The next 52 rows are of 12 sources, 4 of them known to the fit, with p6-b300 (5 rows), p5en (3), trn2 (4) and g5 (7)
among them. The last 33 rows are full fine-tuning on one node of the chips of p6-b300 (32, all of one source, which
compares eight trainers on cards of an unnamed cloud) and of p6-b200 (1). The estimate is worse on these rows than on
those that it was fitted on, in these places:

- LoRA on one chip of trn2 (Qwen3.5-4B) runs at a tenth to a twentieth of the estimate. The source trains with a young
  PyTorch backend, reaches 1.6 to 3.5 % of the chip's peak and says that the chip can do far more. No plan key tells
  such a run from another one, and the fitted rows have no LoRA on Trainium: the range there is as wide as the distance
  of this one source from the estimate, and a quote warns of it.
- Models of 0.4 to 1.5B on g5.8xlarge: one trains up to 1.4 times as fast as estimated, two take 1.4 to 1.6 times the
  estimated time. LoRA of 8B on g5.12xlarge takes twice the time. No fitted row is on g5, and a quote there says so.
- Tensor parallelism on stacks of PyTorch (torchtitan, ATorch) costs more than FSDP of the same sources, which agrees
  with the estimate. A plan that states `workload.train.tensor_parallel` is estimated at 1.4 times the time: ATorch with
  Llama 2 7B, torchtitan with Llama 3 8B and 405B, and the whole run of Falcon2 11B are within 1.15x with it. The
  user's attempts on H200 with experts cut as well take 3 and 6 times as long as that, Qwen3 32B takes 1.3 times, and
  torchtitan's 70B takes 0.75 to 0.85. The fit does not have the factor: 7 of its rows state such a layout, StarCoder's
  among them, which names no trainer and counts as PyTorch here (its authors' code is a fork of Megatron-LM).
- Sequences of one million tokens (TRL with context parallelism on 8 H100) train an 8B model twice as fast as
  estimated.
- Dense models of 4 and 8B on one B300, by a trainer on Transformers 5 with current attention and fused kernels, train
  1.4 to 2.3 times as fast as estimated for Hugging Face trainers, at 2,048 as at 32,768 tokens. The rows of Hugging
  Face trainers in the fit are of older chips and kernels. Transformers with FSDP2 on 8 B200 agrees with the estimate.
- Mixtures of 26B on two B300 with 2,048 or 16,384 tokens per chip and step: six trainers take 0.7 to 6.4 times the
  estimated time, each in its fastest configuration, because a step is too short to hide the optimizer and the
  launches. Of the mixtures on 8 B300 with 4,096 tokens and more, 11 of 13 are in the range.

The newest 22 rows are of Hugging Face trainers (7) and of mixtures (15), of 6 sources, 5 of them new. TRL trains
Qwen3-30B-A3B on 2, 4 and 8 nodes of p5 with 16,384 to one million tokens, with tuned kernels. These rows run 2 to 4.5
times as fast as the estimate was before them. Attention, which has no routing, is most of their work: beyond the share
that the mixtures of the fit have (a third), the terms of mixtures shrink with the rest of the FLOPs. With it, 6 of the
7 rows of TRL's mixture are in the range, at 0.6 to 0.9 of their rate; the seventh, with experts over four nodes, runs
three times as fast as estimated. The form was chosen with these rows in view; no estimate with a smaller share of
attention moves, and no coefficient. The range of Hugging Face trainers was widened by the 20 rows of 7 sources found
before: it had held 59 % of the average source. The 7 rows found after them are of one source: LoRA of 8B on one H100,
with 1,024 tokens as with 69, agrees with the estimate, and LoRA of 0.5B with 105 tokens trains twice as fast. Users'
first runs of Megatron-Core with Qwen3-30B-A3B reach a half (H100) and a third (B200) of the estimate of a tuned stack.
No figure was found for one p5 node with an ordinary framework, nor for g6e.

The latest 58 rows are of five sources that are new to the fit. These are their shares at first look, before anything
was changed:

- 30 rows of Hugging Face trainers (Unsloth with LoRA and QLoRA, 0.6 to 32B, on one H100, H200 and B200): 80 % within
  0.8-1.25, and all within 1.5x. Models of 0.6 and 1.7B wait for kernel launches there too, as estimated.
- 10 rows of LoRA with a compiled engine of the same source on H100: 60, 80 and 80 %. The two of 0.6B run at a half of
  the estimate.
- 6 rows of full fine-tuning with prime-rl (FSDP2, torch.compile, full recomputation): none within 0.8-1.25, two within
  1.5x, three in the range. They take 1.3 to 2.2 times the estimated time, the longest on B200, which FlashAttention 2
  does not fill.
- 12 rows of mixtures (prime-rl, torchtitan on H200 by a user, Marin and Megatron-LM on GB200, Megatron-LM's recipes on
  B200 and B300): 17, 50 and 83 %. Ordinary frameworks take 1.3 to 1.6 times the estimated time. With experts and
  matrices cut by tensor parallelism, which the estimate did not know then, the user's first two attempts take 4 and 9
  times as long. A router that learns
  takes 2.2 times as long as one with forced balance, in the same layout: no plan states the balance of its experts.

Three more rows are of AWS's own samples for Llama, with Hugging Face trainers that share the weights among cards
without NVLink (FSDP). LoRA of 8B on g5.12xlarge, in steps of 1,024 tokens a card, takes 4.6 and 4.8 times the estimated
time: its log shows 3.8 s for a forward pass alone, in which 12 GB reach each card at 3.2 GB/s. The model fits one card,
and no key of a plan says that a trainer shares its weights nevertheless. QLoRA of 70B on g6e.48xlarge, which needs
several cards and offloads as well, takes 1.6 times the time and is in the range. The estimate has no term for this
wait, which larger micro-steps hide; `slipway spike` measures it.

The newest 28 rows are of six sources that are new to the fit, and were estimated once, after the terms of mixtures were
final. Dense pretraining (19): 79, 84 and 84 %; with pipeline stages and without compilation, three take twice the
estimated time. Mixtures (9): 44, 67 and 67 %, 3.4 wide, where the terms before had 44, 67 and 78 %, 3.6 wide: no gain
here. The three beyond 1.5x are of one trainer that does not compile them, and take up to 12 times the estimated time.

The aims of these tables are, within 0.8-1.25, within 1.5x, in the range and width: 85, 95, 80 % and 1.7 for dense
pretraining of known sources; 40, 75, 80 % and 3 for new ones; 60, 88, 80 % and 2.2 for LoRA on a tuned stack; 40, 75,
80 % and 3.6 for Hugging Face trainers; 45, 75, 80 % and 3.5 for mixtures. For jobs like those that a source has
published before (held out), Hugging Face trainers and mixtures reach theirs, LoRA reaches the shares with a range 2.23
wide, and dense pretraining misses its first share by 2 points. The known sources among the rows that no fit has used
are not such jobs: they have chips, layouts and encoders that the same source had not published before. Mixtures of new
sources miss theirs: a recipe moves a mixture by 2 to 4 times, and no key of a plan says which one a user has.

The 13 rows farthest from the estimate were read again at their sources on 2026-11-30, and their figures stand. Eleven
of the judging rows are of public texts whose repository is not known (the families trn1-record, trn2-qwen35,
neuron-gpu-comparison and titan-h200): nobody can look them up, so no fit uses them.

Published figures that are not in the data, because the page does not state what a row needs, or contradicts itself:
Llama 2 13B with NeMo on trn1 (almost the same rate on 16 and on 32 nodes), AWS's NeMo sample on 4 L40S (the length of
its data), ESM-1nv on p4de (the length), ESM-2 on p5 (4.36 million samples per second), Llama 3 70B on 512 trn1 nodes
(step time and rate disagree), Llama 2 70B with FSDP and Accelerate over EFA (13.5 h with loading, evaluations and
checkpoints), Llama 3 70B with QLoRA on g5.12xlarge (its hours per step and per run disagree), the Stable LM 2 models on
p4d and p5 (no hours), Qwen3 8B on p6-b300 with 8,192 tokens (its TFLOPS and its rates differ by a factor of 2), the
same model on p5en with streamed data (the chips wait for it), LoRA of 8B on trn1 beside the run on g5.12xlarge (its
steps and samples contradict its layout), LoRA with ATorch (its FLOPs are not defined), two reports of torchtitan on
B200 (no model, or no length), AWS's guide to training on p6-b200 (rates in a chart, of a model without dimensions), the
27B run on 8 B300 of Databricks (no rate), LoRA of 9B and 27B on B200 (no tokens per step), the configurations of trn2
that use less than a chip, mixtures at 16,384 to 131,072 tokens in TFLOP/s alone (how attention is counted is not
stated), DeepSeek-V3 and GPT-OSS on B200 with torchtitan (no length), Qwen3-30B-A3B with NeMo-RL on H200 (tokens of its
padded batches), AWS's run of the same 70B on SageMaker (samples of unknown length), the reinforcement learning runs of
prime-rl (two passes more than a fine-tuning), TRL's mixtures of 30 to 753B with experts over all chips (their step
times are no rates, says the source), Megatron-LM's recipes without a number of chips, and runs on eight H100 without
NVLink, which AWS does not have.

Mixtures of experts on several AWS nodes: the published runs over EFA spread the experts over 16 and 32 chips, in
layouts that their authors call reference layouts. All are of one source, so no source left out confirms the term for
this exchange. With that source left out, the term is physics alone: bytes over the network at 40 % of its rate. No
published run shows how fast a tuned layout, with the experts of a layer within a node, is on EFA: a plan without
`workload.train.expert_parallel` has a range that holds both, and `slipway plan` asks for it.

Dense models whose states do not fit in one node, on nodes with a slower network than the published clusters
(p5.4xlarge, g5, g6 and g6e): no row is known. Their wait for the weights of other nodes is physics: bytes of a
micro-step over 85 % of the network, beside the arithmetic. Two p5.4xlarge train 8B in full at a third of the rate of
two chips in one node, unless the micro-batch is large.

A quote on a family of instances without a row of its kind of job has a wider range, and a finding says so. A range is
also wider if a fine-tuning plan does not set its trainer or its micro-batch. `slipway plan` names the key that narrows
the dollars most, if it narrows them by a fifth or more. Where fewer than five sources of a kind of job are known, the
range is at least as wide as the spread between them, and the quote says so. Both ends are as far from the middle in
logarithms: the share of all sources in the range is 82 %, 11 % are slower than its slow end, and 7 % faster than its
fast one. Mixtures are in the range with 92 % of their rows, because sources with many rows agree with the
estimate, and with 80 % of the average source's.

The rows and rules of this fit were chosen among five combinations by the same left-out sources: with ends of different
length (mixtures in the range with 78 % of the average source, 3.4 wide), with a middle between such ends (73 %, 3.5
wide), and with Student's distribution for the number of sources (82 %, 4.0 wide). Its shares are no test on data that
nobody has seen.

If a plan leaves the batch open, Slipway uses 4 million tokens, or 8,192 tokens per chip if that is more. The maximum is
the largest batch of published runs of a model of that size (`launcher/catalog/data/training/batches.csv`). Beyond that
maximum, more chips share the same batch, and each chip has less work. A larger batch in the plan is estimated as
requested. A finding then shows the time and the dollars at the largest published batch. If 70 to 95 % of a model's
parameters are active, the estimate is a mix of the dense and the mixture estimate.

Long sequences: a source of 2026 with current attention kernels (8B, full fine-tuning, 131,072 tokens, H200 and B200)
trains 2 to 3 times faster than the estimate without it; no other source has rows of such kernels. Its rows of 65,536,
196,608 and 262,144 tokens repeat those of 131,072, so the data have only these. Hugging Face trainers before
Transformers 5 run the experts of a mixture one after another: ms-swift publishes 91 s a step for Qwen3 30B-A3B with
ZeRO-3, and 9.6 s with Megatron-LM on the same 16 A800. The estimate is for newer trainers, so the data do not have the
row. For the same reason, the data lack XTuner's mixtures of 2024 and training_hub's hybrid mixture. Of the
verification cards of Megatron-Bridge, the data have the runs of pretraining that the cards call performance: in all
others, the cards say, a rate only shows that the job works, and it is up to 5 times lower or higher than the estimate.
PaddleNLP's rates of "effective" tokens are left out, because its tables contradict each other and do not say how much
padding a batch has. Logs of AWS's FSDP sample at 32,768 tokens (Mathstral, Mixtral) are not in the data either: with
that many tokens in each sample, the chips would pass their peak.

Whole runs contain a part that no plan states. Llama 3.1 405B is estimated at 1.5 times its published GPU hours: the
steady rates agree (MFU 0.35 estimated, 0.37 over the whole published run), and the rest is the failures of 16,384 chips
(14 %) and the mean overhead of published whole runs (25 %), which those GPU hours do not contain. The GPU hours of
Llama 3 8B, of the same source, contain twice the steady hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One row and its estimate: the published figure and the range, both in tokens/s or both in hours."""

    row: Row
    published: float
    estimate: Range

    @property
    def ratio(self) -> float:
        """Estimated over published."""
        return self.estimate.mid / self.published

    @property
    def width(self) -> float:
        """High over low."""
        return self.estimate.high / self.estimate.low

    @property
    def covered(self) -> bool:
        """Whether the published figure is in the range."""
        return self.estimate.low <= self.published <= self.estimate.high

    def within(self, factor: float) -> bool:
        """Whether estimate and published figure differ by no more than a factor, in either direction."""
        return abs(math.log(self.ratio)) <= math.log(factor)


def outcome(row: Row, facts: TrainingFacts) -> Outcome:
    """The estimate of one row: expected hours for a whole run, steady tokens per second for the rest."""
    if row.tokens is None:
        speed = throughput.rate(row.shape, facts)
        steady = Range(low=speed.tokens_low, mid=speed.tokens_mid, high=speed.tokens_high)
        return Outcome(row=row, published=row.published_tokens_per_s, estimate=steady)
    hours = row.tokens / row.published_tokens_per_s / 3600.0
    return Outcome(row=row, published=hours, estimate=duration.numbers(row.shape, row.tokens, facts).expected_hours)


def job_class(row: Row) -> str:
    """The class of job for a row in the report."""
    shape = row.shape
    pretraining, fine_tuning, tuned, framework, huggingface, mixture = CLASSES
    if shape.moe:
        return mixture
    if shape.stack is Stack.HUGGINGFACE:
        return huggingface
    if shape.trains_adapters:
        return tuned if shape.stack is Stack.TUNED else framework
    return pretraining if shape.method is Method.PRETRAIN else fine_tuning


Groups = Mapping[str, Sequence["Outcome"]]


def of_classes(outcomes: Sequence[Outcome]) -> Groups:
    """The outcomes of each class of job."""
    return {name: [result for result in outcomes if job_class(result.row) == name] for name in CLASSES}


def by_class(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The shares and widths for each class of job."""
    return {name: summary(members) for name, members in of_classes(outcomes).items()}


def of_instances(outcomes: Sequence[Outcome]) -> Groups:
    """The outcomes of each family of AWS instances, and those of other clusters."""
    families = sorted({family for result in outcomes for family in result.row.instances})
    parts = {name: [result for result in outcomes if name in result.row.instances] for name in families}
    return parts | {"other clusters": [result for result in outcomes if not result.row.instances]}


def of_discovery(outcomes: Sequence[Outcome]) -> Groups:
    """The outcomes of each class, for sources that the first two files have and for those found later."""
    late = {row.family for row in read_rows(LATER_RUNS)} - {
        row.family for path in (RUNS, FURTHER_RUNS) for row in read_rows(path)
    }
    parts = {}
    for name, members in of_classes(outcomes).items():
        parts[f"{name}, earlier sources"] = [result for result in members if result.row.family not in late]
        parts[f"{name}, later sources"] = [result for result in members if result.row.family in late]
    return parts


def of_average_source(outcomes: Sequence[Outcome]) -> tuple[int, dict[str, float]]:
    """The number of sources, and the means over them of `SHARES`: a source counts once, however many rows it has."""
    of_source: dict[str, list[Outcome]] = {}
    for result in outcomes:
        of_source.setdefault(result.row.family, []).append(result)
    parts = [summary(members) for members in of_source.values()]
    return len(parts), {key: sum(part[key] for part in parts) / len(parts) for key in SHARES}


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The shares and widths of some rows; all None without rows."""
    count = len(outcomes)
    if not count:
        return {"n": 0, "within_25": None, "within_50": None, "covered": None, "median_width": None, "p90_width": None}
    widths = sorted(result.width for result in outcomes)
    return {
        "n": count,
        "within_25": _share(result.within(NEAR) for result in outcomes),
        "within_50": _share(result.within(FAR) for result in outcomes),
        "covered": _share(result.covered for result in outcomes),
        "median_width": round(median(widths), 3),
        "p90_width": round(widths[math.ceil(0.9 * count) - 1], 3),
    }


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return round(sum(values) / len(values), 4)


def left_out(rows: Sequence[Row]) -> list[Outcome]:
    """Each row estimated by a fit on the shipped rows without its family; spreads are also fitted without it."""
    shipped = fit_training.shipped_fits()
    known = list(zip(shipped.observations, shipped.errors, strict=True))
    found: dict[str, list[Outcome]] = {}
    for family in sorted({row.family for row in rows}):
        retained = [(entry, error) for entry, error in known if entry.row.family != family]
        others = [entry for entry, _ in retained]
        fit = shipped.left_out.get(family) or fit_training.fit(others)
        facts = facts_from(fit_training.fitted(others, [error for _, error in retained], fit))
        found[family] = [outcome(row, facts) for row in rows if row.family == family]
    return [result for family in found.values() for result in family]


def held_out() -> list[Outcome]:
    """The shipped rows, a fifth at a time, estimated by a fit that has other rows of their sources.

    A row's part is a checksum of its id. Rows of a source without rows in the other parts are left out.
    """
    shipped = fit_training.shipped_fits()
    known = list(zip(shipped.observations, shipped.errors, strict=True))
    parts = [zlib.crc32(entry.row.id.encode()) % FOLDS for entry, _ in known]
    found = []
    for part in range(FOLDS):
        retained = [pair for pair, own in zip(known, parts, strict=True) if own != part]
        others = [entry for entry, _ in retained]
        sources = {entry.row.family for entry in others}
        facts = facts_from(fit_training.fitted(others, [error for _, error in retained], fit_training.fit(others)))
        rows = [entry.row for (entry, _), own in zip(known, parts, strict=True) if own == part]
        found += [outcome(row, facts) for row in rows if row.family in sources]
    return found


def never_fitted() -> list[Outcome]:
    """The rows that were found after the fit, estimated by the shipped coefficients."""
    facts = load_training()
    return [outcome(row, facts) for row in read_rows(JUDGED_RUNS)]


def of_known_sources(outcomes: Sequence[Outcome]) -> Groups:
    """The outcomes of each class, for sources of which the fit has other rows and for new ones."""
    fitted = {row.family for row in fit_training.shipped_rows()}
    parts = {}
    for name, members in of_classes(outcomes).items():
        parts[f"{name}, known sources"] = [result for result in members if result.row.family in fitted]
        parts[f"{name}, new sources"] = [result for result in members if result.row.family not in fitted]
    return parts


def unseen() -> list[Outcome]:
    """The rows of the later shipped files, estimated by a fit on the first file alone."""
    observations = fit_training.observe(read_rows(RUNS), fit_training.unfitted())
    errors = fit_training.errors_left_out(observations)
    facts = facts_from(fit_training.fitted(observations, errors, fit_training.fit(observations)))
    return [outcome(row, facts) for row in (*read_rows(FURTHER_RUNS), *read_rows(LATER_RUNS))]


def measure(rows: Sequence[Row], facts: TrainingFacts | None = None) -> dict[str, Any]:
    """The object that --json prints; without `facts`, for the shipped facts."""
    facts = facts if facts is not None else load_training()
    outcomes = [outcome(row, facts) for row in rows]
    labels = sorted({row.label for row in rows})
    return {
        **summary(outcomes),
        "by_accelerator": {
            label: summary([result for result in outcomes if result.row.label == label]) for label in labels
        },
        "by_class": by_class(outcomes),
        "whole_runs": summary([result for result in outcomes if result.row.whole]),
        "leave_one_family_out": summary(left_out(rows)),
    }


def baseline(rows: Sequence[Row]) -> dict[str, Any]:
    """The baseline estimator: the median MFU of the shipped rows with the same chip, precision and kind of figure."""
    groups: dict[tuple[str, str, bool], list[float]] = {}
    for row in read_rows(RUNS):
        groups.setdefault(_group(row), []).append(_mfu(row))
    everything = median(value for values in groups.values() for value in values)
    ratios = [median(groups.get(_group(row), [everything])) / _mfu(row) for row in rows]
    return {
        "within_25": _share(abs(math.log(ratio)) <= math.log(NEAR) for ratio in ratios),
        "within_50": _share(abs(math.log(ratio)) <= math.log(FAR) for ratio in ratios),
    }


def _group(row: Row) -> tuple[str, str, bool]:
    return row.label, row.shape.precision.value, row.kind == "whole_run"


def _mfu(row: Row) -> float:
    shape = row.shape
    peak = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12
    return row.published_tokens_per_s * flops.per_token(shape) / peak


def report(rows: Sequence[Row], name: str) -> str:
    """The section of docs/accuracy.md."""
    facts = load_training()
    measured = measure(rows, facts)
    outcomes = sorted((outcome(row, facts) for row in rows), key=lambda result: -abs(math.log(result.ratio)))
    plain = baseline(rows)
    every = left_out(fit_training.shipped_rows())
    judged = never_fitted()
    lines = [
        "# Accuracy of the training estimate",
        "",
        (
            f"Written by `python -m benchmarks.accuracy` from {name}; coefficients of {facts.fitted_on}, fitted on"
            f" {facts.fitted_rows} rows of {facts.fitted_families} source families."
        ),
        "",
        HOW_TO_READ,
        "",
        "## Rows that no fit has used, by class and by source",
        "",
        _source_table("class", of_known_sources(judged)),
        "",
        "## Rows that no fit has used, by instance",
        "",
        _source_table("instances", of_instances(judged)),
        "",
        "## By class of job, with the row's source left out of the fit",
        "",
        _source_table("class", of_classes(every)),
        "",
        "## By class of job, with a fifth of the rows held out and others of their sources in the fit",
        "",
        _source_table("class", of_classes(held_out())),
        "",
        "## By class and by when the source was found, left out of the fit",
        "",
        _source_table("class", of_discovery(every)),
        "",
        "## By instance, with the row's source left out of the fit",
        "",
        _source_table("instances", of_instances(every)),
        "",
        "A family of instances that is not in this table has no published row.",
        "",
        "## All rows",
        "",
        _table(
            "rows",
            {
                "all rows": measured,
                "whole runs": measured["whole_runs"],
                "left out": measured["leave_one_family_out"],
                "unseen": summary(unseen()),
            },
        ),
        "",
        (
            "Baseline (the median utilization of each chip, precision and kind of figure):"
            f" {_percent(plain['within_25'])} within 0.8-1.25 and {_percent(plain['within_50'])} within 1.5x."
        ),
        "",
        "## By accelerator",
        "",
        _table("accelerator", measured["by_accelerator"]),
        "",
        "## Rows with the largest error",
        "",
        "| row | kind | estimated / published | in the range |",
        "|---|---|---|---|",
        *(
            f"| {result.row.id} | {result.row.kind} | {result.ratio:.2f} | {'yes' if result.covered else 'no'} |"
            for result in outcomes[:WORST]
        ),
        "",
        "For a whole run, the ratio compares hours; for the other rows, tokens per second.",
    ]
    return "\n".join(lines) + "\n"


def training_facts_of(path: Path | None) -> TrainingFacts:
    """The shipped facts, plus the measurements of a file if one is given.

    Raises:
        RowsError: the file is missing, or one of its lines is not a measurement.
    """
    if path is None:
        return load_training()
    if not path.is_file():
        raise RowsError(f"cannot read {path}: no such file")
    measured, findings = load_measurements(path)
    if findings:
        raise RowsError("\n".join(finding.message for finding in findings))
    return replace(load_training(), measured=measured)


def _table(first: str, parts: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        f"| {first} | n | within 0.8-1.25 | within 1.5x | in the range | median width | p90 width |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, part in parts.items():
        if part["n"]:
            shares = " | ".join(_percent(part[key]) for key in SHARES)
            lines.append(f"| {label} | {part['n']} | {shares} | {part['median_width']:.2f} | {part['p90_width']:.2f} |")
    return "\n".join(lines)


def _source_table(first: str, groups: Groups) -> str:
    """A table of groups whose rows are of several sources: with the number of sources, and the average source."""
    names = ("within 0.8-1.25", "within 1.5x", "in the range")
    shared = " | ".join((*names, "sources", *(f"{name}, average source" for name in names)))
    lines = [f"| {first} | n | {shared} | median width | p90 width |", "|---" * 11 + "|"]
    for label, members in groups.items():
        if not members:
            continue
        part = summary(members)
        shares = " | ".join(_percent(part[key]) for key in SHARES)
        sources, average = of_average_source(members)
        means = " | ".join(_percent(average[key]) for key in SHARES)
        widths = f"{part['median_width']:.2f} | {part['p90_width']:.2f}"
        lines.append(f"| {label} | {part['n']} | {shares} | {sources} | {means} | {widths} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description="training estimates against published runs"
    )
    parser.add_argument(
        "file", nargs="?", type=Path, default=RUNS, help="rows; the shipped calibration rows by default"
    )
    parser.add_argument("--json", action="store_true", help="print one object and write nothing")
    parser.add_argument("--measured", type=Path, help="measurements (slipway.measurement/1, one a line) to correct by")
    options = parser.parse_args(arguments)
    try:
        rows = read_rows(options.file)
        facts = training_facts_of(options.measured)
    except RowsError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNREADABLE
    if options.json:
        print(json.dumps(measure(rows, facts), indent=2))
        return 0
    if options.measured is not None:
        print(f"error: docs/{REPORT.name} is of the shipped estimate: --measured goes with --json", file=sys.stderr)
        return UNREADABLE
    text = report(rows, "the shipped rows" if options.file == RUNS else f"`{options.file.name}`")
    replace_section(REPORT, SECTION, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
