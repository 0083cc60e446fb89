"""GPU against Trainium over all runs of a job: the cost of the port, its payback date, and the three paths."""

import math
from datetime import date, timedelta
from decimal import Decimal

from launcher.model.money import UsdRange
from launcher.model.record import record
from launcher.model.units import number_of
from launcher.model.workload import TrainingWorkload
from launcher.pricing.chances import BothOutcomes, chance_below
from launcher.pricing.reasoning import MAINTENANCE_WEEKS_PER_MONTH, PORT_WEEKS, PortWeeks

WEEKS_PER_MONTH = 365.25 / 12 / 7
DAYS_PER_MONTH = 365.25 / 12
LAST_DAY = date(9999, 12, 31)
A_WORKDAY = 0.2
"""Of a week."""


@record
class Path:
    """One path through all runs: its dollars, runs on GPU, and its end date (None: past the calendar)."""

    name: str
    usd: Decimal
    runs_on_gpu: int
    done_on: date | None


@record
class Port:
    """The port and its savings."""

    weeks: PortWeeks
    usd: Decimal
    maintenance_usd_per_month: Decimal
    runs: int
    runs_per_month: float
    gpu_run: UsdRange
    trainium_run: UsdRange
    # GPU less Trainium, negative if Trainium costs more.
    saving_per_run: UsdRange
    # Runs on Trainium until they have paid for the port and the maintenance; None if they never do.
    break_even_run: int | None
    # None past the calendar.
    break_even_on: date | None
    paths: tuple[Path, ...]
    # Those of both sides.
    outcomes: BothOutcomes = ((), ())

    @property
    def chance(self) -> float:
        """The chance that Trainium is cheaper over all runs, with the port; all runs of a side cost the same."""
        gpu, trainium = self.outcomes
        each = float(self.usd) / self.runs + self._upkeep_usd
        return chance_below([usd + each for usd in trainium], gpu)

    @property
    def _upkeep_usd(self) -> float:
        """The maintenance of the second stack for a run."""
        return float(self.maintenance_usd_per_month) / self.runs_per_month

    def runs_at(self, chance: float) -> float | None:
        """The number of runs at which Trainium is cheaper with a chance; None if no number of runs has it."""
        saved = sorted(gpu - trainium for gpu in self.outcomes[0] for trainium in self.outcomes[1])
        net = saved[int((1 - chance) * (len(saved) - 1))] - self._upkeep_usd
        return float(self.usd) / net if net > 0 else None

    def share_at(self, chance: float) -> float:
        """The share of its dollars that a run on Trainium must cost to be cheaper with a chance; 0 if none does."""
        each = float(self.usd) / self.runs + self._upkeep_usd
        gpu, trainium = self.outcomes
        shares = sorted((usd - each) / other for usd in gpu for other in trainium if other > 0)
        return max(0.0, shares[int((1 - chance) * (len(shares) - 1))]) if shares else 0.0

    @property
    def pays(self) -> bool:
        """Whether the port is paid back within the runs of the plan."""
        return self.break_even_run is not None and self.break_even_run <= self.runs

    @property
    def best(self) -> Path:
        """The cheapest path; of two with equal cost the first."""
        return min(self.paths, key=lambda path: path.usd)

    @property
    def saving_usd(self) -> Decimal:
        """The saving of the better Trainium path over GPU alone, over all runs; negative for a loss."""
        return self.paths[0].usd - min(path.usd for path in self.paths[1:])


