"""The result of a price refresh."""

from pathlib import Path

from launcher.catalog.fetched_prices import Refusal, Unmatched
from launcher.catalog.price_moves import Move
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError
from launcher.model.record import record


@record
class RefreshReport:
    """The result of a refresh."""

    cache: Path
    # The numbers of queries, of those with an answer, and of answers from an unfinished refresh.
    asked: int
    answered: int
    resumed: int
    prices: int
    jumped: tuple[Move, ...]
    vanished: tuple[Move, ...]
    refused: tuple[Refusal, ...]
    # Queries with their error.
    failures: tuple[tuple[str, AwsError], ...]
    # Regions that the account may not use.
    skipped_regions: tuple[str, ...]
    # Bill items with no product, or with several at different prices: their older prices stay in use and age.
    unmatched: tuple[Unmatched, ...] = ()
    # Read without an account; `unasked` are the kinds of price that AWS does not publish without one.
    public: bool = False
    unasked: tuple[str, ...] = ()
    # The SHA-256 of the file from which the prices were read, if not from AWS.
    snapshot: str | None = None
    # The plugin that wrote them.
    plugin: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every requested price is fresh, or gone."""
        return not self.failures and not self.refused

    def price_ended(self, instance_type: str, option: str, region: str, az_id: str | None = None) -> bool:
        """Whether AWS no longer returned the price of a place, so that the known price is an old one.

        For on demand, spot, Capacity Blocks and training plans; commitments are in `vanished` by their terms.
        """
        keys = {Key(option, instance_type, region, zone) for zone in (az_id or "", "")}
        return any(move.key in keys for move in self.vanished)
