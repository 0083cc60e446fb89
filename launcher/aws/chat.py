"""One chat request with a bearer token over SageMaker's OpenAI-compatible path, with a streamed response."""

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from launcher.agent import safe_json
from launcher.model.endpoint_call import Reply
from launcher.model.errors import AwsError, DeploymentFailedError

PATH = "/chat/completions"
END = "[DONE]"
FIRST_ERROR = 400
SHOWN = 200
"""Characters to show of an unreadable response."""


def chat(
    base_url: str,
    token: str,
    prompt: str,
    *,
    most_tokens: int,
    stall_s: float,
    whole: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Reply:
    """Request a streamed response and measure the times of its tokens.

    The model name is empty: the address names the endpoint, and vLLM refuses unknown names.

    Args:
        base_url: of OpenAI clients, up to /openai/v1.
        token: a bearer token.
        prompt: the text to send.
        most_tokens: the maximum number of tokens in the response.
        stall_s: seconds without data after which the response is abandoned.
        whole: whether the response continues to `most_tokens`, past its own end: `ignore_eos` of vLLM, which all
            pinned images serve with.
        clock: the time in seconds.

    Raises:
        DeploymentFailedError: the endpoint refused, stalled, broke off, or returned no token.
    """
    parts = urlsplit(base_url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.netloc, timeout=stall_s)
    body = {
        "model": "",
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": most_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if whole:
        body["ignore_eos"] = True
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    begun = clock()
    try:
        connection.request("POST", parts.path + PATH, json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status >= FIRST_ERROR:
            text = answer.read(300).decode(errors="replace")
            raise DeploymentFailedError(f"the endpoint answered {answer.status}: {text}")
        return _reply(answer, begun, clock)
    except TimeoutError as problem:
        raise DeploymentFailedError(f"no word of the answer for {stall_s:.0f} s") from problem
    except (OSError, HTTPException) as problem:
        raise AwsError(f"chat with {parts.netloc}: {type(problem).__name__}: {problem}") from problem
    finally:
        connection.close()


def _reply(answer: HTTPResponse, begun: float, clock: Callable[[], float]) -> Reply:
    first: float | None = None
    pieces: list[str] = []
    usage: dict[str, Any] = {}
    ended = False
    for event in _events(answer):
        if event is None:
            ended = True
            break
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            text = (choice.get("delta") or {}).get("content")
            if text:
                first = clock() - begun if first is None else first
                pieces.append(str(text))
    whole = clock() - begun
    if not ended:
        raise DeploymentFailedError(f"the answer broke off after {len(pieces)} tokens")
    tokens = int(usage.get("completion_tokens", len(pieces)))
    if tokens <= 0 or first is None:
        raise DeploymentFailedError("the endpoint answered without a token")
    return Reply(
        kind="chat",
        input_tokens=int(usage.get("prompt_tokens", 0)),
        output_tokens=tokens,
        first_s=first,
        whole_s=whole,
        shown="".join(pieces)[:80],
    )


def _events(answer: HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """The events of a stream; None is its regular end. Lines without an event are comments that keep it open."""
    while line := answer.readline():
        text = line.decode(errors="replace").strip()
        if not text.startswith("data:"):
            continue
        data = text.removeprefix("data:").strip()
        if data == END:
            yield None
            return
        try:
            event = safe_json.loads(data) if data.startswith("{") else {}
        except ValueError:
            raise DeploymentFailedError(f"the endpoint's answer holds what is not JSON: {data[:SHOWN]}") from None
        if "error" in event:
            raise DeploymentFailedError(f"the endpoint failed in the middle of an answer: {event['error']}")
        yield event
