"""An emulated endpoint on loopback: the parts of SageMaker, its runtime, S3 and CloudFormation that tests need.

It supports chat completions with streaming, embeddings and asynchronous invocations, and can be slow, refuse, stall,
disconnect during a response, or serve the old configuration.
"""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from tests.emulators.answers import check
from tests.emulators.loopback import QuietHandler, listening

SERVICES = {
    "DescribeLogStreams": "logs",
    "GetLogEvents": "logs",
    "DescribeAlarms": "cloudwatch",
    "DescribeInferenceComponent": "sagemaker",
}
"""The services of operations with JSON responses."""
NAME = "slipway-small"
ARN = f"arn:aws:sagemaker:us-east-2:123456789012:endpoint/{NAME}"
MADE = {"CreationTime": 1763600000, "LastModifiedTime": 1763600000}


@dataclass
class Runtime:
    """The behaviour of the endpoint, and the received requests."""

    tokens: int = 8
    first_s: float = 0.0
    token_s: float = 0.0
    stall_after: int | None = None
    break_after: int | None = None
    refuse: int = 0
    empty: bool = False
    usage: bool = True
    status: str = "InService"
    config: str = "config-new"
    mode: str = "variant"
    queue_s: float = 0.0
    queue_fails: bool = False
    alarming: tuple = ()
    log: tuple = ()
    component: tuple = ("InService", "model-new")
    deployed: bool = True
    stack: str = "CREATE_COMPLETE"
    rubbish: bool = False
    gone: bool = False
    digest: str = ""
    template: int | None = None
    """Tokens counted in addition to the words of a prompt; None: always 12 tokens."""
    url: str = ""
    requests: list = field(default_factory=list)
    objects: dict = field(default_factory=dict)
    due: dict = field(default_factory=dict)
    before: list = field(default_factory=list)
    delivered: list = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def environment(self):
        """The environment variables that point a session at the endpoint."""
        return {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": self.url}

    @property
    def outputs(self):
        """The outputs of the endpoint's stack."""
        outputs = {
            "EndpointName": NAME,
            "EndpointConfigName": "config-new",
            "ModelName": "model-new",
            "Mode": self.mode,
            **({"PlanDigest": self.digest} if self.digest else {}),
            **({"InferenceComponentName": NAME} if self.mode == "components" else {}),
        }
        if self.mode == "asynchronous":
            return {**outputs, "RequestsUri": "s3://kept/requests"}
        return (
            outputs if self.mode == "embedding" else {**outputs, "OpenAiUrl": f"{self.url}/endpoints/{NAME}/openai/v1"}
        )


class Handler(QuietHandler):
    """Handles one request."""

    state: "Runtime"
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        self.state.objects[unquote(self.path)] = self.body()
        self.answer(b"")

    def do_GET(self):
        state, path = self.state, unquote(self.path).partition("?")[0]
        if path in state.due and time.monotonic() >= state.due[path][0]:
            state.objects[path] = state.due.pop(path)[1]
        if path in state.objects:
            return self.answer(state.objects[path])
        return self.answer(b"<Error><Code>NoSuchKey</Code></Error>", 404, "application/xml")

    def do_POST(self):
        state, body, path = self.state, self.body(), self.path
        target = self.headers.get("X-Amz-Target", "")
        if path.endswith("/chat/completions"):
            self.chat(json.loads(body))
        elif path.endswith("/async-invocations"):
            self.take(self.headers["X-Amzn-SageMaker-InputLocation"])
        elif path.endswith("/invocations"):
            state.requests.append(("invoke", json.loads(body), dict(self.headers)))
            data = [] if state.empty else [{"embedding": [0.1] * 3}]
            self.send({"data": data, "usage": {"prompt_tokens": 11}})
        elif target.endswith("DescribeEndpoint") and state.gone:
            error = {"__type": "ValidationException", "message": f'Could not find endpoint "{NAME}".'}
            self.answer(json.dumps(error).encode(), 400, "application/x-amz-json-1.1")
        elif target.endswith("DescribeEndpoint"):
            variants = [{"VariantName": "main", "CurrentInstanceCount": 2}]
            status = state.before.pop(0) if state.before else state.status
            described = {"EndpointName": NAME, "EndpointStatus": status, "EndpointConfigName": state.config}
            described = {**described, **MADE, "EndpointArn": ARN, "ProductionVariants": variants}
            check("sagemaker", "DescribeEndpoint", described)
            self.send(described)
        else:
            self.query(parse_qs(body.decode()), target)

    def query(self, fields, target):
        """Handle requests to CloudFormation and CloudWatch."""
        state, action = self.state, fields.get("Action", [target.rpartition(".")[2]])[0]
        answers = {
            "DescribeLogStreams": {"logStreams": [{"logStreamName": "main/1"}] if state.log else []},
            "GetLogEvents": {"events": [{"timestamp": 1, "message": line} for line in state.log]},
            "DescribeAlarms": {"MetricAlarms": [{"AlarmDescription": description} for description in state.alarming]},
            "DescribeInferenceComponent": {
                **MADE,
                "EndpointArn": ARN,
                "EndpointName": NAME,
                "InferenceComponentArn": ARN.replace("endpoint/", "inference-component/"),
                "InferenceComponentName": NAME,
                "InferenceComponentStatus": state.component[0],
                "Specification": {"ModelName": state.component[1]},
            },
        }
        if action in answers:
            check(SERVICES[action], action, answers[action])
            return self.send(answers[action])
        if action == "ListStackResources":
            members = "".join(
                f"<member><LogicalResourceId>{alarm}</LogicalResourceId><PhysicalResourceId>{alarm}</PhysicalResourceId>"
                "<ResourceType>AWS::CloudWatch::Alarm</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus>"
                "<LastUpdatedTimestamp>2026-11-20T00:00:00Z</LastUpdatedTimestamp></member>"
                for alarm in ("Errors",)
            )
            inner = f"<StackResourceSummaries>{members}</StackResourceSummaries>"
            return self.xml("ListStackResources", inner)
        if not state.deployed:
            error = "<Error><Code>ValidationError</Code><Message>Stack does not exist</Message></Error>"
            return self.answer(f"<ErrorResponse>{error}</ErrorResponse>".encode(), 400, "text/xml")
        outputs = "".join(
            f"<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue></member>"
            for key, value in state.outputs.items()
        )
        stack = (
            "<StackId>id</StackId><StackName>slipway-small-serving</StackName>"
            f"<StackStatus>{state.stack}</StackStatus>"
            f"<CreationTime>2026-11-20T00:00:00Z</CreationTime><Outputs>{outputs}</Outputs>"
        )
        return self.xml("DescribeStacks", f"<Stacks><member>{stack}</member></Stacks>")

    def chat(self, body):
        """Send a response, token by token."""
        state = self.state
        state.requests.append(("chat", body, dict(self.headers)))
        if state.refuse:
            return self.answer(b'{"error": "no"}', state.refuse)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        time.sleep(state.first_s)
        if state.rubbish:
            self.wfile.write(b'data: {"choices": [<html>\n\n')
        count = 0 if state.empty else min(state.tokens, body["max_tokens"])
        for index in range(count):
            if index == state.break_after:
                return None
            if index == state.stall_after:
                state.released.wait(30)
                return None
            self.event({"choices": [{"delta": {"content": f"word{index} "}}]})
            state.delivered.append(time.monotonic())
            time.sleep(state.token_s)
        if state.usage:
            word_count = len(body["messages"][0]["content"].split())
            read = 12 if state.template is None else word_count + state.template
            self.event({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": count}})
        self.wfile.write(b"data: [DONE]\n\n")
        return None

    def event(self, data):
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def take(self, location):
        """Accept a request for the queue, whose response is written to S3 later."""
        state = self.state
        document = json.loads(state.objects["/" + location.removeprefix("s3://")])
        state.requests.append(("queue", document, dict(self.headers)))
        usage = {"prompt_tokens": 12, "completion_tokens": 0 if state.empty else state.tokens}
        answer = {"choices": [{"message": {"content": "" if state.empty else "one two"}}], "usage": usage}
        path = "/kept/failures/1" if state.queue_fails else "/kept/answers/1"
        state.due[path] = (time.monotonic() + state.queue_s, json.dumps(answer).encode())
        headers = {
            "X-Amzn-SageMaker-OutputLocation": "s3://kept/answers/1",
            "X-Amzn-SageMaker-FailureLocation": "s3://kept/failures/1",
        }
        self.answer(b'{"InferenceId": "1"}', 202, **headers)

    def xml(self, action, inner):
        text = f'<{action}Response xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">'
        body = f"{text}<{action}Result>{inner}</{action}Result></{action}Response>"
        self.answer(body.encode(), 200, "text/xml")

    def send(self, data):
        self.answer(json.dumps(data).encode())

    def answer(self, body, status=200, kind="application/json", **headers):
        self.send_response(status)
        for key, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))


@contextmanager
def served(state):
    """Serve the endpoint on a loopback port."""
    with listening(type("Handler", (Handler,), {"state": state})) as state.url:
        try:
            yield state
        finally:
            state.released.set()
