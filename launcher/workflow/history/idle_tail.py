"""The time that nodes stayed after the job of a run, from the node counts of the cluster's guard.

The run folder does not show when the nodes ended, because they end minutes after the job. The guard counts them at
every call, and CloudWatch retains the counts, also for a removed cluster. Slipway reads the hours at the next command
about the run, and adds them to its measurement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from launcher import plan_file
from launcher.aws.metrics import Metric, samples
from launcher.aws.session import Session
from launcher.model.errors import AwsError, UnreadableInputError
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.monitoring import GUARD_EVERY_MINUTES, GUARD_METRICS, NAMESPACE
from launcher.model.stages import Notify
from launcher.model.units import HOUR_S
from launcher.records.measurements import add_measurement, measurement_document, parse_measurement
from launcher.records.run_folder import RUNS, STAMP, RunFolder
from launcher.workflow.history.measurement import IN_RUN

LONGEST = timedelta(hours=23)
"""A longer tail shows nothing about the idle stop; one CloudWatch answer holds one day of one-minute values."""
METRIC_RETENTION = timedelta(days=14)
"""The limit for late readings: CloudWatch retains one-minute values for fifteen days (PutMetricData, API reference)."""
GUARD_INTERVAL = timedelta(minutes=GUARD_EVERY_MINUTES)
SILENT = 3 * GUARD_INTERVAL
"""If a guard reports nothing for longer, its counts do not show when the nodes ended."""
MIN_H = 1 / 60


class NodesAt(NamedTuple):
    """The number of nodes at a moment."""

    at: datetime
    nodes: float


def learn_tails(name: str, root: Path, environment: Mapping[str, str], now: datetime, notify: Notify) -> None:
    """Record how long the nodes of a plan's runs stayed, if that is unknown and can be read by now."""
    place = root / RUNS / name
    if not place.is_dir():
        return
    folders = sorted(child for child in place.iterdir() if child.is_dir() and not child.is_symlink())
    begins = [_start_of(run_folder) for run_folder in folders]
    for path, following in zip(folders, [*begins[1:], None], strict=True):
        folder = RunFolder(path=path)
        measurement = _unmeasured_tail(folder, now)
        if measurement is None:
            continue
        try:
            hours = _measured_tail_h(
                measurement, plan_file.load(path / "plan.json").name, following or now, environment
            )
        except AwsError as problem:
            notify(
                f"cannot read how long the nodes of {measurement.run} stayed, so later quotes cannot use it: {problem}"
            )
            return
        except UnreadableInputError:
            continue  # what reads the plan names it
        if hours is not None:
            _store(folder, root / MEASUREMENTS, replace(measurement, idle_tail_h=hours), notify)


def _unmeasured_tail(folder: RunFolder, now: datetime) -> Measurement | None:
    if not (folder.path / IN_RUN).is_file():
        return None
    try:
        measurement = parse_measurement(folder.read_json(IN_RUN))
    except (UnreadableInputError, ValueError):
        return None  # `accuracy` names it
    settled = measurement.idle_tail_h is not None or measurement.idle_tail_assumed_h is None or measurement.simulated
    return None if settled or now - measurement.measured_at > METRIC_RETENTION else measurement


def _start_of(path: Path) -> datetime | None:
    try:
        return datetime.strptime(path.name, STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def _measured_tail_h(
    measurement: Measurement, cluster: str, until: datetime, environment: Mapping[str, str]
) -> float | None:
    """The tail in hours, from the guard's counts until the next run; None if the counts do not show it."""
    ended = measurement.measured_at
    if until - ended < GUARD_INTERVAL:
        return None
    counted = samples(
        Session(environment=environment, region=measurement.region or ""),
        Metric(namespace=NAMESPACE, name=GUARD_METRICS[0], dimensions={"Cluster": cluster}),
        ended - SILENT,
        min(until, ended + LONGEST),
        period=timedelta(minutes=1),
    )
    return tail_h([NodesAt(*row) for row in counted], ended, measurement.nodes)


def tail_h(counted: Sequence[NodesAt], ended: datetime, nodes: int) -> float | None:
    """Mean hours that a node stayed after the job's end; None if the counts are not enough.

    Between two counts, nodes are assumed to end evenly.

    >>> at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    >>> counts = [NodesAt(at, 4), NodesAt(at + timedelta(minutes=5), 4), NodesAt(at + timedelta(minutes=10), 0)]
    >>> tail_h(counts, at, 4)
    0.125
    """
    before = [count for count in counted if count.at <= ended]
    after = list(_until_none(count for count in counted if count.at > ended))
    if not after or after[-1].nodes > 0:
        return None
    path = [NodesAt(ended, before[-1].nodes if before else after[0].nodes), *after]
    if any(later.at - earlier.at > SILENT for earlier, later in pairwise(path)):
        return None
    seconds = sum(
        (earlier.nodes + later.nodes) / 2 * (later.at - earlier.at).total_seconds() for earlier, later in pairwise(path)
    )
    hours = seconds / HOUR_S / nodes
    return hours if hours >= MIN_H else None


def _until_none(counted: Iterable[NodesAt]) -> Iterable[NodesAt]:
    for count in counted:
        yield count
        if count.nodes <= 0:
            return


def _store(folder: RunFolder, path: Path, measurement: Measurement, notify: Notify) -> None:
    """Write the measurement with its tail into the run folder and into the file that quotes use."""
    try:
        folder.write_json(IN_RUN, measurement_document(measurement))
        add_measurement(path, measurement)
    except OSError as problem:
        notify(f"{path.name} cannot be written, so the next quote does not know how long nodes stay idle: {problem}")
    else:
        minutes = (measurement.idle_tail_h or 0.0) * 60
        notify(
            f"the nodes of {measurement.run} stayed {minutes:.3g} minutes: stored in {path.name}, "
            "the next quote uses it"
        )
