"""The quote of a run, read back from its folder: what later commands use of slipway.quote/1."""

from decimal import Decimal
from typing import Any, NamedTuple

from launcher.agent.shape import read
from launcher.model.errors import UnreadableInputError
from launcher.model.money import Range, UsdRange
from launcher.model.run_cost import NO_RATES, RunCost, RunRates, run_cost
from launcher.records.run_folder import RunFolder

QUOTE_FILE = "quote.json"


class StoredTraining(NamedTuple):
    """The estimate of a training job."""

    tokens_per_s: Range
    mfu: Range


class StoredSpot(NamedTuple):
    """The interruptions that a quote expects, and the seconds between two checkpoints."""

    interruptions_expected: float
    checkpoint_interval_s: float | None


class StoredLine(NamedTuple):
    """A line of the quote."""

    name: str
    group: str
    unit: str
    quantity: float
    usd: Decimal | None


class StoredQuote(NamedTuple):
    """The keys of a quote that later commands read; quotes of earlier versions have no `rates`.

    `max_usd` is the launch's `--max-usd`.
    """

    digest: str
    target: str | None
    instance_type: str | None
    accelerator: str | None
    accelerators: int
    nodes: int
    region: str
    az_id: str | None
    purchase_option: str
    usd: UsdRange | None
    usd_per_hour: Decimal | None
    hours: Range
    training: StoredTraining | None
    spot: StoredSpot | None
    serving: dict[str, Any] | None
    components: tuple[StoredLine, ...]
    rates: RunRates | None = None
    max_usd: Decimal | None = None

    @property
    def cost(self) -> RunCost | None:
        """The cost of a run as a function of its hours; None without a total."""
        return run_cost(
            None if self.usd is None else self.usd.mid, self.hours.mid, self.usd_per_hour, self.rates or NO_RATES
        )


def stored_quote(folder: RunFolder) -> StoredQuote:
    """The quote of a run.

    Raises:
        UnreadableInputError: the folder has no quote, or the file is not a quote.
    """
    document = folder.read_json(QUOTE_FILE)
    try:
        return read_quote(document)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path / QUOTE_FILE} is not a quote: {problem}") from problem


def read_quote(document: Any) -> StoredQuote:
    """The quote of a document.

    Raises:
        ValueError: the document is not a quote.
    """
    return read(StoredQuote, document)
