"""Later launches of a plan on its own cluster: more nodes, another instance type, and a launch that submits nothing."""

from datetime import UTC, datetime

import pytest

from launcher.model.errors import ImpossibleError
from launcher.model.report import RunStatus
from launcher.records.submission import with_job
from launcher.targets.registry import training_targets
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.long, pytest.mark.xdist_group("later-launches")]

PLAN = """
slipway: 1
name: day-{kind}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 4}}}}
target: {{kind: {kind}, region: us-east-2, instance_type: {type}, nodes: {nodes}}}
purchase: {{option: on-demand}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
{more}run: {{command: [sh, -c, 'd=$SLIPWAY_CHECKPOINT_DIR/step-{step}; mkdir $d; echo x >$d/w; sleep 1'], workdir: .}}
"""
KEEPS_ITS_TYPE = frozenset(("hyperpod-slurm", "hyperpod-eks"))


@pytest.fixture
def launch(tmp_path, sandbox):
    """Launch the plan of a kind; its run folder, its report and its messages."""

    def call(kind, step, *, instance_type="p5.48xlarge", nodes=1):
        more = "network: {api_cidrs: [52.94.76.0/24]}\n" if kind.endswith("eks") else ""
        facts = {"kind": kind, "type": instance_type, "nodes": nodes, "step": step, "more": more}
        (tmp_path / "plan.yaml").write_text(PLAN.format(**facts))
        priced = price(tmp_path / "plan.yaml", datetime.now(UTC), PriceOptions(any_age=True))
        rank, quoted = pick(priced, None)
        messages = []
        options = LaunchOptions(
            root=tmp_path,
            sandbox=True,
            notify=messages.append,
            progress=lambda _: None,
            scheduler="local",
            emulator=sandbox,
        )
        return *launch_quote(priced, rank, quoted, options), messages

    return call


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind.value for kind in training_targets()])
def test_cluster_grows_and_changes_type_between_jobs(tmp_path, launch, kind):
    _, first, _ = launch(kind, 1)
    assert first.status is RunStatus.SUCCEEDED
    folder, more, messages = launch(kind, 2, nodes=2)
    assert (more.status, more.attempts[0].resumed_from_step) == (RunStatus.SUCCEEDED, 1), messages
    if kind in KEEPS_ITS_TYPE:
        with pytest.raises(ImpossibleError, match="cannot be changed in this way"):
            launch(kind, 3, instance_type="p5en.48xlarge")
        said = []
        assert with_job(f"day-{kind}", tmp_path, said.append).path == folder.path
        assert "submitted no job" in said[0]
        return
    _, other, messages = launch(kind, 3, instance_type="p5en.48xlarge")
    assert (other.status, other.attempts[0].resumed_from_step) == (RunStatus.SUCCEEDED, 2), messages
