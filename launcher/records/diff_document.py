"""slipway.diff/1: what a change of plans does to their totals."""

from launcher.model.plan_diff import PlanDiff, PlansDiff
from launcher.records.documents import Json, money


def diff_document(found: PlansDiff, refusal: str | None) -> Json:
    """The change as JSON; `refusal` says why it goes beyond the policy, null where it does not."""
    return {
        "schema": "slipway.diff/1",
        "old": found.old,
        "new": found.new,
        "looked_at": found.looked_at,
        "usd_change": money(found.usd_change),
        "percent": found.percent,
        "refusal": refusal,
        "plans": [_plan(each) for each in found.plans],
    }


def _plan(each: PlanDiff) -> Json:
    return {
        "name": each.name,
        "file": each.file,
        "unit": each.unit,
        "old_usd": money(each.old_usd),
        "new_usd": money(each.new_usd),
        "why": list(each.why),
        "lines": [
            {
                "name": line.name,
                "old_usd": money(line.old_usd),
                "new_usd": money(line.new_usd),
                "change": line.change.value,
            }
            for line in each.lines
        ],
    }
