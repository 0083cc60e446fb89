"""One chat request with a bearer token over SageMaker's OpenAI-compatible path, with a streamed answer."""

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
"""Characters of what cannot be read."""


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
    """Ask for a streamed answer and time its tokens.

    The model's name is left empty: the address names the endpoint, and vLLM refuses a name that it does not know.

    Args:
        base_url: of OpenAI clients, up to /openai/v1.
        token: a bearer token.
        prompt: what is asked.
        most_tokens: of the answer.
        stall_s: seconds without a word after which the answer is given up.
        whole: whether the answer goes on to `most_tokens`, past its own end: `ignore_eos` of vLLM, which serves in all
            pinned images.
        clock: seconds.

    Raises:
        DeploymentFailedError: it refused, stalled, broke off, or answered without a token.
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
    """The events of a stream; None is its proper end. Lines that hold none are comments, which keep a line open."""
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
