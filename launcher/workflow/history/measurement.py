"""The measurement of a run, from its run folder: the trainer's metrics, the agent's events, the submission."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from launcher import plan_file
from launcher.agent.forecast import Point
from launcher.agent.metrics import MAX_VERSIONS, figures_in, setup_in, versions_of
from launcher.agent.shape import moment
from launcher.catalog.load import Catalog
from launcher.catalog.training import load_training
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.instance_type import InstanceType
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.money import Range
from launcher.model.report import Attempt
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify
from launcher.model.units import HOUR_S
from launcher.model.workload import ModelDimensions
from launcher.planning import flops
from launcher.planning.shape import recompute_of, stack_of
from launcher.planning.work import Estimator
from launcher.pricing.idle_tail import learnable_hours
from launcher.records.measurements import add_measurement, load_measurements, measurement_document
from launcher.records.run_folder import EVENTS, JOB_FOLDER, METRICS, RunFolder
from launcher.records.stored_quote import StoredQuote, stored_quote
from launcher.workflow.history.attempts import attempts, budget_stop, interrupted_attempts, points_of, read_events
from launcher.workflow.history.measured_rates import batch_tokens, counts_samples, stretch_rates

_KEYS = (b'"parallel"', b'"software"')
IN_RUN = "measurement.json"


def with_setup(
    measurement: Measurement, request: PlanRequest, catalog: Catalog, metrics: Path, events: Iterable[Mapping[str, Any]]
) -> Measurement:
    """A measurement with its MFU, its degrees of parallelism and its software."""
    facts = catalog.instance_types.get(measurement.instance_type)
    if facts is None:
        return measurement
    parallelism, software = setup_of(metrics, events, facts, measurement.nodes)
    rate = measurement.tokens_per_s
    mfu = None if rate is None else mfu_of(rate, request, catalog, facts, measurement.nodes)
    return replace(measurement, mfu=mfu, parallelism=parallelism, software=software)


def mfu_of(rate: Range, request: PlanRequest, catalog: Catalog, facts: InstanceType, nodes: int) -> Range | None:
    """Tokens a second as a share of the chips' dense bf16 peak; None for a job whose model is unknown.

    `rate`: tokens a second of all nodes.
    """
    train = request.workload.train
    if train is None or train.model is None:
        return None
    estimator = Estimator(request=request, catalog=catalog, facts=load_training())
    shape = estimator.shape(replace(train, throughput_tokens_per_s=None), facts, nodes)
    most = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / flops.per_token(shape)
    return Range(low=rate.low / most, mid=rate.mid / most, high=rate.high / most)


def setup_of(
    metrics: Path, events: Iterable[Mapping[str, Any]], facts: InstanceType, nodes: int
) -> tuple[tuple[tuple[str, int], ...] | None, tuple[tuple[str, str], ...]]:
    """Degrees of parallelism, as the trainer last reported them, and software versions by name.

    If degrees do not fit the workers that the scheduler starts, all of them are left out: they are another job's.

    Returns:
        Pairs of a name and a degree, None if the trainer reported none; pairs of a name and a version.
    """
    degrees: dict[str, int] = {}
    software = {name: version for event in events for name, version in versions_of(event.get("software")).items()}
    for line in metrics.read_bytes().splitlines() if metrics.is_file() else ():
        # Most lines are the figures of a step: only those with one of these keys are parsed.
        if any(key in line for key in _KEYS):
            layout, versions = setup_in(line)
            degrees, software = layout or degrees, software | versions
    fits = degrees and fit(degrees, nodes * facts.training_workers)
    return tuple(degrees.items()) if fits else None, tuple(sorted(software.items())[:MAX_VERSIONS])


def fit(degrees: Mapping[str, int], workers: int) -> bool:
    """Whether the degrees divide the number of workers; expert parallelism is within the other degrees.

    >>> fit({"data": 2, "tensor": 4, "expert": 8}, 16), fit({"data": 3, "tensor": 4}, 16), fit({"expert": 3}, 16)
    (True, False, False)
    """
    product = math.prod(degree for name, degree in degrees.items() if name != "expert")
    return workers % product == 0 and workers % degrees.get("expert", 1) == 0


def keep_measurement(name: str, folder: RunFolder, root: Path, catalog: Catalog, notify: Notify) -> Measurement | str:
    """Measure an ended run and store the result; return the measurement, or why there is none.

    A measurement in the sandbox stays in its run folder: it says nothing about the instances.
    """
    measurement = try_measurement(name, folder, catalog)
    if isinstance(measurement, str):
        return measurement
    folder.write_json(IN_RUN, measurement_document(measurement))
    if not measurement.simulated:
        _add(root / MEASUREMENTS, measurement, notify)
    return measurement


def _add(path: Path, added: Measurement, notify: Notify) -> None:
    known, _ = load_measurements(path)
    # A run that is measured again adds no second row.
    if any((measurement.run, measurement.measured_at) == (added.run, added.measured_at) for measurement in known):
        return
    try:
        add_measurement(path, added)
    except OSError as problem:
        notify(f"{path.name} cannot be written, so the next quote cannot use this run: {problem}")
    else:
        notify(f"measured {_rate_text(added)}")


def _rate_text(added: Measurement) -> str:
    """The rate, and what uses it."""
    if added.tokens_per_s is not None:
        return f"{added.tokens_per_s.mid:,.0f} tokens/s: stored in {MEASUREMENTS}, the next quote uses it"
    rate = added.rate.mid / added.nodes
    key = "workload.train.throughput_samples_per_s"
    return f"{rate:,.4g} samples/s a node: stored in {MEASUREMENTS}; write {key}: {rate:.4g}"


def _quoted_values(quote: StoredQuote, ran: Sequence[Attempt], catalog: Catalog) -> Mapping[str, Any]:
    """What a measurement takes over from the quote of its run, and the instance type on which EC2 ran it.

    Raises:
        UnreadableInputError: EC2 ran it on several types: its rate is that of none.
    """
    named = {key: getattr(quote, key) for key in ("accelerators", "nodes", "region", "purchase_option", "target")}
    # A plan may allow several types: EC2 chooses one for each attempt.
    types = {name for attempt in ran for name in attempt.instance_types} or {quote.instance_type or ""}
    if len(types) > 1:
        raise UnreadableInputError(f"the run had several instance types ({', '.join(sorted(types))}): not measured")
    (name,) = types
    facts = catalog.instance_types.get(name)
    if name == quote.instance_type or facts is None:
        return {"instance_type": name, "accelerator": quote.accelerator or "", **named}
    chips = {"accelerator": facts.accelerator or "", "accelerators": facts.accelerators * quote.nodes}
    return {"instance_type": name, **named, **chips}


def measurement_of(name: str, folder: RunFolder, catalog: Catalog) -> Measurement:
    """The measurement of a run folder.

    Raises:
        UnreadableInputError: a file in the folder is damaged.
        UnreadableInputError: its data is too little.
    """
    quote = stored_quote(folder)
    request = plan_file.load(folder.path / "plan.json")
    train = request.workload.train
    if train is None or train.model is None:
        raise UnreadableInputError(
            f"{name}: the plan has no model", hint="workload.train.model, {params_b: ...} is enough"
        )
    model, total, active = _model(request, catalog)
    metrics, stack = folder.path / JOB_FOLDER / METRICS, train.stack or stack_of(train.method)
    stretches = points(folder)
    samples = counts_samples(stretches, train)
    rates, steps = stretch_rates(stretches, train.global_batch_tokens, samples=samples)
    # Without events of the agent, those of the launcher have at least the end of the job.
    events = read_events(folder.path / JOB_FOLDER / EVENTS) or read_events(folder.events)
    ran, restore_s = attempts(events), _restore_s(events)
    waits = list(_waits(ran))
    measurement = Measurement(
        model=model,
        params_b=total,
        active_params_b=active,
        method=train.method,
        precision=train.precision,
        recompute=train.recompute or recompute_of(stack),
        stack=stack,
        sequence_length=train.sequence_length,
        **_quoted_values(quote, ran, catalog),
        global_batch_tokens=None if samples else train.global_batch_tokens or batch_tokens(stretches),
        tokens_per_s=None if samples else rates,
        samples_per_s=rates if samples else None,
        step_s=steps.mid,
        step_range_s=steps,
        compile_s=_compile_s(metrics, stretches, steps.mid),
        memory_gib=max(_figures(metrics, "memory_gib"), default=None),
        checkpoint_write_s=_mean(_figures(metrics, "checkpoint_seconds")),
        restore_s=restore_s,
        boot_s=_boot(read_events(folder.events), events),
        run=f"{name}/{folder.path.name}",
        image=request.run.image,
        revision=_revision(folder),
        measured_at=_end_time(events),
        simulated=bool(folder.read_json("report.json").get("simulated")),
        running_h=_running_h(ran),
        interruptions=len(interrupted_attempts(ran)),
        # The next attempt begins before it restores, so that its wait lacks the restore.
        restart_s=statistics.fmean(waits) + (restore_s or 0.0) if waits else None,
        restarts=len(waits),
        idle_tail_assumed_h=_assumed_tail_h(quote, request, events),
    )
    return with_setup(measurement, request, catalog, metrics, events)


def _running_h(ran: Sequence[Attempt]) -> float:
    return sum((attempt.ended_at - attempt.started_at).total_seconds() for attempt in ran if attempt.ended_at) / HOUR_S


def _restore_s(events: Sequence[Mapping[str, Any]]) -> float | None:
    """Seconds of a restore; for a spike, which never resumes, seconds to read its written data back."""
    restored = _mean(_seconds(events, "restored"))
    return _mean(_seconds(events, "read-back")) if restored is None else restored


def _assumed_tail_h(quote: StoredQuote, request: PlanRequest, events: Sequence[Mapping[str, Any]]) -> float | None:
    """Idle hours of its nodes after the job, by the assumption of quotes; None if the run cannot measure them.

    The run cannot if the cluster's time to live ends its nodes, or if the guard ended them at the budget.
    """
    if budget_stop(events) is not None or request.guardrails.ttl_h is not None or quote.target not in set(TargetKind):
        return None
    return learnable_hours(TargetKind(quote.target), PurchaseOption(quote.purchase_option), request)


def _model(request: PlanRequest, catalog: Catalog) -> tuple[str, float, float]:
    train = request.workload.train
    model = train.model if train is not None else None
    if isinstance(model, ModelDimensions):
        return f"{model.params_b:g}B", model.params_b, model.active_params_b or model.params_b
    spec = catalog.find_model(model or "")
    if spec is None:
        raise UnreadableInputError(f"the catalog has no model {model}", hint="give its dimensions")
    return spec.name, spec.params_b, spec.active_params_b or spec.params_b


def points(folder: RunFolder) -> list[list[Point]]:
    """The metrics of a run's trainer, attempt by attempt."""
    path = folder.path / JOB_FOLDER / METRICS
    return points_of(path.read_bytes().splitlines() if path.is_file() else ())


