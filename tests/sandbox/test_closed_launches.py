"""A launch on plain instances whose launcher is killed at each step: the job ends as if nobody had closed a laptop."""

import os
import re
import subprocess

import pytest

from launcher.aws import auto_scaling
from launcher.aws.session import Session
from launcher.sandbox import running_sandbox
from launcher.sandbox.sandbox import Sandbox
from tests.documents import read_document
from tests.sandbox.clients import PROGRAM, slipway
from tests.sandbox.job_trainers import TRAINER, undisturbed
from tests.waiting import until
from tests.warm_app import WITHOUT_VALIDATION

STARTS_SERVERS = True
pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("closed-launches")]
REGION, STEPS = "us-east-2", 300
PLAN = """
slipway: 1
name: {name}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: ec2, region: us-east-2, instance_type: g6e.8xlarge, nodes: {nodes}}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 3}}
run: {{command: [python3, train.py, "{steps}"], workdir: work}}
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    """A running sandbox, which stands for the account, and the environment of somebody who can reach it."""
    environment = {**os.environ, **WITHOUT_VALIDATION, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("account"))}
    place = running_sandbox.start(environment, scheduler="local")
    yield Sandbox.attach(place, region=REGION), environment
    running_sandbox.stop(environment)


class Laptop:
    """A folder with a plan, in which launches begin that are killed at a message."""

    def __init__(self, folder, name, nodes, account, program):
        self.folder, self.name, (self.sandbox, environment) = folder, name, account
        self.program = program
        self.environment = {**environment, "XDG_STATE_HOME": str(folder / "state")}
        (folder / "plan.yaml").write_text(PLAN.format(name=name, nodes=nodes, steps=STEPS))
        (folder / "work").mkdir()
        (folder / "work" / "train.py").write_text(TRAINER)

    def run(self, *words):
        return slipway(*words, folder=self.folder, environment=self.environment, program=self.program)

    def close_at(self, beginning, *words, program=None):
        """Launch, and kill the launcher with SIGKILL at a message."""
        log = self.folder / "launch.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*(program or self.program), "launch", "plan.yaml", "--sandbox", "--yes", *words],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

        def is_there():
            text = log.read_text()
            assert process.poll() is None, text
            return re.search(beginning, text)

        try:
            until(is_there, describe=log.read_text)
        finally:
            process.kill()
            process.wait()

    def group(self):
        session = Session(environment=self.sandbox.process_environment(os.environ), region=REGION)
        return auto_scaling.describe(session, f"slipway-{self.name}")


def lose_first_node(laptop):
    """Take an instance away without notice, with its disk and its processes."""
    laptop.sandbox.fail_node(f"slipway-{laptop.name}", laptop.group().running[0])


@pytest.mark.parametrize(
    "name, nodes, moment, words, then",
    [
        ("starts", 1, r"job starts-\w+ waits", (), None),
        pytest.param(
            "runs",
            2,
            r"attempt 1 +step \d+ of 300 +saved at step \d+",
            (),
            lose_first_node,
            marks=pytest.mark.slow,
        ),
        pytest.param("again", 1, "attempt 2 started", ("--interrupt-after", "0.2"), None, marks=pytest.mark.slow),
        pytest.param("ends", 1, r"attempt 1 completed", (), None, marks=pytest.mark.slow),
    ],
)
def test_launcher_killed_after_submission_job_ends_with_undisturbed_result(  # noqa: PLR0917  the steps
    name, nodes, moment, words, then, tmp_path, account, warm_program
):
    laptop = Laptop(tmp_path, name, nodes, account, warm_program)
    laptop.close_at(moment, *words)
    if then is not None:
        then(laptop)
    followed = laptop.run("attach", name)
    assert followed.returncode == 0, followed.stderr
    report = read_document(laptop.run("report", name, "--json").stdout)
    assert report["status"] == "succeeded"
    *lost, last = report["attempts"]
    ends = [*(["node-lost"] if then else []), *(["spot-interruption"] if words else []), "completed"]
    assert [attempt["ended_by"] for attempt in report["attempts"]] == ends
    assert not lost or 0 < last["resumed_from_step"] < STEPS
    log = (tmp_path / f".slipway/runs/{name}/latest/logs/attempt-{len(ends)}.log").read_text()
    assert f"ends with {undisturbed(0, STEPS)}" in log
    until(lambda: not laptop.group().desired and not laptop.group().states)


@pytest.mark.parametrize(
    "name, moment",
    [
        pytest.param("synth", "synthesising the stacks", marks=pytest.mark.slow),
        ("stack", "stack slipway-stack-network"),
    ],
)
def test_launcher_killed_during_deployment_next_launch_succeeds(  # noqa: PLR0917  the moment, and what starts it
    name, moment, tmp_path, account, warm_program, warm_app_program
):
    laptop = Laptop(tmp_path, name, 1, account, warm_program)
    # With an app or a CLI of its own, which the kill leaves without a reader.
    laptop.close_at(moment, program=PROGRAM if name == "synth" else warm_app_program)
    assert read_document(laptop.run("status", name, "--json").stdout)["status"] == "killed"
    again = laptop.run("launch", "plan.yaml", "--sandbox", "--yes", "--json")
    assert again.returncode == 0, again.stderr
    assert read_document(again.stdout)["status"] == "succeeded"
    # As from another computer: no run, no state.
    other = tmp_path / "other"
    other.mkdir()
    words = ("down", name, "--region", REGION, "--sandbox", "--yes")
    down = slipway(*words, folder=other, environment={**account[1], "XDG_STATE_HOME": str(other)})
    assert down.returncode == 0, down.stderr
    assert [stack["name"] for stack in account[0].stacks() if name in stack["name"]] == [f"slipway-{name}-checkpoints"]
