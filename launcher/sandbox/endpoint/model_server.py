"""The emulated runtime of a model, which answers requests to the sandbox's endpoints. No model exists.

It implements the API of SageMaker and vLLM: chat completions with a bearer token, streamed or complete; InvokeEndpoint
with chat or embeddings; InvokeEndpointAsync, which writes its answers to S3. All answers have the same words, at a set
pace. It can be slow, refuse, stall or stop in the middle of an answer: see `Behaviour`.
"""

import base64
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from launcher.agent import safe_json
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox import signed
from launcher.sandbox.aws.access_log import Application, Environ
from launcher.sandbox.keys import KeyRing

TOKEN_HOST = "sagemaker.amazonaws.com"  # noqa: S105 - a host
TOKEN_PREFIX = "sagemaker-api-key-"  # noqa: S105 - what every token begins with
ACTION = "CallWithBearerToken"
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/(?P<region>[a-z0-9-]+)/sagemaker/aws4_request")
_WHEN = "%Y%m%dT%H%M%SZ"
PATH = re.compile(
    r"/endpoints/(?P<endpoint>[^/]+)(?:/inference-components/(?P<component>[^/]+))?"
    r"/(?P<kind>openai/v1/chat/completions|invocations|async-invocations)"
)
WORDS = ("This", "is", "a", "stand-in", "of", "the", "sandbox", "and", "no", "model.")
NUMBERS = 8
"""Numbers of an embedding; a model returns hundreds."""
MAX_TOKENS = 16
"""Tokens of an answer if the request sets no limit."""
STALL_S = 600.0
"""Seconds that the connection of a stalled answer stays open."""
LEFT_OUT = (
    "endpoint: its alarms and its guard (stored and readable; nothing triggers them)",
    "endpoint: its instances, image and model (none is started; an emulator answers)",
    "endpoint: its scaling (stored and readable; nothing is scaled)",
    "endpoint: stepwise traffic shifting and its alarm watch time (an update takes effect immediately)",
)
"""Features that a deployment into the sandbox does not test."""


class RequestError(Exception):
    """A refused request: the HTTP status, the error code for SDKs, and the message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message

    def send(self, start_response: Callable[..., Any]) -> list[bytes]:
        """Send the refusal as the answer."""
        body = json.dumps({"message": self.message, "code": self.code}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("x-amzn-ErrorType", self.code),
        ]
        start_response(f"{self.status} {_phrase(self.status)}", headers)
        return [body]


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in {int(known) for known in HTTPStatus} else "Error"


def caller_region(environ: Environ, keys: KeyRing, *, openai: bool) -> str:
    """The region of a request.

    The path of OpenAI clients (`openai`) accepts tokens, the other path signatures.

    Raises:
        RefusedError: the request has no valid token.
    """
    header = environ.get("HTTP_AUTHORIZATION", "")
    return _region_of_token(header.removeprefix("Bearer "), keys) if openai else _region_of(header)


def _region_of(authorization: str) -> str:
    match = _SCOPE.search(authorization)
    if match is None:
        raise RequestError(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    return match["region"]


def _region_of_token(token: str, keys: KeyRing) -> str:
    """The region of a token that is still valid: the token encodes a signed request, built by sagemaker-core."""
    try:
        address = base64.b64decode(token.removeprefix(TOKEN_PREFIX), validate=True).decode()
        host, _, target = address.partition("/")
        request = signed.Request(method="POST", target=f"/{target}", headers={"host": host})
        query = request.query
        ends = datetime.strptime(query["X-Amz-Date"], _WHEN).replace(tzinfo=UTC)
        ends += timedelta(seconds=int(query["X-Amz-Expires"]))
        scope = _SCOPE.fullmatch(f"Credential={query['X-Amz-Credential']}")
    except (KeyError, ValueError) as problem:
        raise RequestError(403, "AccessDeniedException", "The bearer token is invalid") from problem
    if (host, query.get("Action")) != (TOKEN_HOST, ACTION) or not token.startswith(TOKEN_PREFIX) or scope is None:
        raise RequestError(403, "AccessDeniedException", "The bearer token is invalid")
    if datetime.now(UTC) > ends:
        raise RequestError(403, "ExpiredTokenException", "The bearer token has expired")
    try:
        # Its makers add the version when it is signed.
        signed.check(request, keys, ignored=frozenset({"Version"}))
    except signed.AccessError as problem:
        raise RequestError(403, "AccessDeniedException", f"The bearer token is invalid: {problem}") from problem
    return scope["region"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of the emulated runtime; times in seconds."""

    # Before the first token.
    first_s: float = 0.05
    # Between two tokens.
    token_s: float = 0.01
    # Tokens after which an answer stalls, or breaks.
    stall_after: int | None = None
    break_after: int | None = None
    # The status of every request, 0 for none.
    refuse: int = 0
    # Answers contain nothing.
    empty: bool = False
    # Before the answer of a queue.
    queue_s: float = 0.0
    queue_fails: bool = False
    # False: the container does not pass its health check, so that no new version comes into service.
    starts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """An endpoint with the settings of its containers."""

    name: str
    status: str
    # Of the containers, with the model's name, its task and its longest sequence.
    environment: Mapping[str, str]
    # The names of its inference components.
    components: tuple[str, ...]
    # The S3 places of a queue's answers, None without a queue.
    answers: str | None
    failures: str | None

    @property
    def model(self) -> str:
        """The model's name in requests."""
        return self.environment.get("SM_ON_SERVED_MODEL_NAME") or self.environment.get("SM_VLLM_SERVED_MODEL_NAME", "")

    @property
    def embeds(self) -> bool:
        """Whether the model returns embeddings instead of chat."""
        return self.environment.get("SM_ON_TASK") == "embed" or self.environment.get("SM_VLLM_RUNNER") == "pooling"

    @property
    def longest(self) -> int | None:
        """The maximum number of tokens of a request and its answer together; None if the container has no limit."""
        configured = self.environment.get("SM_ON_SEQUENCE_LENGTH") or self.environment.get("SM_VLLM_MAX_MODEL_LEN")
        return int(configured) if configured else None


