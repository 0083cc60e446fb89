"""What a run's spot machines cost at this moment, beside the rate that it was quoted at."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from launcher.agent.shape import hold
from launcher.aws import spot_history
from launcher.aws.session import Session
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.meter import SpotNow
from launcher.model.target import target_of
from launcher.records.run_folder import RunFolder

KEPT_S = 300.0
"""A price is asked for again after that; EC2's history has a new one every few hours."""
_PLACE: dict[str, Any] = {
    "target": (str, None),
    "instance_type": (str, None),
    "region": (str, None),
    "az_id": (str, None),
    "purchase_option": (str, None),
    "nodes": int,
}
_kept: dict[tuple[str, ...], tuple[float, SpotNow]] = {}


def spot_now(folder: RunFolder, environment: Mapping[str, str]) -> SpotNow | None:
    """The price of all nodes an hour; None for a run that is not on spot, or whose spot has no published price.

    Whatever AWS answers is a word of it, and no failure.

    Raises:
        UnreadableInputError: the quote of the run is damaged.
    """
    quote = folder.read_json("quote.json")
    try:
        hold(quote, _PLACE)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path / 'quote.json'} is no quote: {problem}") from problem
    kind, region, name = quote["target"], quote["region"], quote["instance_type"]
    if quote["purchase_option"] != PurchaseOption.SPOT or kind not in set(TargetKind) or not region or not name:
        return None
    if target_of(TargetKind(kind)).managed:
        return None
    key = (region, name, quote["az_id"] or "", str(quote["nodes"]), environment.get("AWS_ENDPOINT_URL", ""))
    read_at, known = _kept.get(key, (0.0, None))
    if known is None or time.monotonic() - read_at >= KEPT_S:
        known = _asked(name, quote["az_id"], quote["nodes"], Session(environment=environment, region=region))
        _kept[key] = (time.monotonic(), known)
    return known


def _asked(name: str, zone: str | None, nodes: int, session: Session) -> SpotNow:
    """What EC2 says; of an open zone the dearest, since where the machines are is not known here."""
    now = datetime.now(UTC)
    try:
        rates = spot_history.spot(session, [name], now).rates
    except SlipwayError as problem:
        return SpotNow(usd_per_hour=None, note=f"not read: {problem.message}")
    of_zone = [each for each in rates if zone in (None, each.key.zone)]
    if not of_zone:
        return SpotNow(usd_per_hour=None, note=f"EC2 has none for {zone or session.region}")
    found = max(of_zone, key=lambda each: each.usd)
    where = "" if zone is not None or len(of_zone) == 1 else f", in {found.key.zone}, the dearest zone"
    return SpotNow(usd_per_hour=found.usd * Decimal(nodes), note=f"{found.note}{where}")
