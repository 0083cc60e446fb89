"""Plans to render: the examples, and small ones written in a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.planning.pin import pinned_plan
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from tests.plans import ROOT, laid_over, request_of

OPEN = {"llama31-8b-sft"}
"""Examples that leave a choice, which the launcher makes."""
PLAN_FILES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.yaml")) if path.stem not in OPEN}
JOB = JobSettings(run="20261120T120000Z", checkpoint_interval_s=600.0)

BASE = {
    "slipway": 1,
    "name": "small",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
    "target": {"region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
}


@pytest.fixture(scope="session")
def shellcheck():
    """What shellcheck (of this environment) says of a script; "" when it is content."""
    program = Path(sys.executable).with_name("shellcheck")
    return lambda path: subprocess.run([program, path], capture_output=True, text=True, check=False).stdout


@pytest.fixture
def slow_tee(tmp_path):
    """A folder of programs whose `tee` writes late: a script that does not wait for it loses its last lines."""
    folder = tmp_path / "late"
    folder.mkdir()
    (folder / "tee").write_text('#!/bin/bash\nsleep 1\nexec /usr/bin/tee "$@"\n')
    (folder / "tee").chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def plan_of(catalog):
    """The plan of BASE with more keys laid over it."""

    def make(**extra):
        return pinned_plan(request_of(laid_over(BASE, extra)), catalog)

    return make


@pytest.fixture(scope="session")
def bundle_of(catalog):
    """The bundle of a plan with symbolic names."""

    def make(plan, job=JOB):
        return render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=job)

    return make


@pytest.fixture(params=sorted(PLAN_FILES), scope="session")
def plan(request, catalog):
    """Every plan file of the project in turn."""
    return pinned_plan(plan_file.load(PLAN_FILES[request.param]), catalog)


@pytest.fixture(scope="session")
def bundle(plan, bundle_of):
    return bundle_of(plan)
