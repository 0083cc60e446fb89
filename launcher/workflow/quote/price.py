"""Prices a plan file: ranked quotes. Pricing makes no calls and spends nothing."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from launcher import plan_file
from launcher.catalog import load as catalog_load
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import folder_of, read_regular
from launcher.catalog.training import load_training
from launcher.model.enums import CheckpointMode, PurchaseOption
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding, warning
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.plan import SHORT_ID
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.training import TrainingFacts
from launcher.planning.checks import SPOT_WITHOUT_CHECKPOINTS
from launcher.planning.pin import with_shared_zones
from launcher.planning.resolve import resolve_training
from launcher.pricing.priced import Priced
from launcher.pricing.training import TrainingPriced, price_training
from launcher.workflow.quote.cached_model import with_cached_model
from launcher.workflow.quote.options import PriceOptions, context_for, is_rank, refuse_errors
from launcher.workflow.quote.trainer import missing_trainer
from launcher.workflow.quote.trainer_command import job_command
from launcher.workflow.quote.trainer_stack import with_trainer

_MAX_BYTES = 1 << 20
_SCRIPT = re.compile(r"[\w./-]+\.py\b")
_NEURON_TRAINER = r"(?ms)^\s*(?:from|import)\s+optimum\.neuron\b.*?\bNeuron(?:SFT|ORPO|GRPO)?Trainer\b"
"""optimum-neuron 0.4.5, optimum/neuron/trainers/transformers.py:1093-1096: `train(resume_from_checkpoint=...)` raises a
ValueError, and its SFT trainer calls it."""


def trainer_findings(path: Path, request: PlanRequest) -> Iterator[Finding]:
    """Findings about a trainer whose script cannot resume; none about unreadable files."""
    if request.workload.train is None or request.checkpoint.mode is CheckpointMode.NONE:
        return
    folder = folder_of(path) / request.run.workdir
    names = dict.fromkeys(name for word in request.run.command for name in _SCRIPT.findall(word))
    for name in names:
        try:
            text = read_regular(folder / name, _MAX_BYTES, within=folder).decode("utf-8", errors="replace")
        except (OSError, ValueError):
            continue
        if re.search(_NEURON_TRAINER, text):
            message = f"{name} trains with optimum.neuron, which cannot resume from a checkpoint (0.4.5)"
            hint = "after an interruption it starts at step 0: use on-demand, or a neuronx-distributed trainer"
            yield warning("trainer-cannot-resume", "run.command", message, hint)


def price(path: Path, now: datetime, options: PriceOptions) -> Priced:
    """The candidates of a plan file.

    Raises:
        ImpossibleError: the plan is readable, but no candidate remains; the error has every finding.
    """
    request, catalog = load_request(path, now, options)
    return price_request(path, request, catalog, now, options)


def load_request(path: Path, now: datetime, options: PriceOptions) -> tuple[PlanRequest, Catalog]:
    """The request of a plan file with the command line's region, and the prices for it.

    Raises:
        ImpossibleError: the request is impossible.
    """
    catalog = catalog_load.load(prices_as_of=options.prices_as_of, overlay=options.cache, today=now.date())
    return with_cached_model(read_request(path, catalog, options), catalog), catalog


def read_request(path: Path, catalog: Catalog, options: PriceOptions) -> PlanRequest:
    """The request of a plan file with the command line's region; the errors are those of `plan_file.load`."""

    def in_region(request: PlanRequest) -> PlanRequest:
        if options.region is None:
            return request
        return replace(request, target=replace(request.target, region=(options.region,)))

    def names(request: PlanRequest) -> list[Finding]:
        # Loaded for a plan that is refused: the others pay nothing for it.
        from launcher.workflow.quote.unknown_names import unknown_names

        return unknown_names(with_cached_model(in_region(request), catalog), catalog)

    return in_region(plan_file.load(path, options.settings, names))


def price_request(path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions) -> Priced:
    """The candidates of a request; `path` is its plan file.

    Raises:
        ImpossibleError: no candidate is left; the error has every finding.
    """
    if request.workload.serve is not None:
        # Loaded for serving alone: a plan for training pays nothing for it.
        from launcher.workflow.quote.serving import price_serving

        return price_serving(path, request, catalog, now, options)
    return price_job(path, request, catalog, now, options)


