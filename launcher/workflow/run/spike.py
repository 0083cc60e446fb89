"""The `spike` command: it runs a plan's own command for a few minutes on each instance type, priced and gated.

For each type, Slipway creates a plan whose job and time limit have this length, launches it, and ends it as soon as
its trainer has reported enough steps. The measurement is stored like that of any run.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from launcher import plan_file
from launcher.agent.job import READ_BACK
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.catalog.regular_file import folder_of
from launcher.catalog.training import load_training
from launcher.model.document import document
from launcher.model.enums import CheckpointMode
from launcher.model.errors import DeploymentFailedError, ImpossibleError, SlipwayError
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.money import Range
from launcher.model.plan import Plan
from launcher.model.request import NodeRange, PlanRequest
from launcher.model.spike import Spiked, SpikeResult
from launcher.model.stages import Notify
from launcher.model.workload import TrainingWorkload
from launcher.planning import throughput
from launcher.planning.checks import type_hint
from launcher.planning.pin import pinned_plan
from launcher.planning.resolve import NODE_COUNTS
from launcher.planning.work import Estimator
from launcher.pricing.priced import NEURON, NVIDIA
from launcher.records import run_folder
from launcher.records.measurements import add_measurement, load_measurements, parse_measurement
from launcher.records.run_folder import EVENTS, JOB_FOLDER, RunFolder, write_whole
from launcher.records.stored_quote import stored_quote
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.deploy.down import RemovalTarget, survey, take_down
from launcher.workflow.doctor.left_running import left_running
from launcher.workflow.history.attempts import read_events
from launcher.workflow.history.measurement import IN_RUN, points
from launcher.workflow.quote.fresh import LaunchConsole
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_job
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.plan_launch import launch_plan

NO_AMOUNT: Mapping[str, Any] = dict.fromkeys(
    (
        *("tokens_b", "examples", "tokens_per_example", "epochs", "tokens_per_parameter"),
        "throughput_samples_per_s",
    )
)
"""The keys of a training job that a spike, which has hours of its own, leaves out."""
PLANS = Path(".slipway") / "spikes"
MIN_LINES = 10
"""Minimum lines of metrics: a fifth is warm-up, and the others must show their own spread."""
LONGEST_NAME = 40
MINUTES_PER_HOUR = 60
PATIENCE = timedelta(minutes=5)
"""The maximum wait for reading back a first checkpoint after the rate is measured: a trainer may write none."""


def remove_clusters(
    runs: Iterable[RunFolder], begun: datetime, catalog: Catalog, environment: Mapping[str, str], notify: Notify
) -> tuple[str, ...]:
    """Remove the clusters of a spike's runs; return lines about what is left, its cost, and how to remove it.

    A cluster that existed before the spike began is kept: it may be another user's cluster of the same name.
    """
    plans = [pinned_plan(plan_file.load(run.path / "plan.json"), catalog) for run in runs]
    clusters = {(plan.cluster_name, plan.place.region): plan for plan in plans if deploys(plan)}
    return tuple(
        line for plan in clusters.values() for line in _remove_cluster(plan, begun, catalog, environment, notify)
    )


def _remove_cluster(
    plan: Plan, begun: datetime, catalog: Catalog, environment: Mapping[str, str], notify: Notify
) -> tuple[str, ...]:
    name, region = plan.cluster_name, plan.place.region
    session = Session(environment=environment, region=region)
    subject = RemovalTarget(cluster=name, region=region, network=plan.request.network.name)
    try:
        result = survey(subject, session, catalog, erase=True)
        if any(stack.deployed_at is not None and stack.deployed_at < begun for stack in result.going):
            raise ImpossibleError("it existed before the spike started")
        removal = take_down(result, session, catalog, notify)
    except SlipwayError as problem:
        running = left_running(plan, session, catalog, datetime.now(UTC))
        return () if running.nothing else (f"{name} was not removed: {problem.message}", *running.lines)
    notify(f"removed what the spike created in {region}: {', '.join(name for name, _ in removal.stacks)}")
    for item in removal.kept:
        notify(f"kept: {item.kind.value} {item.name}: {item.reason}")
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikePlans:
    """The plans of one job's spikes."""

    path: Path
    request: PlanRequest
    train: TrainingWorkload
    catalog: Catalog

    def types(self, now: datetime, price: PriceOptions) -> Sequence[str]:
        """The types that the plan pins, or the cheapest GPU type and the cheapest Trainium type for it."""
        if self.request.target.instance_type is not None:
            return self.request.target.instance_type
        priced = price_job(self.path, self.request, self.catalog, now, price)
        ranks = [rank for family in (NVIDIA, NEURON) if (rank := priced.cheapest_of(family)) is not None]
        return [priced.candidates[rank - 1].place.instance_type for rank in ranks]

    def plan(self, instance_type: str, minutes: float) -> PlanRequest:
        """The plan of one spike. Its checkpoints are next to the job's; the spike neither reads nor replaces those.

        Raises:
            ImpossibleError: the type does not exist, or the job fits on no number of its nodes.
        """
        facts, request = self.catalog.instance_types.get(instance_type), self.request
        if facts is None or facts.accelerator is None:
            message, hint = f"{instance_type} has no accelerators", "slipway prices show lists the types"
            if facts is None:
                message, hint = (
                    f"the catalog has no instance type {instance_type}",
                    type_hint(instance_type, self.catalog),
                )
            raise ImpossibleError(message, hint=hint)
        hours, nodes = minutes / MINUTES_PER_HOUR, self._nodes(instance_type)
        ending = f"-spike-{instance_type.partition('.')[0]}"
        run, uri = request.run, request.checkpoint.uri
        small = replace(self.train, **NO_AMOUNT, hours=hours, throughput_tokens_per_s=None, runs=1)
        return replace(
            request,
            name=f"{request.name[: LONGEST_NAME - len(ending)].rstrip('-')}{ending}",
            workload=replace(request.workload, train=small),
            target=replace(
                request.target,
                instance_type=(instance_type,),
                nodes=NodeRange(minimum=nodes, maximum=nodes),
                fallback_types=(),
            ),
            checkpoint=replace(request.checkpoint, uri=None if uri is None else f"{uri.rstrip('/')}{ending}"),
            run=replace(
                run,
                workdir=str((folder_of(self.path) / run.workdir).resolve()),
                time_limit_h=min(hours, run.time_limit_h or hours),
                retries=0,
                env={**run.env, READ_BACK: "1"},
            ),
        )

    def _nodes(self, instance_type: str) -> int:
        """The smallest number of nodes on which the job fits; the plan's number if the plan gives only hours."""
        if not self.train.by_tokens:
            pinned = self.request.target.nodes
            return pinned.minimum if pinned is not None else 1
        estimator = Estimator(request=self.request, catalog=self.catalog, facts=load_training())
        count = next((nodes for nodes in NODE_COUNTS if estimator.work(instance_type, nodes).misfit is None), None)
        if count is None:
            raise ImpossibleError(f"the job does not fit on {instance_type}, up to {NODE_COUNTS[-1]}")
        return count

    def with_estimate(self, measurement: Measurement) -> Spiked:
        """A measurement together with the estimate of the fit alone, which knows tokens only."""
        if measurement.tokens_per_s is None:
            return Spiked(measurement=measurement, estimated=None)
        facts = load_training()
        bare = replace(self.train, throughput_tokens_per_s=None)
        estimator = Estimator(request=self.request, catalog=self.catalog, facts=facts)
        shape = estimator.shape(bare, self.catalog.instance_types[measurement.instance_type], measurement.nodes)
        rate = throughput.rate(shape, facts)
        estimated = Range(low=rate.tokens_low, mid=rate.tokens_mid, high=rate.tokens_high)
        return Spiked(measurement=measurement, estimated=estimated)


