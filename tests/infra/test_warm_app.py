"""The app and the CLI that tests launch with leave what the programs leave, to the byte."""

import os
import shutil
from decimal import Decimal

import pytest

from launcher import plan_file
from launcher.cdk.commands import Cdk
from launcher.cdk.runner import SubprocessRunner
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from tests.plans import ROOT
from tests.warm_app import WITHOUT_VALIDATION

PLAN = ROOT / "examples/p5-spot.yaml"
AMOUNTS = {"usd_per_hour": Decimal("98.32")}
TRACES, TIMES = "*.metadata.json", "perf*"
"""Where in the program a construct was made, and how long it took."""
ENVIRONMENT = {"CDK_DEFAULT_ACCOUNT": "123456789012", **WITHOUT_VALIDATION}


@pytest.fixture
def synth(tmp_path, catalog):
    """Synthesises a plan by the CDK CLI as the launcher does; the files by name."""
    cdk = Cdk(runner=SubprocessRunner(), environment={**os.environ, **ENVIRONMENT})

    def run(path):
        folder = tmp_path / "cdk.out"
        shutil.rmtree(folder, ignore_errors=True)
        cdk.synth(path, pinned_plan(plan_file.load(PLAN), catalog).digest, folder, AMOUNTS)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and not path.match(TRACES) and not path.match(TIMES)
        }

    return run


def test_warm_app_assembly_equals_program_output(synth, warm_app, warm_cli):
    real = synth(PLAN)
    with warm_app.used(), warm_cli.used():
        first, second = synth(PLAN), synth(PLAN)
    assert len(real) > 10
    assert first == real
    assert second == real


def test_warm_app_refusal_equals_program_refusal(synth, tmp_path, warm_app, warm_cli):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.read_text().replace("target:\n", "target:\n  cluster: shared\n"))
    with pytest.raises(ImpossibleError) as real:
        synth(path)
    with warm_app.used(), warm_cli.used(), pytest.raises(ImpossibleError) as warm:
        synth(path)
    assert "target.cluster: shared exists" in warm.value.message
    # The CLI names what it started.
    assert warm.value.message.splitlines()[:-1] == real.value.message.splitlines()[:-1]