class ModelServer:
    """A WSGI application that answers requests to endpoints, and passes on all others."""

    def __init__(
        self,
        inner: Application,
        keys: KeyRing,
        behaviour: Callable[[], Behaviour],
        *,
        find: Callable[[str, str], Hosted | None],
        read: Callable[[str], bytes | None],
        write: Callable[[str, bytes], None],
    ) -> None:
        """`find` returns an endpoint by region and name, `read` and `write` access the objects of queues by URI.

        `behaviour` returns the current behaviour, which the sandbox's owner changes.
        """
        self._inner, self._keys, self._behaviour = inner, keys, behaviour
        self._find, self._read_object, self._write_object = find, read, write

    @property
    def behaviour(self) -> Behaviour:
        """The current behaviour."""
        return self._behaviour()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        match = PATH.fullmatch(environ.get("PATH_INFO", "")) if environ.get("REQUEST_METHOD") == "POST" else None
        if match is None:
            return self._inner(environ, start_response)
        length = environ.get("CONTENT_LENGTH") or "0"
        body = environ["wsgi.input"].read(int(length) if length.isdecimal() else 0)
        try:
            region = caller_region(environ, self._keys, openai=match["kind"].startswith("openai"))
            hosted = self._endpoint(region, match["endpoint"])
            return self._answer(hosted, match, body, environ, start_response)
        except RequestError as refusal:
            return refusal.send(start_response)

    def _endpoint(self, region: str, name: str) -> Hosted:
        hosted = self._find(region, name)
        if hosted is None or hosted.status != "InService":
            raise RequestError(400, "ValidationError", f"Endpoint {name} of account {ACCOUNT} not found.")
        return hosted

    def _answer(
        self, hosted: Hosted, match: re.Match[str], body: bytes, environ: Environ, start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        queued = match["kind"] == "async-invocations"
        if queued != (hosted.answers is not None):
            raise RequestError(400, "ValidationError", f"Endpoint {hosted.name} does not support this inference type.")
        if queued:
            return self._take(hosted, environ.get("HTTP_X_AMZN_SAGEMAKER_INPUTLOCATION", ""), start_response)
        component = match["component"] or environ.get("HTTP_X_AMZN_SAGEMAKER_INFERENCE_COMPONENT")
        if hosted.components and component not in hosted.components:
            text = "Inference Component Name header is required for endpoints to which you plan to deploy components"
            raise RequestError(400, "ValidationError", f"{text}, got {component}")
        openai = match["kind"].startswith("openai")
        if self.behaviour.refuse:
            raise _failure(self.behaviour.refuse, openai=openai)
        request = _read(body)
        if openai and hosted.embeds:
            raise RequestError(404, "NotFoundError", "The model does not support Chat Completions API")
        if not openai and hosted.embeds:
            return _send(start_response, self._embedding(hosted, request))
        if request.get("stream"):
            before, tokens = self._tokens(hosted, request)
            start_response("200 OK", [("Content-Type", "text/event-stream"), ("Connection", "close")])
            with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
            return self._stream(hosted, tokens, _usage(before, len(tokens)) if with_usage else None)
        return _send(start_response, self._chat(hosted, request))

    def _embedding(self, hosted: Hosted, request: Mapping[str, Any]) -> dict[str, Any]:
        _refuse_other_model(hosted, request)
        value = request.get("input", "")
        texts = value if isinstance(value, list) else [value]
        vectors = [] if self.behaviour.empty else [_vector(str(text)) for text in texts]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        count = sum(len(str(text).split()) for text in texts)
        time.sleep(self.behaviour.first_s)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "model": hosted.model, "data": data, "usage": usage}

    def _tokens(self, hosted: Hosted, request: Mapping[str, Any]) -> tuple[int, list[str]]:
        _refuse_other_model(hosted, request)
        messages = request.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestError(400, "BadRequestError", "messages: field required")
        before = sum(len(str(message.get("content", "")).split()) for message in messages)
        most = int(request.get("max_tokens") or MAX_TOKENS)
        if hosted.longest is not None and before + most > hosted.longest:
            text = f"This model's maximum context length is {hosted.longest} tokens, and {before + most} are asked for"
            raise RequestError(400, "BadRequestError", text)
        count = 0 if self.behaviour.empty else most
        return before, [f"{WORDS[index % len(WORDS)]} " for index in range(count)]

    def _chat(self, hosted: Hosted, request: Mapping[str, Any]) -> dict[str, Any]:
        before, tokens = self._tokens(hosted, request)
        time.sleep(self.behaviour.first_s + len(tokens) * self.behaviour.token_s)
        message = {"role": "assistant", "content": "".join(tokens)}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        completion = {"object": "chat.completion", "model": hosted.model, "choices": [choice]}
        return {**completion, "usage": _usage(before, len(tokens))}

    def _stream(self, hosted: Hosted, tokens: list[str], usage: Mapping[str, int] | None) -> Iterator[bytes]:
        """Stream an answer word by word; an interrupted answer lacks its end."""
        behaviour = self.behaviour
        time.sleep(behaviour.first_s)
        for index, chunk in enumerate(tokens):
            if index == behaviour.break_after:
                return
            if index == behaviour.stall_after:
                threading.Event().wait(STALL_S)
                return
            time.sleep(behaviour.token_s if index else 0.0)
            yield _event(_chunk(hosted, [{"index": 0, "delta": {"content": chunk}, "finish_reason": None}]))
        if usage is not None:
            yield _event({**_chunk(hosted, []), "usage": usage})
        yield b"data: [DONE]\n\n"

    def _take(self, hosted: Hosted, location: str, start_response: Callable[..., Any]) -> list[bytes]:
        """Accept a request of a queue; the answer appears in S3 after `queue_s` seconds."""
        body = self._read_object(location)
        if body is None:
            raise RequestError(400, "ValidationError", f"Could not find the object at {location}")
        id_ = str(uuid.uuid4())
        answer, failure = f"{hosted.answers}/{id_}.out", f"{hosted.failures}/{id_}-error.out"
        headers = {"X-Amzn-SageMaker-OutputLocation": answer, "X-Amzn-SageMaker-FailureLocation": failure}
        timer = threading.Timer(self.behaviour.queue_s, self._infer, (hosted, body, answer, failure))
        timer.daemon = True
        timer.start()
        return _send(start_response, {"InferenceId": id_}, "202 Accepted", headers)

    def _infer(self, hosted: Hosted, body: bytes, answer: str, failure: str) -> None:
        try:
            if self.behaviour.refuse or self.behaviour.queue_fails:
                raise _failure(self.behaviour.refuse or 500, openai=False)
            request = _read(body)
            response = self._embedding(hosted, request) if hosted.embeds else self._chat(hosted, request)
        except RequestError as refusal:
            self._write_object(failure, refusal.message.encode())
            return
        self._write_object(answer, json.dumps(response).encode())


