"""The result of a price refresh."""

from pathlib import Path

from launcher.catalog.fetched_prices import Move, Refusal, Unmatched
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError
from launcher.model.record import record


@record
class RefreshReport:
    """What a refresh brought.

    `asked` counts the questions, `answered` those with an answer, `resumed` those of them that an unfinished refresh
    had; `unmatched` are bill items of which no product was found, or several at different prices: their older prices
    stay in use and age. `failures` are questions with what went wrong, `skipped_regions` those the account may not use.
    `public`: read without an account; `unasked` are the kinds of price that AWS publishes for no one without.
    `snapshot` is the SHA-256 of the file that the prices were read from, where that is not AWS.
    """

    cache: Path
    asked: int
    answered: int
    resumed: int
    prices: int
    jumped: tuple[Move, ...]
    vanished: tuple[Move, ...]
    refused: tuple[Refusal, ...]
    failures: tuple[tuple[str, AwsError], ...]
    skipped_regions: tuple[str, ...]
    unmatched: tuple[Unmatched, ...] = ()
    public: bool = False
    unasked: tuple[str, ...] = ()
    snapshot: str | None = None

    @property
    def whole(self) -> bool:
        """Whether every price that was asked for is fresh, or gone."""
        return not self.failures and not self.refused

    def gone(self, instance_type: str, option: str, region: str, az_id: str | None = None) -> bool:
        """Whether AWS no longer gave the price of a place: what is still known of it is an old price.

        For on demand, spot, Capacity Blocks and training plans; commitments are in `vanished` by their terms.
        """
        keys = {Key(option, instance_type, region, zone) for zone in (az_id or "", "")}
        return any(move.key in keys for move in self.vanished)
