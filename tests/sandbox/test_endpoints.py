"""Endpoints in the sandbox: deployed by the CDK's own CLI, read back, invoked, updated, rolled back, removed."""

import json
import re
from datetime import UTC, datetime

import pytest

from launcher.aws import stacks
from launcher.aws.endpoint_parts import describe_component, describe_config, describe_scaling
from launcher.aws.endpoints import describe_endpoint
from launcher.aws.session import Session
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.model.errors import DeploymentFailedError
from launcher.sandbox.endpoint.model_server import Behaviour
from launcher.sandbox.sandbox import Sandbox
from launcher.targets.sagemaker_endpoint.stacks import EndpointStacks
from launcher.workflow.deploy.context import DeployOptions
from launcher.workflow.deploy.endpoint import run_endpoint
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.documents import read_document
from tests.plans import EXAMPLES

pytestmark = pytest.mark.xdist_group("endpoints")


class World:
    """An example in a folder of its own, deployed as `slipway deploy` and `launch` do it, into one sandbox."""

    def __init__(self, example, sandbox, root):
        self.path, self.sandbox, self.root = root / "plan.yaml", sandbox, root
        self.path.write_text((EXAMPLES / example).read_text())
        self.session = Session(environment=sandbox.process_environment({}), region=sandbox.region)
        self.messages = []
        self.notify = self.messages.append
        self.first = None

    def run(self, *, ask, changes=(), sandbox=True):
        """Deploy the changed plan file. `ask`: send a request, as `launch` does. Without `sandbox`, AWS is emulated."""
        text = self.path.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.path.write_text(text)
        priced = price(self.path, datetime.now(UTC), PriceOptions(any_age=True))
        rank, quoted = pick(priced, None)
        # An account that is prepared: the doctor is not run against a sandbox.
        account = None if sandbox else ACCOUNT
        options = DeployOptions(
            root=self.root, sandbox=sandbox, dry_run=False, notify=self.notify, emulator=self.sandbox, account=account
        )
        folder, _, _ = run_endpoint(priced, rank, quoted, options, ask=ask)
        return folder

    def outputs(self, name):
        return stacks.describe(self.session, f"slipway-{name}-serving").outputs


@pytest.fixture
def slipway_in(slipway, monkeypatch):
    """Runs a command in a world: exit code, standard output, standard error."""

    def run(world, *arguments):
        monkeypatch.chdir(world.root)
        # The sandbox does not keep running, so its environment is used as an account's.
        for record in (world.root / ".slipway" / "runs").glob("*/*/command.json"):
            record.unlink(missing_ok=True)
        for name, value in world.sandbox.environment.items():
            monkeypatch.setenv(name, value)
        return slipway(*arguments)

    return run


def report_of(run):
    return json.loads((run.path / "report.json").read_text())


def assert_all_is_read_back(world, run):
    """Every type of the template has a reader, something that it could read, and something behind it."""
    assert any(re.search(r"read back and as planned: \d+ facts", line) for line in world.messages), world.messages
    templates = [json.loads(path.read_text()) for path in run.assembly.glob("*.template.json")]
    types = {resource["Type"] for template in templates for resource in template["Resources"].values()}
    assert types <= {type_ for _, types in EndpointStacks.readers for type_ in types}
    assert not types & {resource.type for resource in world.sandbox.resources() if resource.model == "nothing"}
    not_emulated = report_of(run)["not_emulated"]
    assert not [entry for entry in not_emulated if "Slipway has no check for it" in entry]
    assert [entry for entry in not_emulated if "an emulator answers" in entry]


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """Llama 3.1 8B on inf2.48xlarge: three copies an instance, as inference components."""
    with Sandbox(region="us-east-1", scheduler="local") as sandbox:
        world = World("serve/pinned/llama31-8b-inf2.yaml", sandbox, tmp_path_factory.mktemp("chat"))
        world.first = world.run(ask=True)
        yield world