def port(
    train: TrainingWorkload,
    gpu_run: UsdRange,
    trainium_run: UsdRange,
    today: date,
    outcomes: BothOutcomes = ((), ()),
) -> Port:
    """The arithmetic of a port.

    Args:
        train: runs, runs a month, weeks of the port and the cost of a week.
        gpu_run: dollars of one run on the GPU candidate.
        trainium_run: dollars of one run on the Trainium candidate.
        today: the first day of the port.
        outcomes: equally likely totals of both sides, for the chance that one is cheaper.
    """
    weeks = port_weeks(train)
    cost = Decimal(repr(weeks.mid)) * train.engineer_usd_per_week
    maintenance = Decimal(repr(MAINTENANCE_WEEKS_PER_MONTH)) * train.engineer_usd_per_week
    saving = UsdRange(
        low=gpu_run.low - trainium_run.high, mid=gpu_run.mid - trainium_run.mid, high=gpu_run.high - trainium_run.low
    )
    needed = break_even_run(saving.mid, cost, maintenance, train.runs_per_month)
    days = weeks.mid * 7
    return Port(
        weeks=weeks,
        usd=cost,
        maintenance_usd_per_month=maintenance,
        runs=train.runs,
        runs_per_month=train.runs_per_month,
        gpu_run=gpu_run,
        trainium_run=trainium_run,
        saving_per_run=saving,
        break_even_run=needed,
        break_even_on=None if needed is None else _on(today, days + _days(needed, train.runs_per_month)),
        paths=_paths(train, weeks, gpu_run.mid, trainium_run.mid, today),
        outcomes=outcomes,
    )


def port_weeks(train: TrainingWorkload) -> PortWeeks:
    """Engineer-weeks of the port: the plan's, or an estimate by its custom kernels."""
    given = train.port_weeks
    if given is not None:
        return PortWeeks(low=given, mid=given, high=given, description="workload.train.port_weeks")
    return PORT_WEEKS[train.custom_kernels]


def break_even_run(saving: Decimal, cost: Decimal, maintenance: Decimal, runs_per_month: float) -> int | None:
    """The runs on Trainium that pay for the port and for the maintenance meanwhile; None if no number does.

    >>> break_even_run(Decimal(2000), Decimal(10000), Decimal(500), 1.0)
    7
    >>> break_even_run(Decimal(400), Decimal(10000), Decimal(500), 1.0) is None
    True
    """
    net = saving - maintenance / Decimal(repr(runs_per_month))
    return math.ceil(cost / net) if net > 0 else None


def _paths(
    train: TrainingWorkload, weeks: PortWeeks, gpu_usd: Decimal, trainium_usd: Decimal, today: date
) -> tuple[Path, ...]:
    """GPU alone; port first, then run; run on GPU during the port, and on Trainium afterwards."""
    runs, rate = train.runs, train.runs_per_month
    cost = Decimal(repr(weeks.mid)) * train.engineer_usd_per_week
    maintenance = Decimal(repr(MAINTENANCE_WEEKS_PER_MONTH)) * train.engineer_usd_per_week / Decimal(repr(rate))
    meanwhile = min(runs, math.ceil(weeks.mid / WEEKS_PER_MONTH * rate))
    after = runs - meanwhile
    last, days = _days(runs, rate), weeks.mid * 7
    mixed = meanwhile * gpu_usd + cost + after * (trainium_usd + maintenance)
    return (
        Path(name="gpu", usd=runs * gpu_usd, runs_on_gpu=runs, done_on=_on(today, last)),
        Path(
            name="port-first",
            usd=cost + runs * (trainium_usd + maintenance),
            runs_on_gpu=0,
            done_on=_on(today, days + last),
        ),
        Path(name="gpu-while-porting", usd=mixed, runs_on_gpu=meanwhile, done_on=_on(today, last)),
    )


def _days(runs: int, runs_per_month: float) -> float:
    """Days of so many runs at their monthly pace."""
    return runs / runs_per_month * DAYS_PER_MONTH


def _on(today: date, days: float) -> date | None:
    """The date this many days from today; None past the calendar."""
    return None if days >= (LAST_DAY - today).days else today + timedelta(days=math.ceil(days))


def weeks_text(weeks: float) -> str:
    """Weeks as a short readable duration.

    >>> weeks_text(0.6), weeks_text(1), weeks_text(2), weeks_text(1.5)
    ('3 days', '1 week', '2 weeks', '1.5 weeks')
    """
    if weeks < 1:
        days = round(weeks / A_WORKDAY)
        return number_of(days, "day")
    return number_of(weeks, "week")
