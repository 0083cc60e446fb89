"""Deploying: quote, rendered files and templates must belong to one plan, and the quote must be valid."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.cdk.commands import Assembly, Cdk, deploy, failure_lines, validation_problems
from launcher.cdk.runner import Command, Completed, RecordingRunner, SubprocessRunner
from launcher.model.bundle import Bundle
from launcher.model.errors import ImpossibleError, OverBudgetError, UnpricedError
from launcher.model.quote import Gate, Quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW
from tests.waiting import until

PLAN = """
slipway: 1
name: x
workload: {train: {model: {params_b: 0.1}, hours: 1}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""


@pytest.fixture
def quote(tmp_path: Path) -> Quote:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    assert plan_file.load(path).name == "x"
    return price(path, NOW, PriceOptions()).quotes[0]


class Pretending(RecordingRunner):
    """The CDK CLI as far as it is known to work: synthesising, it writes an assembly of some plans."""

    def __init__(self, *digests: str) -> None:
        super().__init__(carries_out=True)
        self.digests = digests

    def run(self, command: Command, on_line: object = None) -> Completed:
        if "synth" in command.argv:
            write_assembly(Path(command.argv[-1]), self.digests)
        return super().run(command)


def write_assembly(folder: Path, digests: tuple[str, ...]) -> None:
    """As `cdk synth` leaves one: a stack a digest, and one that names none."""
    folder.mkdir(exist_ok=True)
    artifacts = {}
    for number, digest in enumerate(("", *digests)):
        outputs = {"PlanDigest": {"Value": digest}} if digest else {}
        template = folder / f"stack-{number}.template.json"
        template.write_text(json.dumps({"Resources": {"Nodes": {"MaxCount": 1}}, "Outputs": outputs}))
        body = {"type": "aws:cloudformation:stack", "properties": {"templateFile": template.name}}
        artifacts[f"stack-{number}"] = body
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))


def attempt(
    quoted: Quote, tmp_path: Path, *, bundle: str = "", assembly: str = "", now: datetime = NOW
) -> RecordingRunner:
    runner = Pretending()
    write_assembly(tmp_path / "cdk.out", (assembly or quoted.digest,))
    deploy(
        quoted,
        Bundle(digest=bundle or quoted.digest, files=()),
        Assembly.read(tmp_path / "cdk.out"),
        Cdk(runner=runner, environment={"PATH": "/usr/bin:/bin"}),
        outputs=tmp_path / "outputs.json",
        now=now,
    )
    return runner


def test_passing_quote_deploys_the_synthesised_assembly(quote: Quote, tmp_path: Path) -> None:
    argv = attempt(quote, tmp_path).commands[0].argv
    # A copy of it, which no longer exists again.
    assert Path(argv[argv.index("--app") + 1]).name == "cdk.out"
    assert not Path(argv[argv.index("--app") + 1]).exists()
    assert "deploy" in argv
    assert "--all" in argv


def test_bundle_or_assembly_of_another_plan_is_refused(quote: Quote, tmp_path: Path) -> None:
    for other in ({"bundle": "0" * 64}, {"assembly": "0" * 64}):
        with pytest.raises(ImpossibleError):
            attempt(quote, tmp_path, **other)


def test_stack_digest_is_read_from_the_stacks(quote: Quote, tmp_path: Path) -> None:
    cdk = Cdk(runner=Pretending(quote.digest), environment={"PATH": "/usr/bin:/bin"})
    assert cdk.synth(tmp_path / "plan.json", quote.digest, tmp_path / "cdk.out").digests == {quote.digest}
    for digests in ((), ("0" * 64,), (quote.digest, "0" * 64)):
        other = Cdk(runner=Pretending(*digests), environment={"PATH": "/usr/bin:/bin"})
        with pytest.raises(ImpossibleError, match=r"plan\.json changed in between"):
            other.synth(tmp_path / "plan.json", quote.digest, tmp_path / f"cdk.out-{len(digests)}")