class TestChatOnInferentia:
    """Step by step; the last takes it down."""

    def test_chat_on_inferentia_is_deployed_verified_and_answers(self, chat):
        assert_all_is_read_back(chat, chat.first)
        report = report_of(chat.first)
        assert (report["status"], report["simulated"], report["attempts"]) == ("succeeded", True, [])
        assert report["stacks"] == [{"name": "slipway-llama31-8b-inf2-serving", "status": "CREATE_COMPLETE"}]
        endpoint = report["endpoint"]
        assert (endpoint["name"], endpoint["mode"], endpoint["status"]) == (
            "slipway-llama31-8b-inf2",
            "components",
            "InService",
        )
        answer = endpoint["answer"]
        assert (answer["kind"], answer["output_tokens"]) == ("chat", 64)
        assert answer["ttft_ms"] > 0
        assert answer["tokens_per_s"] > 0
        assert "stand-in" in answer["shown"]
        events = [json.loads(line)["event"] for line in chat.first.events.read_text().splitlines()]
        assert events == ["deployed", "in-service", "answered"]
        for name in ("plan.json", "quote.json", "outputs.json", "rendered/endpoint.json"):
            assert (chat.first.path / name).is_file(), name

    @pytest.mark.parametrize(
        "how, message",
        [
            ({"refuse": 500}, "the endpoint answered 500"),
            ({"empty": True}, "answered without a token"),
            ({"break_after": 3}, "the answer broke off after 3 tokens"),
            ({"stall_after": 3}, "no word of the answer for 1 s"),
            ({"first_s": 30.0}, "no word of the answer for 1 s"),
        ],
    )
    def test_failing_runtime_is_named_by_endpoint_test(self, chat, slipway_in, how, message):
        chat.sandbox.behave(Behaviour(**how))
        try:
            code, _, err = slipway_in(chat, "endpoint", "test", "llama31-8b-inf2", "--timeout", "1")
        finally:
            chat.sandbox.behave(Behaviour())
        assert code == 6
        assert message in err

    def test_slow_runtime_latency_is_measured(self, chat, slipway_in):
        chat.sandbox.behave(Behaviour(first_s=0.5, token_s=0.02))
        try:
            code, out, err = slipway_in(chat, "endpoint", "test", "llama31-8b-inf2", "--tokens", "10", "--json")
        finally:
            chat.sandbox.behave(Behaviour())
        assert code == 0, err
        answer = read_document(out)
        assert answer["output_tokens"] == 10
        assert answer["ttft_ms"] >= 500

    def test_changed_plan_updates_running_endpoint(self, chat):
        before = chat.outputs("llama31-8b-inf2")
        run = chat.run(
            ask=False,
            changes=(("inf2-tp8-b32-s2048 ", "inf2-tp8-b32-s2048-v2 "), ("max_instances: 5", "max_instances: 6")),
        )
        after = chat.outputs("llama31-8b-inf2")
        assert after["EndpointName"] == before["EndpointName"]
        assert after["EndpointConfigName"] != before["EndpointConfigName"]
        assert describe_endpoint(chat.session, after["EndpointName"]).config == after["EndpointConfigName"]
        (variant,) = describe_config(chat.session, after["EndpointConfigName"])["ProductionVariants"]
        assert variant["ManagedInstanceScaling"]["MaxInstanceCount"] == 6
        component = describe_component(chat.session, after["InferenceComponentName"])
        assert component["Specification"]["ModelName"] == after["ModelName"] != before["ModelName"]
        scaled = describe_scaling(chat.session, f"inference-component/{after['EndpointName']}")
        assert [(range_["MinCapacity"], range_["MaxCapacity"]) for range_ in scaled["ScalableTargets"]] == [(3, 18)]
        sagemaker = chat.session.client("sagemaker")
        assert [model["ModelName"] for model in sagemaker.list_models()["Models"]] == [after["ModelName"]]
        report = report_of(run)
        assert (report["status"], report["stacks"][0]["status"]) == ("succeeded", "UPDATE_COMPLETE")
        assert report["endpoint"]["answer"] is None

    def test_failed_launch_reports_running_endpoint_with_price(self, chat, monkeypatch):
        for name, value in chat.sandbox.environment.items():
            monkeypatch.setenv(name, value)
        chat.sandbox.behave(Behaviour(empty=True))
        try:
            with pytest.raises(DeploymentFailedError, match="answered without a token"):
                chat.run(ask=True, sandbox=False)
        finally:
            chat.sandbox.behave(Behaviour())
        assert re.fullmatch(
            r"endpoint slipway-llama31-8b-inf2 runs, InService, at up to \$[\d.]+ an hour: "
            r"slipway endpoint test llama31-8b-inf2 sends a request, slipway down llama31-8b-inf2 removes it",
            chat.messages[-1],
        )

    def test_interrupted_update_reports_running_endpoint(self, chat, monkeypatch):
        """Ctrl-C while CloudFormation is at it, as the terminal sends it."""
        for name, value in chat.sandbox.environment.items():
            monkeypatch.setenv(name, value)
        add_message = chat.messages.append

        def notify(line):
            add_message(line)
            if "UPDATE_IN_PROGRESS" in line or "deployed in" in line:
                raise KeyboardInterrupt

        monkeypatch.setattr(chat, "notify", notify)
        with pytest.raises(KeyboardInterrupt):
            chat.run(ask=False, sandbox=False, changes=(("max_instances: 6", "max_instances: 7"),))
        assert "endpoint slipway-llama31-8b-inf2 runs" in chat.messages[-1]
        report = json.loads(max(chat.root.rglob("report.json"), key=lambda path: path.stat().st_mtime).read_text())
        assert report["status"] == "interrupted"
        assert report["stacks"][0]["name"] == "slipway-llama31-8b-inf2-serving"

    def test_down_of_chat_endpoint_leaves_no_resources(self, chat, slipway_in):
        code, out, err = slipway_in(chat, "down", "plan.yaml", "--yes", "--json")
        assert code == 0, err
        removal = read_document(out)
        assert removal["stacks"] == [{"name": "slipway-llama31-8b-inf2-serving", "status": "DELETE_COMPLETE"}]
        assert removal["instances"] == [{"instance_type": "ml.inf2.48xlarge", "count": 1}]
        assert removal["kept"] == []
        sagemaker = chat.session.client("sagemaker")
        assert sagemaker.list_endpoints()["Endpoints"] == []
        assert sagemaker.list_inference_components()["InferenceComponents"] == []
        assert sagemaker.list_models()["Models"] == []
        assert chat.session.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
        code, _, err = slipway_in(chat, "endpoint", "test", "llama31-8b-inf2")
        assert (code, "llama31-8b-inf2 has no endpoint" in err) == (5, True)


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory):
    """Summaries on inf2.8xlarge, asynchronous, down to no instance."""
    with Sandbox(region="us-east-2", scheduler="local") as sandbox:
        world = World("serve/pinned/asynchronous-inf2.yaml", sandbox, tmp_path_factory.mktemp("queue"))
        world.first = world.run(ask=True)
        yield world