def _refuse_other_model(hosted: Hosted, request: Mapping[str, Any]) -> None:
    if request.get("model") not in (None, "", hosted.model):
        raise RequestError(404, "NotFoundError", f"The model `{request['model']}` does not exist.")


def _failure(status: int, *, openai: bool) -> RequestError:
    """The error of a failed container: unchanged for OpenAI clients, as a ModelError for SageMaker's own clients."""
    text = f"Received server error ({status}) from primary: the emulator is set to refuse"
    return RequestError(status, "ModelError", text) if openai else RequestError(424, "ModelError", text)


def _read(body: bytes) -> dict[str, Any]:
    try:
        data = safe_json.loads(body)
    except ValueError as problem:
        raise RequestError(400, "BadRequestError", f"no JSON: {problem}") from problem
    if not isinstance(data, dict):
        raise RequestError(400, "BadRequestError", "no JSON object")
    return data


def _vector(text: str) -> list[float]:
    digest = sha256(text.encode()).digest()
    return [round(byte / 255, 6) for byte in digest[:NUMBERS]]


def _usage(before: int, after: int) -> dict[str, int]:
    return {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after}


def _chunk(hosted: Hosted, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "model": hosted.model, "choices": choices}


def _event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _send(
    start_response: Callable[..., Any],
    data: Mapping[str, Any],
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
) -> list[bytes]:
    body = json.dumps(data).encode()
    fixed = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    start_response(status, list({**fixed, **(headers or {})}.items()))
    return [body]