@pytest.mark.parametrize("change", ["edit", "add", "remove", "link"])
def test_assembly_changed_after_synthesis_is_refused(quote: Quote, tmp_path: Path, change: str) -> None:
    runner, folder = Pretending(quote.digest), tmp_path / "cdk.out"
    cdk = Cdk(runner=runner, environment={"PATH": "/usr/bin:/bin"})
    assembly = cdk.synth(tmp_path / "plan.json", quote.digest, folder)
    assembly.refuse_if_changed()
    (folder / "read.1.2.lock").touch()
    assembly.refuse_if_changed()
    template = folder / "stack-1.template.json"
    if change == "edit":
        template.write_text(template.read_text().replace('"MaxCount": 1', '"MaxCount": 6'))
    elif change == "add":
        (folder / "asset.zip").write_bytes(b"mine")
    elif change == "remove":
        (folder / "stack-0.template.json").unlink()
    else:
        content = template.rename(tmp_path / "elsewhere")
        template.symlink_to(content)
    ran = len(runner.commands)
    outputs = tmp_path / "outputs.json"
    with pytest.raises(ImpossibleError, match="changed after it was synthesised"):
        deploy(quote, Bundle(digest=quote.digest, files=()), assembly, cdk, outputs=outputs, now=NOW)
    with pytest.raises(ImpossibleError, match="changed after it was synthesised"):
        assembly.refuse_if_changed()
    assert len(runner.commands) == ran


def test_edit_during_deployment_reaches_no_stack(quote: Quote, tmp_path: Path) -> None:
    """The CLI reads a template when its stack's turn comes, from a copy that has the hash of what was shown."""

    class Editing(Pretending):
        def run(self, command: Command, on_line: object = None) -> Completed:
            if "deploy" in command.argv:
                for template in (tmp_path / "cdk.out").glob("*.template.json"):
                    template.write_text(template.read_text().replace('"MaxCount": 1', '"MaxCount": 6'))
                read.append((Path(command.argv[command.argv.index("--app") + 1]) / "stack-1.template.json").read_text())
            return super().run(command, on_line)

    read: list[str] = []
    cdk = Cdk(runner=Editing(quote.digest), environment={"PATH": "/usr/bin:/bin"})
    assembly = cdk.synth(tmp_path / "plan.json", quote.digest, tmp_path / "cdk.out")
    outputs = tmp_path / "outputs.json"
    deploy(quote, Bundle(digest=quote.digest, files=()), assembly, cdk, outputs=outputs, now=NOW)
    (template,) = read
    assert '"MaxCount": 1' in template


def test_run_folder_never_contains_half_of_the_outputs(quote: Quote, tmp_path: Path) -> None:
    class Writing(Pretending):
        def run(self, command: Command, on_line: object = None) -> Completed:
            if "deploy" in command.argv:
                file = Path(command.argv[command.argv.index("--outputs-file") + 1])
                file.write_text('{"slipway-')
                assert not list(tmp_path.glob("*outputs.json"))
                file.write_text('{"slipway-x-training": {"StoreUri": "s3://made/jobs"}}')
            return super().run(command, on_line)

    cdk = Cdk(runner=Writing(quote.digest), environment={"PATH": "/usr/bin:/bin"})
    assembly = cdk.synth(tmp_path / "plan.json", quote.digest, tmp_path / "cdk.out")
    outputs, bundle = tmp_path / "outputs.json", Bundle(digest=quote.digest, files=())
    deployed = deploy(quote, bundle, assembly, cdk, outputs=outputs, now=NOW)
    assert deployed == json.loads(outputs.read_text()) == {"slipway-x-training": {"StoreUri": "s3://made/jobs"}}
    assert not (tmp_path / ".outputs.json").exists()


def test_dry_run_records_the_commands_without_an_assembly(quote: Quote, tmp_path: Path) -> None:
    runner = RecordingRunner()
    cdk = Cdk(runner=runner, environment={"PATH": "/usr/bin:/bin"})
    assembly = cdk.synth(tmp_path / "plan.json", quote.digest, tmp_path / "cdk.out")
    bundle = Bundle(digest=quote.digest, files=())
    deploy(quote, bundle, assembly, cdk, outputs=tmp_path / "outputs.json", now=NOW)
    assert [("synth" in command.argv, "deploy" in command.argv) for command in runner.commands] == [
        (True, False),
        (False, True),
    ]


def test_refused_quote_is_not_deployed(quote: Quote, tmp_path: Path) -> None:
    refused = replace(quote, gate=Gate(verdict="refuse", exit_code=3, reason="too dear"))
    with pytest.raises(OverBudgetError, match="too dear"):
        attempt(refused, tmp_path)


def test_quote_with_expired_prices_is_not_deployed(quote: Quote, tmp_path: Path) -> None:
    assert quote.expires_at is not None
    with pytest.raises(UnpricedError):
        attempt(quote, tmp_path, now=quote.expires_at + timedelta(days=1))