def price_job(
    path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions
) -> TrainingPriced:
    """The candidates of a training request, or of a cluster without a job.

    Raises:
        ImpossibleError: no candidate is left; the error has every finding.
    """
    request, inferred = with_trainer(path, with_shared_zones(request, catalog))
    facts, measured, remarks = _facts(request, options)
    command = job_command(path, request)
    resolution = resolve_training(request, catalog, facts, measured, command)
    blocking = tuple(missing_trainer(path, request))
    notes = (*inferred, *remarks, *blocking, *trainer_findings(path, request))
    resolution = replace(resolution, findings=(*resolution.findings, *notes))
    refuse_errors(path, resolution.findings, options.settings)
    context = context_for(request, catalog, now, options)
    context = replace(context, measured=measured, job_command=command)
    priced = price_training(
        str(path),
        resolution,
        context,
        everything=options.everything,
        picked=options.picked_id,
        first_rows=options.first_rows,
    )
    priced = replace(priced, blocking=blocking)
    if request.purchase.option == (PurchaseOption.SPOT,) and request.checkpoint.mode is CheckpointMode.NONE:
        best = priced.candidates[0]
        without_checkpoints = [refusal for refusal in best.refusals if refusal.code == SPOT_WITHOUT_CHECKPOINTS]
        total = f", ${best.usd:,.0f}" if best.usd is not None else ""
        findings = [replace(finding, message=f"{finding.message}{total}") for finding in without_checkpoints]
        if findings:
            message = f"{path} has 1 problem"
            raise ImpossibleError(message, findings=plan_file.place_findings(path, findings, options.settings))
    return priced


def _facts(
    request: PlanRequest, options: PriceOptions
) -> tuple[TrainingFacts, tuple[Measurement, ...], tuple[Finding, ...]]:
    """The inputs of the estimate: published facts, the measured runs of the folder, and findings about these.

    A rate in the plan takes precedence over measured rates.
    """
    facts, train = load_training(), request.workload.train
    if options.runs is None or train is None or not (options.runs / MEASUREMENTS).is_file():
        return facts, (), ()
    # Loaded where runs were measured: a first plan pays nothing for it.
    from launcher.records.measurements import load_measurements

    measured, remarks = load_measurements(options.runs / MEASUREMENTS)
    if not train.by_tokens or train.throughput_tokens_per_s is not None:
        return facts, measured, remarks
    return replace(facts, measured=measured), measured, remarks


class NoSuchCandidateError(UnreadableInputError):
    """A rank or digest that no candidate has."""


def rank_note(priced: Priced, selection: str | None) -> Iterator[str]:
    """A line on the row that a number stands for; none for 1: a screen shows some rows, so its second is no rank 2."""
    if selection is not None and is_rank(selection) and 1 < int(selection) <= len(priced.candidates):
        rank = int(selection)
        rows = f"rank {rank} of {len(priced.candidates):,} rows (--json); a screen shows some of them"
        yield f"--pick {rank}: {rows}. The id of this one: --pick {priced.short_id(rank)}"


def pick(priced: Priced, selection: str | None) -> tuple[int, Quote]:
    """The quote that the user picked by short id or rank, with its rank; the first one by default.

    Raises:
        NoSuchCandidateError: no candidate has the rank or id, or several have the id.
    """
    count = len(priced.candidates)
    if selection is None:
        return 1, priced.quote(1)
    if is_rank(selection) and 1 <= int(selection) <= count:
        return int(selection), priced.quote(int(selection))
    if len(selection) >= SHORT_ID:
        ranks = range(1, count + 1)
        matching = [rank for rank in ranks if priced.digest(rank).startswith(selection.lower())]
        # Offerings of two lengths for one plan have one digest: the first is the better.
        different = {priced.digest(rank): rank for rank in reversed(matching)}
        if len(different) > 1:
            ids = ", ".join(priced.short_id(rank) for rank in sorted(different.values()))
            message = f"--pick {selection}: {len(different)} candidates have this id"
            raise NoSuchCandidateError(message, hint=f"use one of {ids}")
        if matching:
            return matching[0], priced.quote(matching[0])
    raise NoSuchCandidateError(
        f"--pick {selection}: no candidate has this rank or digest",
        hint=f"use an id, such as {priced.short_id(1)}, or a rank from 1 to {count}",
    )
