"""The `endpoint load` command: a bounded ramp of requests, compared with the quote, and stored for later quotes."""

import itertools
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from launcher import plan_file
from launcher.aws import stacks
from launcher.aws.chat import chat
from launcher.aws.endpoints import MAX_TOKEN_S, bearer_token, describe_endpoint, embed
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.catalog.load import load as load_catalog
from launcher.model.endpoint_call import LoadSetting, LoadStep, LoadTest, Reply, ServedEndpoint
from launcher.model.errors import DeploymentFailedError, SlipwayError, UnreadableInputError
from launcher.model.units import number_of
from launcher.planning.serving.measured import parts
from launcher.planning.serving.model import model_of
from launcher.records.load_documents import load_document
from launcher.records.run_folder import RunFolder, with_report
from launcher.workflow.cluster.endpoint import STALL_S, SendRequest, state_of
from launcher.workflow.quote.load_test_history import LOAD_FILE

MEDIAN, TAIL = 0.5, 0.95
USUAL_TOKENS = (256, 250)
"""Input and output tokens if no plan in the folder gives them."""
USUAL_AT_ONCE, MAX_AT_ONCE = 16, 512
"""Concurrent requests if no plan says how many fill an endpoint, and the most that one computer sends in threads."""
TRIES, CLOSE = 4, 0.02
"""The number of corrections of the prompt's length, and the deviation that is close enough."""
TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand"
    " part place case week company system program question work night point home water room mother area money story"
    " fact month lot right study book eye job word business issue side kind head house service friend father power"
    " hour game line end member law car city name team minute idea body back parent face others level office door"
)
"""Words that are mostly one token each in the vocabularies of the open models."""
WORDS = TEXT.split(" ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The requests of a load test: input and output tokens, and how many concurrent requests fill the endpoint.

    `setting` is the deployed configuration, None if no run in the folder has it; `full` is the number of concurrent
    requests that fill one instance with it.
    """

    input_tokens: int
    output_tokens: int
    setting: LoadSetting | None
    full: int | None

    def at_once(self, instances: int) -> int:
        """The default of concurrent requests at the end of the ramp."""
        return USUAL_AT_ONCE if self.full is None else min(MAX_AT_ONCE, max(1, self.full * max(1, instances)))


def plan_load(endpoint: ServedEndpoint, session: Session, root: Path, *, tokens: int | None = None) -> LoadPlan:
    """The load of an endpoint: the lengths of its own plan, if the newest run in the folder is the deployed one."""
    folder = _run(endpoint.served_name, root)
    deployed = stacks.find(session, endpoint.stack)
    digest = deployed.outputs.get("PlanDigest") if deployed is not None else None
    past = None if folder is None else _plan_of_run(folder, digest, load_catalog())
    inputs, outputs = USUAL_TOKENS if past is None else (past.input_tokens, past.output_tokens)
    if endpoint.base_url is None:
        outputs = 0
    elif tokens is not None:
        outputs = tokens
    setting, full = (None, None) if past is None else (past.setting, past.full)
    return LoadPlan(input_tokens=inputs, output_tokens=outputs, setting=setting, full=full)


def _plan_of_run(folder: RunFolder, digest: str | None, catalog: Catalog) -> LoadPlan | None:
    try:
        quoted = folder.read_json("quote.json")
        request = plan_file.load(folder.path / "plan.json")
    except SlipwayError:
        return None
    serve, types = request.workload.serve, request.target.instance_type or ()
    facts = catalog.instance_types.get(types[0]) if len(types) == 1 else None
    model = model_of(serve, catalog) if serve is not None else None
    other = digest is not None and quoted.get("digest") != digest
    if other or serve is None or model is None or facts is None or facts.accelerator is None:
        return None
    degree, batch, sequence = serve.tensor_parallel, serve.batch_size, serve.sequence_length
    if degree is None or batch is None or sequence is None:
        return None
    copies = parts(facts, catalog.accelerators[facts.accelerator]) // degree
    setting = LoadSetting(
        model=model.name,
        precision=serve.weight_format.value,
        instance_type=facts.name,
        tensor_parallel=degree,
        copies=copies,
        batch=batch,
        sequence=sequence,
        simulated=_is_simulated(folder),
    )
    inputs, outputs = serve.input_tokens, serve.answer_tokens
    return LoadPlan(input_tokens=inputs, output_tokens=outputs, setting=setting, full=batch * copies)


def _is_simulated(folder: RunFolder) -> bool:
    try:
        return bool(folder.read_json("report.json").get("simulated"))
    except UnreadableInputError:
        return False


def prompt(words: int, number: int) -> str:
    """A prompt of the given number of common words, different for every `number`.

    Prompts differ from the first word on, so that an engine with a prefix cache must read each prompt.

    >>> prompt(3, 7)
    '7 water month word'
    """
    chosen = (WORDS[(37 * number + 7 * index) % len(WORDS)] for index in range(words))
    return " ".join((str(number), *chosen))


def loader(
    endpoint: ServedEndpoint, session: Session, load_plan: LoadPlan, *, timeout_s: float | None = None
) -> SendRequest:
    """Return a function that sends requests of the planned lengths, each with another prompt and a full-length answer.

    The endpoint counts the tokens of the first prompts, and Slipway adjusts the number of words accordingly.
    """
    numbers = itertools.count(1)
    base_url = endpoint.base_url
    token = bearer_token(session, MAX_TOKEN_S) if base_url is not None else ""
    stall_s = timeout_s or STALL_S

    def ask(words: int, tokens: int) -> Reply:
        text = prompt(words, next(numbers))
        if base_url is None:
            return embed(session, endpoint, text)
        return chat(base_url, token, text, most_tokens=tokens, stall_s=stall_s, whole=True)

    words = load_plan.input_tokens
    for _ in range(TRIES):
        counted = ask(words, 1).input_tokens
        missing = load_plan.input_tokens - counted
        if not counted or abs(missing) <= CLOSE * load_plan.input_tokens:
            break
        words = max(1, words + missing)
    length = words
    return lambda: ask(length, load_plan.output_tokens)


def ramp(most: int) -> tuple[int, ...]:
    """Concurrent requests, doubled up to the maximum.

    >>> ramp(12), ramp(1)
    ((1, 2, 4, 8, 12), (1,))
    """
    doubled = [1 << power for power in range(max(0, most.bit_length())) if 1 << power < most]
    return (*doubled, most)


def step(ask: SendRequest, concurrency: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> LoadStep:
    """Maintain a number of concurrent requests for some seconds; every started request is awaited and counts."""
    begun = clock()

    def keep(_: int) -> list[Reply | SlipwayError]:
        answers: list[Reply | SlipwayError] = []
        while clock() - begun < seconds:
            try:
                answers.append(ask())
            except SlipwayError as problem:
                answers.append(problem)
                if len(answers) > 2 and not any(isinstance(reply, Reply) for reply in answers):  # noqa: PLR2004 - it is down
                    break
        return answers

    with ThreadPoolExecutor(max_workers=concurrency) as workers:
        results = [reply for answers in workers.map(keep, range(concurrency)) for reply in answers]
    lasted = clock() - begun
    replies = [result for result in results if isinstance(result, Reply)]
    failures = [result for result in results if isinstance(result, SlipwayError)]
    return LoadStep(
        concurrency=concurrency,
        seconds=lasted,
        requests=len(results),
        failures=len(failures),
        input_tokens=sum(reply.input_tokens for reply in replies),
        output_tokens=sum(reply.output_tokens for reply in replies),
        first_s=percentiles([reply.first_s for reply in replies if reply.first_s is not None]),
        whole_s=percentiles([reply.whole_s for reply in replies]),
        failure=failures[0].message if failures else "",
    )


def percentiles(values: list[float]) -> tuple[float, float] | None:
    """The median and the 95th percentile; None without values.

    >>> percentiles([3.0, 1.0, 2.0])
    (2.0, 3.0)
    """
    if not values:
        return None
    ordered = sorted(values)
    middle, tail = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (MEDIAN, TAIL))
    return middle, tail


def load(
    endpoint: ServedEndpoint,
    session: Session,
    ask: SendRequest,
    load_plan: LoadPlan,
    *,
    most: int | None,
    seconds: float,
    root: Path,
    now: datetime,
    on_step: Callable[[LoadStep], None],
) -> LoadTest:
    """Run a ramp of concurrent requests, compare it with the newest quote, and store it for later quotes.

    `most`: concurrent requests at the end; None: as many as fill the endpoint. `seconds` is the length of a step.

    Raises:
        DeploymentFailedError: the endpoint differs from its deployment, or all requests of a step failed.
    """
    state = state_of(endpoint, session)
    steps = []
    for concurrency in ramp(most or load_plan.at_once(state.instances)):
        done = step(ask, concurrency, seconds)
        on_step(done)
        if done.failures == done.requests:
            raise DeploymentFailedError(f"no answer with {number_of(concurrency, 'request')} at once: {done.failure}")
        steps.append(done)
    after = describe_endpoint(session, endpoint.name)
    folder = _run(endpoint.served_name, root)
    rate, tokens = _quoted_rate(folder)
    result = LoadTest(
        name=endpoint.served_name,
        at=now,
        input_tokens=load_plan.input_tokens,
        output_tokens=load_plan.output_tokens,
        setting=load_plan.setting,
        steps=tuple(steps),
        instances=state.instances,
        instances_after=after.instances,
        usd_per_instance_hour=rate,
        quoted_tokens_per_s=tokens,
    )
    if folder is not None:
        folder.write_json(LOAD_FILE, load_document(result))
    return result


def _run(name: str, root: Path) -> RunFolder | None:
    try:
        return with_report(name, root)
    except SlipwayError:
        return None


def _quoted_rate(folder: RunFolder | None) -> tuple[Decimal | None, float | None]:
    if folder is None:
        return None, None
    try:
        quote = folder.read_json("quote.json")
    except UnreadableInputError:
        return None, None
    price, serving = quote.get("price") or {}, quote.get("serving") or {}
    try:
        rate = Decimal(str(price.get("usd_per_hour")))
    except InvalidOperation:
        return None, serving.get("tokens_per_s")
    return rate, serving.get("tokens_per_s")