def _compile_s(path: Path, stretches: Sequence[Sequence[Point]], step_s: float) -> float | None:
    """Seconds before an attempt's first steps, beyond the steps' own time: as reported, else from the first line.

    Only of the first attempt: a later one begins at a step that its lines do not show.
    """
    reported = _mean(_figures(path, "compile_seconds"))
    if reported is not None or not stretches or not stretches[0]:
        return reported
    return max(0.0, stretches[0][0].seconds - stretches[0][0].step * step_s)


def _figures(path: Path, name: str) -> Iterator[float]:
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        figures, _ = figures_in(line)
        if name in figures:
            yield float(figures[name])


def _seconds(events: Iterable[Mapping[str, Any]], kind: str) -> Iterator[float]:
    for event in events:
        if event.get("event") == kind and isinstance(event.get("seconds"), int | float):
            yield float(event["seconds"])


def _boot(launcher_events: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> float | None:
    submitted_at = next(
        (
            event["at"]
            for event in launcher_events
            if event.get("event") == "submitted" and isinstance(event.get("at"), str)
        ),
        "",
    )
    begun = next((event["time"] for event in events if event.get("event") == "attempt-started"), "")
    if not submitted_at or not begun:
        return None
    return max(0.0, (moment(begun) - moment(submitted_at)).total_seconds())


def _end_time(events: Iterable[Mapping[str, Any]]) -> datetime:
    times = [moment(event["time"]) for event in events if isinstance(event.get("time"), str)]
    if not times:
        raise UnreadableInputError("the run has no events", hint="slipway status NAME fetches them from the cluster")
    return max(times).astimezone(UTC)


def _revision(folder: RunFolder) -> str | None:
    if not (folder.path / "submission.json").is_file():
        return None
    git = (folder.read_json("submission.json").get("work") or {}).get("git")
    if not isinstance(git, dict) or not isinstance(git.get("revision"), str):
        return None
    return f"{git['revision']}{'+' if git.get('dirty') else ''}"


def _waits(ran: Sequence[Attempt]) -> Iterator[float]:
    """Seconds from the end of each attempt that lost its instances to the begin of the next.

    An attempt without an ending event counts as ended when the next one begins: it has no restart time.
    """
    gone = interrupted_attempts(ran)
    for before, after in pairwise(ran):
        if before in gone and before.ended_at is not None and before.ended_at < after.started_at:
            yield (after.started_at - before.ended_at).total_seconds()


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return statistics.fmean(numbers) if numbers else None


def try_measurement(name: str, folder: RunFolder, catalog: Catalog) -> Measurement | str:
    """The measurement of a run, or why it has none."""
    try:
        return measurement_of(name, folder, catalog)
    except SlipwayError as problem:
        return problem.message
    # A run folder may be of another version, or edited by hand.
    except (KeyError, TypeError, ValueError) as problem:
        return f"{folder.path.name} is damaged: {type(problem).__name__} {problem}"
