"""Bedrock's charges for the tokens of a request: plain, read from or written to a prompt cache, in a batch, long.

A prompt cache holds the common prefix of requests for 5 minutes after its last use (Bedrock user guide, prompt
caching), so a request finds it expired with a probability of exp(-requests a second x 300 s), and writes it again.
"""

import math
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.model.bedrock import BedrockPrice
from launcher.model.enums import Basis, BedrockMode
from launcher.model.fleet import served_per_s
from launcher.model.money import CostComponent, Price, Unpriced
from launcher.model.workload import ServingWorkload
from launcher.pricing.bill_lines import component
from launcher.pricing.serving.traffic import requests_per_month

MILLION = 1e6
MIN_MILLIONS = 1e-6
"""Millions of tokens below which a line is left out: one token."""
CACHE_S = 300.0
LONG = re.compile(r"over_(\d+)k_input")


class TokenRates(NamedTuple):
    """Dollars per million tokens: input, output, input read from a cache, and input written to a cache, if any."""

    input: Price
    output: Price
    cached: Price | None
    written: Price


def token_rates(row: BedrockPrice, mode: BedrockMode, serve: ServingWorkload, today: date) -> TokenRates | Unpriced:
    """The rates of a plan's requests, or the reason why they have none.

    Args:
        row: the price of the model.
        mode: on demand, or in a batch.
        serve: the workload, for the lengths of its requests.
        today: the day on which the model must be offered.
    """
    batch = mode is BedrockMode.BATCH
    prefix = _long(row, serve)
    inputs = row.batch_input_usd if batch else row.parts.get(f"{prefix}input", row.input_usd)
    outputs = row.batch_output_usd if batch else row.parts.get(f"{prefix}output", row.output_usd)
    if inputs is None or outputs is None:
        return Unpriced(reason=f"no batch price of {row.model_id} is known")
    read = row.parts.get("batch_cache_read" if batch else f"{prefix}cache_read")
    write = row.parts.get("batch_cache_write" if batch else f"{prefix}cache_write_5m", inputs)
    rates = TokenRates(
        input=_price(row, inputs),
        output=_price(row, outputs),
        cached=_price(row, read) if read is not None else None,
        written=_price(row, write),
    )
    if row.basis is Basis.UNVERIFIED:
        return Unpriced(reason=f"the only price of {row.model_id} has no source", unverified=rates.output)
    if row.deprecation is not None and row.deprecation <= today:
        return Unpriced(reason=f"AWS has withdrawn {row.model_id} on {row.deprecation}", unverified=rates.output)
    return rates


def token_lines(name: str, serve: ServingWorkload, rates: TokenRates) -> Iterator[CostComponent]:
    """The lines of a month of tokens."""
    requests = requests_per_month(serve)
    millions = requests * serve.input_tokens / MILLION
    shared = millions * serve.cached_input_fraction if rates.cached is not None else 0.0
    yield component(f"{name}, input", "compute", "million tokens", millions - shared, rates.input)
    if rates.cached is not None and shared:
        expired = expired_share(serve)
        yield component(
            f"{name}, input from the cache", "compute", "million tokens", shared * (1 - expired), rates.cached
        )
        if shared * expired >= MIN_MILLIONS:
            yield component(f"{name}, input to the cache", "compute", "million tokens", shared * expired, rates.written)
    answers = requests * serve.answer_tokens / MILLION
    yield component(f"{name}, output", "compute", "million tokens", answers, rates.output)


def expired_share(serve: ServingWorkload) -> float:
    """The share of requests that find the cache expired.

    >>> round(expired_share(ServingWorkload(requests_per_s=1 / 300)), 6)
    0.367879
    >>> expired_share(ServingWorkload(requests_per_s=1)) < 1e-100
    True
    """
    load = served_per_s(serve)
    whole = sum(load)
    return sum(rate * math.exp(-rate * CACHE_S) for rate in load) / whole if whole else 1.0


def _long(row: BedrockPrice, serve: ServingWorkload) -> str:
    """The name prefix of rates for requests as long as the plan's; "" if such requests have no separate rates.

    Thresholds are in thousands of input tokens.
    """
    matches = (LONG.fullmatch(part) for part in row.parts)
    limits = (int(match[1]) for match in matches if match is not None)
    passed = max((limit for limit in limits if serve.input_tokens > limit * 1000), default=None)
    return "" if passed is None else f"over_{passed}k_"


def _price(row: BedrockPrice, usd: Decimal) -> Price:
    where = f"profile {row.profile}" if row.profile else row.region or "no region stated: taken for all"
    return Price(usd=usd, source=row.source, basis=row.basis, as_of=row.as_of, note=where)
