"""What `slipway endpoint` shows: an answer with its times, and the steps of a load test beside the quote."""

from typing import Any

from launcher.cli.table import Column, render
from launcher.model.endpoint_call import EndpointState, LoadStep, LoadTest, Reply, ServedEndpoint


def answer_page(endpoint: ServedEndpoint, state: EndpointState, reply: Reply) -> list[str]:
    """One answer in a few lines."""
    instances = f"{state.instances} instance{'s' if state.instances != 1 else ''}"
    lines = [
        f"  endpoint {endpoint.name} in {endpoint.region}: {state.status}, {instances}, as deployed",
        f"  {reply.kind}: {reply.input_tokens} tokens in, {reply.output_tokens} out, {reply.whole_s:.2f} s",
    ]
    if reply.first_s is not None:
        rate = f", then {reply.tokens_per_s:.1f} tokens/s" if reply.tokens_per_s is not None else ""
        lines.append(f"  first token after {1000 * reply.first_s:.0f} ms{rate}")
    return [*lines, f"  {reply.shown}"]


def answer_document(endpoint: ServedEndpoint, state: EndpointState, reply: Reply) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "schema": "slipway.answer/1",
        "endpoint": endpoint.name,
        "region": endpoint.region,
        "status": state.status,
        "config": state.config,
        "instances": state.instances,
        "kind": reply.kind,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "ttft_ms": round(1000 * reply.first_s, 1) if reply.first_s is not None else None,
        "latency_ms": round(1000 * reply.whole_s, 1),
        "tokens_per_s": round(reply.tokens_per_s, 3) if reply.tokens_per_s is not None else None,
    }


def step_line(each: LoadStep) -> str:
    """A step as it ends."""
    failed = f", {each.failures} failed: {each.failure}" if each.failures else ""
    return f"{each.concurrency} at once: {each.requests} requests, {each.tokens_per_s:.1f} tokens/s{failed}"


def load_page(found: LoadTest, width: int) -> list[str]:
    """Every step, then the best beside the quote."""
    titles = ("at once", "requests", "failed", "tokens/s", "first p50", "first p95", "whole p50", "whole p95")
    columns = [Column(title=each, right=True) for each in titles]
    rows = [
        [str(each.concurrency), str(each.requests), str(each.failures), f"{each.tokens_per_s:.1f}", *_times(each)]
        for each in found.steps
    ]
    instances = max(1, found.instances)
    lines = [*render(columns, rows, width), ""]
    lines.append(
        f"  measured: {found.best.tokens_per_s:.0f} output tokens/s with {found.best.concurrency} at once,"
        f" on {instances} instance{'s' if instances != 1 else ''}"
    )
    if found.quoted_tokens_per_s:
        quoted = found.quoted_tokens_per_s * instances
        lines.append(f"  quoted:   {quoted:.0f} output tokens/s: {found.best.tokens_per_s / quoted:.0%} of it")
    dollars = found.usd_per_million_output_tokens
    if dollars is not None:
        lines.append(
            f"  ${dollars:.2f} per million output tokens at that, of ${found.usd_per_instance_hour} an instance-hour"
        )
    else:
        lines.append("  no quote in this folder: no dollars per token")
    return lines


def _times(each: LoadStep) -> list[str]:
    """Percentiles of a step, in milliseconds."""
    found: list[str] = []
    for pair in (each.first_s, each.whole_s):
        found += ["-", "-"] if pair is None else [f"{1000 * value:.0f} ms" for value in pair]
    return found