def spike(
    path: Path,
    clock: Callable[[], datetime],
    price: PriceOptions,
    *,
    steps: int,
    minutes: float,
    types: Sequence[str],
    options: LaunchOptions,
    console: LaunchConsole,
) -> SpikeResult:
    """Measure a plan's job on each of its instance types, one after the other.

    Each runs for at least so many steps and at most so many minutes; without types, on those of the plan. A dry run
    shows every spike and launches none.

    Raises:
        ImpossibleError: the plan has no job, or one without a model.
        DeploymentFailedError: no type gave a measurement.
        SlipwayError: the gate refused a spike or the user declined it, before any measurement.
    """
    request, catalog = load_request(path, clock(), price)
    # The plans of the spikes have them, and numbers of nodes of their own.
    price = replace(price, settings=())
    train = request.workload.train
    if train is None or train.model is None:
        hint = "workload.train.model, where {params_b: ...} is enough"
        raise ImpossibleError(f"{request.name} has no model, so a training rate cannot be measured", hint=hint)
    plans = SpikePlans(path=path, request=request, train=train, catalog=catalog)
    measured: list[Spiked] = []
    unmeasured: list[tuple[str, str]] = []
    remaining: list[str] = []
    for name in types or plans.types(clock(), price):
        plan = plans.plan(name, minutes)
        if options.dry_run:
            launch_plan(_write_plan(plan, options.root), clock, price, selection=None, options=options, console=console)
            unmeasured.append((name, "dry run: not launched"))
            continue
        try:
            with _removed_after(plan, clock(), catalog, options, remaining):
                measurement = _measure(plan, clock, price, steps=steps, options=options, console=console)
            if isinstance(measurement, Measurement):
                measured.append(plans.with_estimate(measurement))
            else:
                unmeasured.append((name, measurement))
        except SlipwayError as problem:
            if not measured:
                raise
            unmeasured.append((name, problem.message))
    if not measured and not options.dry_run:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in unmeasured)
        raise DeploymentFailedError(f"nothing was measured: {reasons}", hint="; ".join(remaining))
    return SpikeResult(name=request.name, measured=tuple(measured), unmeasured=tuple(unmeasured), left=tuple(remaining))


