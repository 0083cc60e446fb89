"""The end of a Capacity Block, at which EC2 reclaims its nodes: announced for every target that supports blocks."""

from infra.parts.guardrails import Guardrails
from launcher.model.enums import PurchaseOption
from launcher.model.plan import Plan

_BLOCK_ENDS = ("Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning")
"""AWS's documentation has both names for the event 40 minutes before a Capacity Block ends."""


def announce_block(plan: Plan, guardrails: Guardrails) -> None:
    """Announce the end of a plan's Capacity Block 40 minutes ahead; EC2 begins to reclaim nodes ten minutes later."""
    reservation = plan.request.purchase.reservation
    if plan.place.option is not PurchaseOption.CAPACITY_BLOCK or reservation is None:
        return
    pattern = {
        "source": ["aws.ec2"],
        "detail-type": list(_BLOCK_ENDS),
        "detail": {"capacity-reservation-id": [reservation.id]},
    }
    guardrails.notify("BlockEnds", "the Capacity Block ends", pattern)
