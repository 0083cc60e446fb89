"""`slipway endpoint`: its address, tokens for it, one real request, and a bounded load test."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import completion, options, output, places
from launcher.cli.option_values import region_name
from launcher.model.errors import ImpossibleError, SlipwayError, UnreadableInputError
from launcher.records.run_folder import latest

if TYPE_CHECKING:
    from launcher.aws.session import Session

Where = Annotated[
    str | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="The endpoint's region. Default: the region of the newest run.",
        autocompletion=completion.regions,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", min=1, metavar="SECONDS", help="Request timeout. Default: 60; asynchronous: 1800."),
]
Tokens = Annotated[int, typer.Option("--tokens", min=1, max=100_000, help="Maximum tokens of the response.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Use a deployed endpoint: its URL, a token, one request, a load test.", no_args_is_help=True
    )
    group.command("test")(send_request)
    group.command("load")(load)
    group.command("url")(url)
    group.command("token")(token)
    app.add_typer(group, name="endpoint")


def send_request(
    name: options.RunName,
    *,
    region: Where = None,
    tokens: Tokens = 64,
    timeout: Timeout = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """Check that an endpoint runs the deployed configuration, and send it one real request."""
    from launcher.answers.endpoint import answer_document, answer_page
    from launcher.workflow.cluster.endpoint import probe, request_sender, served_endpoint

    name = places.plan_name(name, region)
    session = _session(name, region, sandbox=sandbox)
    endpoint = served_endpoint(name, session)
    state, reply = probe(endpoint, session, request_sender(endpoint, session, most_tokens=tokens, timeout_s=timeout))
    if json:
        output.document(answer_document(endpoint, state, reply))
    else:
        output.result(answer_page(endpoint, state, reply))


def load(
    name: options.RunName,
    *,
    region: Where = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--concurrency", min=1, max=512, help="Maximum parallel requests. Default: what saturates the endpoint."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=1, max=600, help="Duration of each step.")] = 30,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, max=100_000, help="Tokens of each response. Default: the plan's.")
    ] = None,
    timeout: Timeout = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """Run a load test with increasing concurrency; later quotes use the result."""
    from launcher.answers.endpoint import load_line, load_page, step_line
    from launcher.model.endpoint import EndpointMode
    from launcher.records.load_documents import load_document
    from launcher.workflow.cluster.endpoint import served_endpoint
    from launcher.workflow.run.endpoint_load import load as run
    from launcher.workflow.run.endpoint_load import loader, plan_load

    name = places.plan_name(name, region)
    session = _session(name, region, sandbox=sandbox)
    endpoint = served_endpoint(name, session)
    if endpoint.mode is EndpointMode.ASYNCHRONOUS:
        message = f"{name} reads its requests from a queue: parallel requests do not change its speed"
        raise ImpossibleError(message, hint=f"slipway endpoint test {name} sends one request")
    root = Path.cwd()
    load_plan = plan_load(endpoint, session, root, tokens=tokens)
    output.say(load_line(load_plan.input_tokens, load_plan.output_tokens, load_plan.setting))
    done = run(
        endpoint,
        session,
        loader(endpoint, session, load_plan, timeout_s=timeout),
        load_plan,
        most=most,
        seconds=seconds,
        root=root,
        now=options.now(),
        on_step=lambda step: output.say(step_line(step)),
    )
    if json:
        output.document(load_document(done))
    else:
        output.result(load_page(done, output.terminal_width()))


def url(name: options.RunName, *, region: Where = None, sandbox: options.AttachSandbox = False) -> None:
    """Print the base URL for OpenAI clients."""
    from launcher.workflow.cluster.endpoint import served_endpoint

    name = places.plan_name(name, region)
    endpoint = served_endpoint(name, _session(name, region, sandbox=sandbox))
    if endpoint.base_url is None:
        raise ImpossibleError(
            f"{name} has no chat API: OpenAI clients only support chat", hint=f"slipway endpoint test {name}"
        )
    output.result([endpoint.base_url])
    output.say(f"leave the model's name empty; the key: slipway endpoint token {name}")


def token(
    name: options.RunName,
    *,
    region: Where = None,
    hours: Annotated[float, typer.Option("--hours", min=0.1, max=12, help="Validity of the token in hours.")] = 1,
    sandbox: options.AttachSandbox = False,
) -> None:
    """Print a short-lived bearer token for the region's endpoints, signed with your credentials."""
    from launcher.aws.endpoints import bearer_token

    name = places.plan_name(name, region)
    output.result([bearer_token(_session(name, region, sandbox=sandbox), round(hours * 3600))])
    output.say("anyone with this token can call every endpoint that you can: treat it like a password")


def _session(name: str, region: str | None, *, sandbox: bool) -> "Session":
    from launcher.aws.session import Session

    environment = places.environment_of(name, sandbox=sandbox, region=region)
    if region is None:
        try:
            region = str(latest(name, Path.cwd()).read_json("plan.json")["target"]["region"])
        except (SlipwayError, KeyError) as problem:
            message = f"no run of {name} in this folder names its region"
            raise UnreadableInputError(message, hint="give the region: --region us-east-1") from problem
    return Session(environment=environment, region=region)