def test_failed_validation_is_refused_despite_cdk_exit_code_0(tmp_path: Path) -> None:
    class Synthesised(RecordingRunner):
        def run(self, command: Command, on_line: object = None) -> Completed:
            report = {
                "pluginReports": [
                    {"conclusion": "failure", "violations": [{"ruleName": "S1", "description": "the bucket is open"}]}
                ]
            }
            (tmp_path / "validation-report.json").write_text(json.dumps(report))
            return super().run(command)

    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    with pytest.raises(ImpossibleError, match="the bucket is open"):
        Cdk(runner=Synthesised(), environment={"PATH": "/usr/bin:/bin"}).synth(plan, "d", tmp_path)
    assert validation_problems(tmp_path) == ["S1: the bucket is open"]


def test_amounts_reach_the_app_as_context(tmp_path: Path) -> None:
    runner = RecordingRunner()
    amounts = {"usd_per_hour": Decimal("98.32"), "max_usd": Decimal(250)}
    plan = tmp_path / "plan.json"
    Cdk(runner=runner, environment={"PATH": "/usr/bin:/bin"}).synth(plan, "d", tmp_path, amounts)
    (command,) = runner.commands
    context = [command.argv[at + 1] for at, word in enumerate(command.argv) if word == "-c"]
    assert context == [f"plan={plan.resolve()}", "usd_per_hour=98.32", "max_usd=250"]


def test_failure_lines_name_the_resource() -> None:
    lines = ("a | CREATE_IN_PROGRESS", "b | CREATE_FAILED | no capacity", "c")
    assert failure_lines(lines) == ["b | CREATE_FAILED | no capacity"]


def test_failure_lines_have_an_event_once_that_the_cdk_prints_again_at_the_end() -> None:
    lines = (
        "s | 28/44 | 6:32:32 PM | CREATE_FAILED        | AWS::SageMaker::Cluster   | HyperPod/Cluster (C1) no script",
        "s | 29/44 | 6:32:33 PM | CREATE_FAILED        | AWS::FSx::FileSystem      | Lustre (F1) cancelled",
        "Failed resources:",
        "s | 6:32:32 PM | CREATE_FAILED        | AWS::SageMaker::Cluster   | HyperPod/Cluster (C1) no script",
        "DeploymentError: Resource updates failed:",
    )
    assert failure_lines(lines) == [lines[3], lines[1]]
    assert failure_lines(lines[-1:]) == [lines[-1]]


def test_program_lines_are_reported_while_the_program_runs(tmp_path: Path) -> None:
    messages: list[str] = []
    argv = (sys.executable, "-c", "import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)")
    done = SubprocessRunner().run(Command(argv=argv, cwd=tmp_path, environment={}), messages.append)
    assert done.code == 3
    assert sorted(done.lines) == sorted(messages) == ["one", "two"]


def test_missing_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImpossibleError, match="no such program"):
        SubprocessRunner().run(Command(argv=("/nowhere/cdk",), cwd=tmp_path, environment={}))


RUNS = """
import signal
import subprocess
import sys
from pathlib import Path
from launcher.cdk.runner import Command, SubprocessRunner
own = {"TMPDIR": sys.argv[2], "PATH": "/usr/bin:/bin"}
SubprocessRunner().run(Command(argv=("/bin/sh", "-c", sys.argv[1]), cwd=Path(), environment=own))
"""


class TestTemporaryFiles:
    """jsii and the CDK CLI leave theirs when they are interrupted."""

    def test_temporary_files_are_removed_after_the_command(self, tmp_path):
        argv = (sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp(prefix='jsii-kernel-'))")
        done = SubprocessRunner().run(Command(argv=argv, cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}))

        (folder,) = done.lines
        assert Path(folder).parent.parent == tmp_path
        assert list(tmp_path.iterdir()) == []

    def test_temporary_files_of_a_killed_launcher_are_removed_by_the_next_command(self, tmp_path):
        script = "touch $TMPDIR/left; echo $$ > $TMPDIR/pid; sleep 600 & wait"
        launcher = subprocess.Popen([sys.executable, "-c", RUNS, script, str(tmp_path)])
        folder = until(lambda: next((path.parent for path in tmp_path.glob("*/pid") if path.read_text()), None))
        child = int((folder / "pid").read_text())
        launcher.kill()
        launcher.wait()
        try:
            SubprocessRunner().run(Command(argv=("/bin/true",), cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}))
            assert (folder / "left").exists()  # it still runs
        finally:
            os.killpg(child, signal.SIGKILL)

        def is_removed():
            SubprocessRunner().run(Command(argv=("/bin/true",), cwd=tmp_path, environment={"TMPDIR": str(tmp_path)}))
            return not folder.exists()

        until(is_removed)
        assert list(tmp_path.iterdir()) == []
