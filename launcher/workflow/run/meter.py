"""The meter of a run, from its run folder while the job runs."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from launcher.agent.forecast import LIMITS, LINES, OF_TYPE, Point
from launcher.agent.metrics import figures_in
from launcher.agent.shape import amount, moment
from launcher.aws import spot_history
from launcher.aws.session import Session
from launcher.model.budget_stop import spending_limit
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.meter import Meter, SpotNow, Terms, meter
from launcher.model.report import Attempt, EndedBy, usd_of_types
from launcher.model.request import Budget
from launcher.model.run_cost import NO_RATES
from launcher.records.command_record import read_command
from launcher.records.run_folder import JOB_FOLDER, METRICS, RunFolder
from launcher.records.stored_quote import QUOTE_FILE, stored_quote
from launcher.targets.registry import target_of
from launcher.workflow.history.attempts import attempts, interrupted_attempts, job_events, points_of

CACHE_S = 300.0
"""Seconds until the spot price is read again; EC2's history changes every few hours."""
_cached_prices: dict[tuple[str, ...], tuple[float, SpotNow]] = {}
EVERY_S = 30.0
TAIL_BYTES = 64 * 1024


def spot_now(folder: RunFolder, environment: Mapping[str, str], types: Sequence[str] = ()) -> SpotNow | None:
    """The price of all nodes an hour; None for a run that is not on spot, or whose spot has no published price.

    `types` are those of the newest attempt's nodes, where EC2 chose them; of several the quoted one counts. A failed
    AWS call becomes a note, not an error.

    Raises:
        UnreadableInputError: the run's quote is damaged.
    """
    quote = stored_quote(folder)
    kind, region, name = quote.target, quote.region, quote.instance_type
    if quote.purchase_option != PurchaseOption.SPOT or kind not in set(TargetKind) or not region or not name:
        return None
    if target_of(TargetKind(kind)).is_managed:
        return None
    name = types[0] if len(set(types)) == 1 else name
    key = (region, name, quote.az_id or "", str(quote.nodes), environment.get("AWS_ENDPOINT_URL", ""))
    read_at, known = _cached_prices.get(key, (0.0, None))
    if known is None or time.monotonic() - read_at >= CACHE_S:
        session = Session(environment=environment, region=region)
        known = _current_spot_price(name, quote.az_id, quote.nodes, session)
        _cached_prices[key] = (time.monotonic(), known)
    return known


def _current_spot_price(name: str, zone: str | None, nodes: int, session: Session) -> SpotNow:
    """The current price of EC2; in an open zone the highest, since the zone of the instances is unknown here."""
    now = datetime.now(UTC)
    try:
        rates = spot_history.spot(session, [name], now).rates
    except SlipwayError as problem:
        return SpotNow(usd_per_hour=None, note=f"not read: {problem.message}")
    of_zone = [rate for rate in rates if zone in (None, rate.key.zone)]
    if not of_zone:
        return SpotNow(usd_per_hour=None, note=f"EC2 has no spot price for {zone or session.region}")
    price = max(of_zone, key=lambda fetched_price: fetched_price.usd)
    where = "" if zone is not None or len(of_zone) == 1 else f", in {price.key.zone}, the dearest zone"
    return SpotNow(usd_per_hour=price.usd * Decimal(nodes), note=f"{price.note}{where}")


