"""An endpoint that is there, what it answered to one request, and what many requests measured."""

from dataclasses import dataclass
from decimal import Decimal

from launcher.model.endpoint import EndpointMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEndpoint:
    """An endpoint as its stack's outputs name it.

    `config` is the configuration it was deployed with. `base_url` is that of OpenAI clients, None where it takes no
    chat; `requests_uri` is where an asynchronous one takes its requests from, None where it has no queue.
    """

    name: str
    region: str
    mode: EndpointMode
    config: str
    stack: str
    component: str | None
    base_url: str | None
    requests_uri: str | None
    served_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointState:
    """An endpoint as SageMaker describes it; `reason` is empty where it gives none."""

    status: str
    config: str
    instances: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: tokens, seconds to the first of them (None where they come together) and to the last."""

    kind: str
    input_tokens: int
    output_tokens: int
    first_s: float | None
    whole_s: float
    shown: str

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens a second once they come; None where there are too few to say."""
        if self.first_s is None or self.output_tokens < 2 or self.whole_s <= self.first_s:  # noqa: PLR2004 - an interval
            return None
        return (self.output_tokens - 1) / (self.whole_s - self.first_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """What so many requests at once measured over a while; percentiles in seconds, None without an answer."""

    concurrency: int
    seconds: float
    requests: int
    failures: int
    output_tokens: int
    first_s: tuple[float, float] | None
    whole_s: tuple[float, float] | None
    failure: str

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second of all requests together."""
        return self.output_tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTest:
    """A ramp of steps, beside the quote where there is one: dollars an hour of the instances that served it."""

    name: str
    steps: tuple[LoadStep, ...]
    instances: int
    usd_per_instance_hour: Decimal | None
    quoted_tokens_per_s: float | None

    @property
    def best(self) -> LoadStep:
        """The step with the most tokens a second."""
        return max(self.steps, key=lambda each: each.tokens_per_s)

    @property
    def usd_per_million_output_tokens(self) -> Decimal | None:
        """What a million output tokens cost at the best step, whole hours paid; None without a rate or a token."""
        if self.usd_per_instance_hour is None or self.best.tokens_per_s <= 0:
            return None
        hour = Decimal(repr(self.best.tokens_per_s * 3600))
        dollars = self.usd_per_instance_hour * max(1, self.instances) / hour * 1_000_000
        return dollars.quantize(Decimal("0.0001"))
