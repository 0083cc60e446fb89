"""slipway.capacity/1: what can be had at this moment, and the total dollars to finish with each of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from launcher.model.capacity import JudgedOffer
from launcher.records.documents import money, usd_span


def capacity_document(
    name: str, offers: Sequence[JudgedOffer], unanswered: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Offers as the contract's JSON; `unanswered` are questions that AWS did not answer, with the reason."""
    return {
        "schema": "slipway.capacity/1",
        "name": name,
        "offers": [_offer(each) for each in offers],
        "unanswered": [{"asked": asked, "reason": reason} for asked, reason in unanswered],
    }


def _offer(judged: JudgedOffer) -> dict[str, Any]:
    offer = judged.offer
    return {
        "kind": offer.kind.value,
        "id": offer.id,
        "region": offer.region,
        "az_id": offer.az_id,
        "instance_type": offer.instance_type,
        "count": offer.count,
        "starts_at": _moment(offer.starts_at),
        "ends_at": _moment(offer.ends_at),
        "lead_time_h": round(judged.lead_time_h, 2),
        "usd_fee": money(offer.fee_usd),
        "usd_total": usd_span(judged.usd),
        "spot_placement_score": offer.score,
        "purchase_command": judged.purchase_command,
        "note": judged.note,
    }


def _moment(when: datetime | None) -> str | None:
    return when.isoformat() if when is not None else None