@dataclass(slots=True, kw_only=True)
class MeterReader:
    """Reads the meter of a run every half minute, and reports it; `environment` is that of the run's AWS calls."""

    folder: RunFolder
    on_reading: Callable[[Meter], None]
    environment: Mapping[str, str] | None = None
    read_at: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Report the meter when it is due; called at every poll."""
        if time.monotonic() - self.read_at < EVERY_S:
            return
        self.read_at = time.monotonic()
        now = meter_of(self.folder, datetime.now(UTC), self.environment)
        if now is not None:
            self.on_reading(now)


def meter_of(folder: RunFolder, now: datetime, environment: Mapping[str, str] | None = None) -> Meter | None:
    """The meter of a run; None for a run that has not begun, and for an endpoint.

    `environment`: that of the AWS account for the current spot price; None: no spot price.

    Raises:
        UnreadableInputError: the run's quote is damaged.
    """
    events = job_events(folder)
    ran = attempts(events)
    if not ran or not (folder.path / QUOTE_FILE).is_file():
        return None
    simulated = _is_simulated(folder)
    points, steps = last_points(folder.path / JOB_FOLDER / METRICS)
    times = [
        moment(event["time"]) for event in events if event.get("event") == "checkpoint-uploaded" and "time" in event
    ]
    quoted = terms(folder)
    hours, rate = hours_at(ran, now), quoted.usd_per_hour or Decimal(0)
    running_h = hours - sum(attempt.hours for attempt in ran)
    reading = meter(
        points,
        steps,
        quoted,
        hours=hours,
        types_usd=usd_of_types(ran, rate, quoted.rates, running_h, over=False),
        types_usd_per_hour=quoted.rates.for_types(ran[-1].instance_types, rate) - rate,
        interruptions=len(interrupted_attempts(ran)),
        saved=sorted(at for at in times if at >= ran[-1].started_at) if ran[-1].ended_at is None else [],
        now=now,
        simulated=simulated,
    )
    reading = replace(reading, waits=ran[-1].ended_by not in (None, EndedBy.COMPLETED))
    # What a sandbox answers is no market's.
    if environment is None or simulated:
        return reading
    return replace(reading, spot=spot_now(folder, environment, ran[-1].instance_types))


def _is_simulated(folder: RunFolder) -> bool:
    if (folder.path / "report.json").is_file():
        return bool(folder.read_json("report.json").get("simulated"))
    command = read_command(folder)
    return command is not None and command.sandbox


def terms(folder: RunFolder) -> Terms:
    """The quoted terms of a run.

    Raises:
        UnreadableInputError: the run's quote is damaged.
    """
    quote = stored_quote(folder)
    spot, training = quote.spot, quote.training
    limit, limit_name = _limit(folder, quote.max_usd) or (None, "")
    return Terms(
        usd=quote.usd,
        usd_per_hour=quote.usd_per_hour,
        hours=quote.hours,
        tokens_per_s=None if training is None else training.tokens_per_s,
        mfu=None if training is None else training.mfu,
        interruptions=None if spot is None else spot.interruptions_expected,
        interval_s=None if spot is None else spot.checkpoint_interval_s,
        budget_usd=limit,
        budget_name=limit_name,
        rates=quote.rates or NO_RATES,
    )


def quoted_figures(folder: RunFolder) -> dict[str, float]:
    """The figures of the quote that the agent gets (launcher/agent/forecast.py); unknown values are left out.

    Raises:
        UnreadableInputError: the run's quote is damaged.
    """
    quoted = terms(folder)
    cost = quoted.cost
    figures = {
        "usd_per_hour": None if cost is None else cost.an_hour_more,
        "other_usd": None if cost is None else max(Decimal(0), cost.paid_usd(0.0)),
        "usd_low": quoted.usd.low if quoted.usd is not None else None,
        "usd_high": quoted.usd.high if quoted.usd is not None else None,
        **{key: quoted.budget_usd for key, name in LIMITS.items() if name == quoted.budget_name},
    }
    if cost is not None:
        others = cost.an_hour_more - cost.usd_per_hour
        figures |= {f"{OF_TYPE}{name}": usd + others for name, usd in cost.rates.type_usd_per_hour}
    return {name: float(usd) for name, usd in figures.items() if usd is not None}


def _limit(folder: RunFolder, command_usd: Decimal | None) -> tuple[Decimal, str] | None:
    """The lower of the plan's limit and that of the launch, with the name of its setting."""
    budget = folder.read_json("plan.json").get("budget") if (folder.path / "plan.json").is_file() else None
    limit = budget.get("max_usd") if isinstance(budget, dict) else None
    try:
        of_plan = Budget(max_usd=amount(str(limit)) if limit is not None else None)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path / 'plan.json'}: budget.max_usd: {problem}") from problem
    return spending_limit(of_plan, command_usd)


def last_points(path: Path) -> tuple[Sequence[Point], int | None]:
    """The last metrics of the newest attempt, and the planned number of steps, if the trainer reports it."""
    lines = _tail(path)
    counts = [int(figures["steps"]) for line in lines if "steps" in (figures := figures_in(line)[0])]
    attempts = points_of(lines)
    return (attempts[-1][-LINES:] if attempts else ()), (counts[-1] if counts else None)


def _tail(path: Path) -> Sequence[bytes]:
    try:
        with path.open("rb") as stream:
            begin = max(0, stream.seek(0, os.SEEK_END) - TAIL_BYTES)
            stream.seek(begin)
            lines = stream.read().splitlines()
    except FileNotFoundError:
        return ()
    return lines[1:] if begin else lines


def hours_at(ran: Sequence[Attempt], now: datetime) -> float:
    """Wall hours of all attempts; the last one lasts until now if it has no end."""
    last = ran[-1]
    running = 0.0 if last.ended_at is not None else max(0.0, (now - last.started_at).total_seconds() / 3600)
    return sum(attempt.hours for attempt in ran) + running