class TestQueue:
    """Step by step; the last takes it down."""

    def test_asynchronous_endpoint_answers_through_s3(self, asynchronous):
        assert_all_is_read_back(asynchronous, asynchronous.first)
        answer = report_of(asynchronous.first)["endpoint"]["answer"]
        assert (answer["kind"], answer["output_tokens"], answer["ttft_ms"]) == ("asynchronous", 64, None)
        assert "an alarm scales it up from zero: yes" in report_of(asynchronous.first)["verified_resources"]

    @pytest.mark.parametrize(
        "how, message", [({"queue_fails": True}, "failed on a request"), ({"queue_s": 60.0}, "gave no answer in 3 s")]
    )
    def test_failing_queue_is_named_by_endpoint_test(self, asynchronous, slipway_in, how, message):
        asynchronous.sandbox.behave(Behaviour(**how))
        try:
            code, _, err = slipway_in(asynchronous, "endpoint", "test", "summaries-inf2", "--timeout", "3")
        finally:
            asynchronous.sandbox.behave(Behaviour())
        assert (code, message in err) == (6, True), err

    def test_update_rolled_back_by_alarm_ends_with_6_and_alarm_text(self, asynchronous):
        before = asynchronous.outputs("summaries-inf2")
        (alarm,) = [
            resource.physical_id
            for resource in stacks.resources(asynchronous.session, "slipway-summaries-inf2-serving")
            if resource.logical_id.startswith("AlarmsErrors")
        ]
        ring, alarms = (
            {"AlarmName": alarm, "StateReason": "played by a test"},
            asynchronous.session.client("cloudwatch"),
        )
        alarms.set_alarm_state(**ring, StateValue="ALARM")
        with pytest.raises(DeploymentFailedError) as failure:
            asynchronous.run(ask=True, changes=(("inf2-tp2-b16-s4096", "inf2-tp2-b16-s4096-v2"),))
        assert failure.value.exit_code == 6
        assert f"runs {before['EndpointConfigName']}, deployed was " in failure.value.message
        assert "the update was rolled back" in failure.value.message
        assert "alarm: Slipway slipway-summaries-inf2: requests of the queue fail" in failure.value.message
        alarms.set_alarm_state(**ring, StateValue="OK")
        runs = sorted((asynchronous.root / ".slipway/runs/summaries-inf2").glob("2*/report.json"))
        report = json.loads(runs[-1].read_text())
        assert (report["status"], report["endpoint"]) == ("failed", None)

    @pytest.mark.slow
    def test_new_version_failing_to_start_ends_with_6_and_log(self, asynchronous):
        before = asynchronous.outputs("summaries-inf2")
        asynchronous.sandbox.behave(Behaviour(starts=False))
        try:
            with pytest.raises(DeploymentFailedError) as failure:
                asynchronous.run(ask=True, changes=(("inf2-tp2-b16-s4096", "inf2-tp2-b16-s4096-late"),))
        finally:
            asynchronous.sandbox.behave(Behaviour())
        assert failure.value.exit_code == 6
        assert "did not pass the ping health check" in failure.value.message
        assert failure.value.message.count("ERROR the model cannot be loaded") == 1
        assert asynchronous.outputs("summaries-inf2") == before

    def test_down_of_asynchronous_endpoint_retains_requests_bucket(self, asynchronous, slipway_in):
        bucket = asynchronous.outputs("summaries-inf2")["RequestsUri"].removeprefix("s3://").partition("/")[0]
        code, out, err = slipway_in(asynchronous, "down", "summaries-inf2", "--yes", "--json")
        assert code == 0, err
        (retained,) = read_document(out)["kept"]
        assert (retained["kind"], retained["name"]) == ("requests", bucket)
        assert "each gone after 30 days" in retained["reason"]
        assert asynchronous.session.client("sagemaker").list_endpoints()["Endpoints"] == []
        assert bucket in {bucket["Name"] for bucket in asynchronous.session.client("s3").list_buckets()["Buckets"]}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["embedding-endpoint", "chat-endpoint"])
