"""The pages of `slipway endpoint`: a response with its times, and the steps of a load test next to the quote."""

from typing import Literal

from launcher.answers.table import Column, render
from launcher.model.endpoint_call import EndpointState, LoadSetting, LoadStep, LoadTest, Reply, ServedEndpoint
from launcher.model.report import EndpointReport, Report
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.records.load_documents import load_document, past_load_test
from launcher.records.report_document import answer_figures


@json_object
class AnswerDocument:
    """One response of an endpoint; milliseconds, null if the response has no such time."""

    schema: Literal["slipway.answer/1"] = "slipway.answer/1"
    endpoint: str
    region: str
    status: str
    config: str
    instances: int
    kind: str
    input_tokens: int
    output_tokens: int
    ttft_ms: float | None
    latency_ms: float
    tokens_per_s: float | None


def answer_document(endpoint: ServedEndpoint, state: EndpointState, reply: Reply) -> Json:
    """slipway.answer/1."""
    return as_json(
        AnswerDocument(
            endpoint=endpoint.name,
            region=endpoint.region,
            status=state.status,
            config=state.config,
            instances=state.instances,
            **answer_figures(reply),
        )
    )


def answer_page(endpoint: ServedEndpoint, state: EndpointState, reply: Reply) -> list[str]:
    """One response in a few lines."""
    place = f"endpoint {endpoint.name} in {endpoint.region}"
    return [f"  {place}: {state.status}, {number_of(state.instances, 'instance')}, as deployed", *reply_lines(reply)]


def reply_lines(reply: Reply) -> list[str]:
    """One response: its tokens, its times, and its first words."""
    lines = [f"  {reply.kind}: {reply.summary}"]
    if reply.first_s is not None:
        rate = f", then {reply.tokens_per_s:.1f} tokens/s" if reply.tokens_per_s is not None else ""
        lines.append(f"  first token after {1000 * reply.first_s:.0f} ms{rate}")
    return [*lines, f"  {reply.shown}"]


def endpoint_lines(report: Report, endpoint: EndpointReport) -> list[str]:
    """The endpoint of a report, and its response if one was requested."""
    simulated = ", simulated" if report.simulated else ""
    place = f"endpoint {endpoint.name} in {endpoint.region}"
    lines = ["", f"  {report.name}: {report.status.value}{simulated}", ""]
    lines.append(f"  {place}: {endpoint.status}, {number_of(endpoint.instances, 'instance')}, as deployed")
    return [*lines, *(reply_lines(endpoint.reply) if endpoint.reply is not None else [])]


def load_line(input_tokens: int, output_tokens: int, setting: LoadSetting | None) -> str:
    """The requests that a load test will send."""
    answers = f"and {output_tokens} out" if output_tokens else "and an embedding out"
    whose = "as in the plan" if setting is not None else "no run in this folder is what was deployed: not for quotes"
    return f"requests of about {input_tokens} tokens in {answers}: {whose}"


def step_line(step: LoadStep) -> str:
    """A completed step of a load test."""
    failed = f", {step.failures} failed: {step.failure}" if step.failures else ""
    requests = number_of(step.requests, "request")
    return f"{step.concurrency} concurrent: {requests}, {step.tokens_per_s:,.1f} tokens/s{failed}"


def load_page(load: LoadTest, width: int) -> list[str]:
    """Every step, then the best step next to the quote."""
    columns: list[Column[LoadStep]] = [
        Column("concurrent", lambda step: str(step.concurrency), "right"),
        Column("requests", lambda step: str(step.requests), "right"),
        Column("failed", lambda step: str(step.failures), "right"),
        Column("tokens/s", lambda step: f"{step.tokens_per_s:,.1f}", "right"),
        Column("first p50", lambda step: _milliseconds(step.first_s, 0), "right"),
        Column("first p95", lambda step: _milliseconds(step.first_s, 1), "right"),
        Column("total p50", lambda step: _milliseconds(step.whole_s, 0), "right"),
        Column("total p95", lambda step: _milliseconds(step.whole_s, 1), "right"),
    ]
    instances = max(1, load.instances)
    lines = [*render(columns, load.steps, width), ""]
    tokens = "output tokens" if load.best.output_tokens else "input tokens"
    requests = number_of(load.best.concurrency, "concurrent request")
    lines.append(
        f"  measured: {load.best.tokens_per_s:,.0f} {tokens}/s with {requests}, on {number_of(instances, 'instance')}"
    )
    if load.quoted_tokens_per_s:
        quoted = load.quoted_tokens_per_s * instances
        lines.append(f"  quoted:   {quoted:,.0f} {tokens}/s: {load.best.tokens_per_s / quoted:.0%} of it")
    dollars = load.usd_per_million_tokens
    if dollars is not None:
        lines.append(
            f"  ${dollars:.2f} per million {tokens} at that, of ${load.usd_per_instance_hour} an instance-hour"
        )
    else:
        lines.append("  no quote in this folder: no dollars per token")
    return [*lines, *_counting(load)]


def _counting(load: LoadTest) -> list[str]:
    past = past_load_test(load_document(load))
    if past is None:
        return []
    if past.unfit:
        return [f"  later quotes leave it out: {past.unfit}"]
    full = past.row.batch * past.row.copies
    if past.row.concurrency < full:
        count = full * max(1, load.instances)
        requests = number_of(count, "concurrent request")
        return [f"  later quotes leave it out: {requests} would fill the endpoint: --concurrency {count}"]
    return ["  saved in the run folder: later quotes of this layout and these lengths use it"]


def _milliseconds(pair: tuple[float, float] | None, index: int) -> str:
    return "-" if pair is None else f"{1000 * pair[index]:.0f} ms"
