"""slipway.compare/1: the options of one job, the port, and the verdict."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.pricing.port import Path, Port
from launcher.pricing.verdict import Verdict
from launcher.records.documents import Json, candidate, finding, money

if TYPE_CHECKING:
    from launcher.pricing.serving.verdict import ServingVerdict


def compare_document(
    *,
    name: str,
    now: datetime,
    verdict: Verdict,
    quotes: Sequence[Quote],
    sides: tuple[Quote | None, Quote | None],
    port: Port | None,
    findings: Sequence[Finding],
    types: Mapping[str, InstanceType],
) -> Json:
    """The object of the contract; `sides` are the GPU and the Trainium candidate that are compared."""
    return {
        **compared(name, now, verdict, quotes, types),
        "break_even": None if port is None else _break_even(port, sides, types),
        "findings": [finding(each) for each in findings],
    }


def compared(
    name: str,
    now: datetime,
    verdict: "Verdict | ServingVerdict",
    quotes: Sequence[Quote],
    types: Mapping[str, InstanceType],
) -> Json:
    """What the comparison of a job and that of an endpoint have in common."""
    return {
        "schema": "slipway.compare/1",
        "name": name,
        "as_of": now.isoformat(),
        "verdict": {
            "choice": verdict.choice.value,
            "text": verdict.text,
            "reasons": list(verdict.reasons),
            "flips": list(verdict.flips),
        },
        "options": [candidate(each, rank, types) for rank, each in enumerate(quotes, start=1)],
    }


def _break_even(port: Port, sides: tuple[Quote | None, Quote | None], types: Mapping[str, InstanceType]) -> Json:
    """The port and what it brings."""
    gpu, trainium = sides
    return {
        "gpu": None if gpu is None else candidate(gpu, 0, types),
        "trainium": None if trainium is None else candidate(trainium, 0, types),
        "runs": port.runs,
        "runs_per_month": port.runs_per_month,
        "port_weeks": {"low": port.weeks.low, "mid": port.weeks.mid, "high": port.weeks.high},
        "port_weeks_source": port.weeks.words,
        "port_usd": money(port.usd),
        "upkeep_usd_per_month": money(port.upkeep_usd_per_month),
        "saving_per_run_usd": _signed(port.saving_per_run),
        "break_even_run": port.break_even_run,
        "break_even_date": None if port.break_even_on is None else port.break_even_on.isoformat(),
        "paid_back_within_runs": port.pays,
        "saving_total_usd": money(port.saving_usd),
        "paths": [_path(each) for each in port.paths],
    }


def _signed(value: UsdRange) -> Json:
    """Dollars that may be negative."""
    return {"low": money(value.low), "mid": money(value.mid), "high": money(value.high)}


def _path(each: Path) -> Json:
    """One way through all runs."""
    return {
        "name": each.name,
        "usd": money(each.usd),
        "runs_on_gpu": each.runs_on_gpu,
        "done_on": None if each.done_on is None else each.done_on.isoformat(),
    }
