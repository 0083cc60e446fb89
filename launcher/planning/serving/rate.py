"""Tokens per second and latencies of one copy under a steady load, from the times of its steps."""

from collections.abc import Mapping
from typing import NamedTuple

from launcher.model.serving import Copy, ServingFacts
from launcher.planning.serving import gpu, neuron
from launcher.planning.serving.neuron import Times
from launcher.planning.serving.software import NEURON_SOFTWARE, SCHEDULED

BUSIEST = 0.95
"""Share of the time spent on prompts above which a queue of prompts has no useful mean."""


class CopyRate(NamedTuple):
    """One full copy: requests and output tokens a second, milliseconds to the first token and between tokens.

    An embedding model generates no tokens: `tokens_per_s` then counts the input, and `tpot_ms` is 0.
    """

    requests_per_s: float
    tokens_per_s: float
    ttft_ms: float
    tpot_ms: float


def family(copy: Copy) -> str:
    """The family of coefficients: neuron, gpu, or mixture for a mixture of experts on GPUs."""
    if copy.software in NEURON_SOFTWARE:
        return "neuron"
    return "mixture" if copy.model.mixture else "gpu"


def coefficients(copy: Copy, facts: ServingFacts) -> Mapping[str, float]:
    """The coefficients of a copy's family."""
    return {"neuron": facts.neuron, "gpu": facts.gpu, "mixture": facts.mixture}[family(copy)]


def times(copy: Copy, facts: ServingFacts) -> Times:
    """The times of a copy's steps."""
    known = coefficients(copy, facts)
    return neuron.times(copy, known) if family(copy) == "neuron" else gpu.times(copy, known)


def rate(copy: Copy, facts: ServingFacts, *, live: int | None = None) -> CopyRate:
    """The rate of a copy with `live` concurrent requests; None means as many as its batch holds."""
    return rate_of(copy, times(copy, facts), coefficients(copy, facts)["scheduling"], live=live)


def rate_of(copy: Copy, step: Times, scheduling: float, *, live: int | None = None) -> CopyRate:
    """The rate from the times of the steps.

    Every request of a full batch pays for its own prompt and waits while the others' prompts are read, so a batch of B
    with L output tokens each needs B x prefill + L x decode. `scheduling` is the share of the rate that remains with a
    scheduler that admits requests one by one, if there are several. The first token waits in a queue with one server
    (prompts are read one at a time) at the share of time that prompts use: M/D/1, rho / (2 (1 - rho)) prompts,
    after one step.
    """
    at_once = float(copy.batch if live is None else min(live, copy.batch))
    efficiency = scheduling if copy.software in SCHEDULED and at_once > 1 else 1.0
    prompts_s = at_once * step.prefill_s + step.shared_prefill_s
    whole_s = prompts_s + copy.output_tokens * step.decode_s
    requests = efficiency * at_once / whole_s
    if not copy.output_tokens:
        return CopyRate(requests, requests * copy.input_tokens, 1000 * (step.prefill_s + step.shared_prefill_s), 0.0)
    busy = min(BUSIEST, prompts_s / whole_s)
    wait_s = busy / (2 * (1 - busy)) * step.prefill_s if at_once > 1 else 0.0
    ttft_s = step.shared_prefill_s + step.prefill_s + wait_s + (step.decode_s if at_once > 1 else 0.0)
    others_s = (at_once - 1) * step.prefill_s / copy.output_tokens
    return CopyRate(
        requests, requests * copy.output_tokens, 1000 * ttft_s, 1000 * (step.decode_s + others_s) / efficiency
    )