@contextmanager
def _removed_after(
    plan: PlanRequest, begun: datetime, catalog: Catalog, options: LaunchOptions, remaining: list[str]
) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if not options.sandbox and _folders(plan.name, options.root, begun):
            options.notify(f"next: slipway down {plan.name} --checkpoints removes what the spike created")
        raise
    except SlipwayError:
        remaining += _remove(plan, begun, catalog, options)
        raise
    remaining += _remove(plan, begun, catalog, options)


def _remove(plan: PlanRequest, begun: datetime, catalog: Catalog, options: LaunchOptions) -> tuple[str, ...]:
    folders, environment = _folders(plan.name, options.root, begun), options.environment
    if options.sandbox and folders:
        sandbox = options.running_sandbox(stored_quote(folders[0]).region)
        if sandbox is None:
            return ()
        environment = sandbox.process_environment(environment)
    return remove_clusters(folders, begun, catalog, environment, options.notify)


def _measure(
    plan: PlanRequest,
    clock: Callable[[], datetime],
    price: PriceOptions,
    *,
    steps: int,
    options: LaunchOptions,
    console: LaunchConsole,
) -> Measurement | str:
    """The measurement of a plan's job, or why it has none."""
    begun = clock()
    failed: SlipwayError | None = None
    try:
        launch_plan(
            _write_plan(plan, options.root),
            clock,
            price,
            selection=None,
            options=replace(options, stop_when=stop_after(steps, plan.checkpoint.mode, clock)),
            console=console,
        )
    except SlipwayError as problem:
        # A job that is cancelled because enough was measured ends here as well.
        failed = problem
    folder = next(iter(_folders(plan.name, options.root, begun)), None)
    if folder is None and failed is not None:
        raise failed
    if folder is None or not (folder.path / IN_RUN).is_file():
        return failed.message if failed is not None else "its trainer reported too few steps"
    measurement = parse_measurement(folder.read_json(IN_RUN))
    if measurement.simulated and measurement not in load_measurements(options.root / MEASUREMENTS)[0]:
        # The measurement of a sandbox launch stays in its folder; this one was requested.
        add_measurement(options.root / MEASUREMENTS, measurement)
    return measurement


def stop_after(steps: int, mode: CheckpointMode, clock: Callable[[], datetime]) -> Callable[[RunFolder], bool]:
    """Return a function: whether a run has shown its rate and how long a checkpoint takes to read back."""
    shown_at: list[datetime] = []

    def is_measured(folder: RunFolder) -> bool:
        recorded = [point for attempt in points(folder) for point in attempt]
        if len(recorded) < MIN_LINES or recorded[-1].step < steps:
            return False
        shown_at.append(clock())
        if mode is not CheckpointMode.AGENT or shown_at[-1] - shown_at[0] >= PATIENCE:
            return True
        return any(
            event["event"] in ("read-back", "read-back-failed", "read-back-skipped")
            for event in read_events(folder.path / JOB_FOLDER / EVENTS)
        )

    return is_measured


def _write_plan(plan: PlanRequest, root: Path) -> Path:
    place = root / PLANS / f"{plan.name}.json"
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(place, json.dumps(document(plan), indent=2) + "\n")
    return place


def _folders(name: str, root: Path, begun: datetime) -> list[RunFolder]:
    """The run folders of a spike that began at a moment or later, the newest first; none if no run began."""
    return [
        folder
        for plan, folder in run_folder.all_runs(root)
        if plan == name and folder.path.name >= begun.strftime(run_folder.STAMP)
    ]
