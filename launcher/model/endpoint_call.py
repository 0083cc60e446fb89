"""A deployed endpoint, its answer to one request, and the measurements of many requests."""

from datetime import datetime
from decimal import Decimal

from launcher.model.endpoint import EndpointMode
from launcher.model.record import record


@record
class ServedEndpoint:
    """An endpoint as described by its stack's outputs."""

    name: str
    region: str
    mode: EndpointMode
    # The configuration with which it was deployed.
    config: str
    stack: str
    component: str | None
    # The base URL of OpenAI clients; None if the endpoint supports no chat.
    base_url: str | None
    # The location of an asynchronous endpoint's requests; None without a queue.
    requests_uri: str | None
    served_name: str
    # Empty for a configuration of components, which does not contain it.
    model: str = ""


@record
class EndpointState:
    """An endpoint as SageMaker describes it; `reason` is empty if SageMaker gives none."""

    status: str
    config: str
    instances: int
    reason: str


@record
class Reply:
    """One answer: tokens, seconds to the first token (None if all arrive together) and to the last."""

    kind: str
    input_tokens: int
    output_tokens: int
    first_s: float | None
    whole_s: float
    shown: str

    @property
    def summary(self) -> str:
        """Tokens and seconds in words; an embedding has no output tokens."""
        out = f", {self.output_tokens:,} out" if self.output_tokens else ""
        return f"{self.input_tokens:,} tokens in{out}, {self.whole_s:.2f} s"

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens a second after the first; None if there are too few to measure."""
        if self.first_s is None or self.output_tokens < 2 or self.whole_s <= self.first_s:  # noqa: PLR2004 - an interval
            return None
        return (self.output_tokens - 1) / (self.whole_s - self.first_s)


@record
class LoadStep:
    """The measurement of so many concurrent requests over a period; percentiles in seconds, None without an answer."""

    concurrency: int
    seconds: float
    requests: int
    failures: int
    input_tokens: int
    output_tokens: int
    first_s: tuple[float, float] | None
    whole_s: tuple[float, float] | None
    failure: str

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all requests together; input tokens for an embedding model."""
        return (self.output_tokens or self.input_tokens) / self.seconds if self.seconds > 0 else 0.0

    @property
    def mean_tokens(self) -> tuple[float, float]:
        """Tokens in and out of an answered request."""
        answered = max(1, self.requests - self.failures)
        return self.input_tokens / answered, self.output_tokens / answered


@record
class LoadSetting:
    """The target of a load test: the plan of its endpoint, with its layout.

    `simulated` marks an endpoint of the sandbox, which measures the local computer.
    """

    model: str
    precision: str
    instance_type: str
    tensor_parallel: int
    copies: int
    batch: int
    sequence: int
    simulated: bool = False


@record
class LoadTest:
    """A ramp of steps, with the quote's rate if it is known."""

    name: str
    at: datetime
    # The requested length.
    input_tokens: int
    # The requested length.
    output_tokens: int
    # None if no local run describes it.
    setting: LoadSetting | None
    steps: tuple[LoadStep, ...]
    # Those that ran at the start.
    instances: int
    # Those that ran at the end.
    instances_after: int
    # Dollars an hour of an instance of the endpoint.
    usd_per_instance_hour: Decimal | None
    quoted_tokens_per_s: float | None

    @property
    def best(self) -> LoadStep:
        """The step with the most tokens a second."""
        return max(self.steps, key=lambda step: step.tokens_per_s)

    @property
    def usd_per_million_output_tokens(self) -> Decimal | None:
        """Dollars of a million output tokens at the best step, full hours paid; None without a rate or a token."""
        return self.usd_per_million_tokens if self.best.output_tokens > 0 else None

    @property
    def usd_per_million_tokens(self) -> Decimal | None:
        """Dollars of a million counted tokens: of answers, or of an embedding's texts."""
        if self.usd_per_instance_hour is None or self.best.tokens_per_s <= 0:
            return None
        hour = Decimal(repr(self.best.tokens_per_s * 3600))
        dollars = self.usd_per_instance_hour * max(1, self.instances) / hour * 1_000_000
        return dollars.quantize(Decimal("0.0001"))
