"""The endpoint of a report, and one of its answers, to JSON and back."""

from collections.abc import Mapping
from typing import Any

from launcher.agent.shape import check_shape
from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import EndpointState, Reply, ServedEndpoint
from launcher.model.report import EndpointReport
from launcher.records.codec import Json, picked


def answer(reply: Reply) -> Json:
    """One answer; times in milliseconds, null if the answer has no such time."""
    return {
        **picked(reply, "kind input_tokens output_tokens"),
        "ttft_ms": round(1000 * reply.first_s, 1) if reply.first_s is not None else None,
        "latency_ms": round(1000 * reply.whole_s, 1),
        "tokens_per_s": round(reply.tokens_per_s, 3) if reply.tokens_per_s is not None else None,
    }


def answer_document(endpoint: ServedEndpoint, state: EndpointState, reply: Reply) -> Json:
    """slipway.answer/1."""
    return {
        "schema": "slipway.answer/1",
        **picked(endpoint, "endpoint=name region"),
        **picked(state, "status config instances"),
        **answer(reply),
    }


def endpoint(report: EndpointReport | None) -> Json | None:
    """The endpoint of a report; null for a run without one."""
    if report is None:
        return None
    return {
        **picked(report, "name region mode status config instances url"),
        "answer": None if report.reply is None else {**answer(report.reply), "shown": report.reply.shown},
    }


_ENDPOINT: dict[str, Any] = {
    **dict.fromkeys(("name", "region", "mode", "status"), str),
    "config": (str, None),
    "instances": (int, None),
    "url": (str, None),
    "answer": (
        {
            "kind": str,
            "input_tokens": (int, None),
            "output_tokens": (int, None),
            "ttft_ms": (float, None),
            "latency_ms": float,
            "shown": (str, None),
        },
        None,
    ),
}


def parse_endpoint(document: Mapping[str, Any] | None) -> EndpointReport | None:
    """The endpoint of a report read back.

    Raises:
        KeyError, ValueError: the document is not an endpoint.
    """
    if document is None:
        return None
    check_shape(document, _ENDPOINT)
    given = document["answer"]
    return EndpointReport(
        name=document["name"],
        region=document["region"],
        mode=EndpointMode(document["mode"]),
        status=document["status"],
        config=document["config"],
        instances=document["instances"],
        url=document["url"],
        reply=None if given is None else _reply(given),
    )


def _reply(data: Mapping[str, Any]) -> Reply:
    first = data["ttft_ms"]
    return Reply(
        kind=data["kind"],
        input_tokens=data["input_tokens"],
        output_tokens=data["output_tokens"],
        first_s=None if first is None else first / 1000,
        whole_s=data["latency_ms"] / 1000,
        shown=data["shown"],
    )