def test_recipe_after_interrupted_launch_relaunches_and_answers(recipe, tmp_path, monkeypatch, slipway_in):
    """Ctrl-C while CloudFormation is at it, as the terminal sends it."""
    region = re.search(r"region: (\S+)", (EXAMPLES / "recipes" / recipe / "plan.yaml").read_text())[1]
    with Sandbox(region=region, scheduler="local") as sandbox:
        world = World(f"recipes/{recipe}/plan.yaml", sandbox, tmp_path)
        for name, value in sandbox.environment.items():
            monkeypatch.setenv(name, value)
        add_message, interrupted = world.messages.append, []

        def notify(line):
            add_message(line)
            if not interrupted and ("CREATE_IN_PROGRESS" in line or "deployed in" in line):
                interrupted.append(line)
                raise KeyboardInterrupt

        monkeypatch.setattr(world, "notify", notify)
        s3 = world.session.client("s3")
        s3.create_bucket(
            Bucket="models-of-the-team",
            **({} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}),
        )
        of_the_model = re.search(r"s3://models-of-the-team/(\S+)", world.path.read_text())[1]
        s3.put_object(Bucket="models-of-the-team", Key=f"{of_the_model}/config.json", Body=b"{}")
        with pytest.raises(KeyboardInterrupt):
            world.run(ask=True, sandbox=False)
        assert interrupted

        again = world.run(ask=True, sandbox=False)

        assert report_of(again)["status"] == "succeeded"
        assert report_of(again)["endpoint"]["answer"]["kind"] == ("chat" if recipe == "chat-endpoint" else "embedding")
        code, out, err = slipway_in(world, "down", "plan.yaml", "--yes", "--json")
        assert code == 0, err
        assert {stack["status"] for stack in json.loads(out)["stacks"]} == {"DELETE_COMPLETE"}
