"""An installed wheel runs a whole launch in the sandbox, from an empty folder, with nothing of the checkout."""

import hashlib
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.plans import ROOT

PLAN = """
slipway: 1
name: away
workload: {train: {model: {params_b: 0.0002}, method: pretrain, hours: 0.5}}
target: {kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}
purchase: {option: spot}
run: {command: [sh, -c, "echo trained somewhere; cd $SLIPWAY_CHECKPOINT_DIR; mkdir step-1; echo x >step-1/weights"]}
"""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel-launch")]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


@pytest.fixture(scope="module")
def wheel_environment(tmp_path_factory):
    """A virtual environment with the wheel; what it depends on comes from this one, whose editable install does not.

    A path that a .pth file names is searched and its own .pth files are not read.
    """
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT))
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    (wheel,) = (folder / "dist").glob("slipway_aws-*.whl")
    run(sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv"


@pytest.fixture
def npm_home(tmp_path):
    """A home in which `npm ci` has been run for the lock, as the first launch does over the network."""
    lock = hashlib.sha256((ROOT / "package-lock.json").read_bytes()).hexdigest()[:16]
    cli = tmp_path / "home" / ".cache" / "slipway" / f"cdk-{lock}"
    cli.mkdir(parents=True)
    (cli / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path / "home"


def test_wheel_in_empty_folder_launches(wheel_environment, npm_home, tmp_path):
    where = tmp_path / "empty"
    where.mkdir()
    (where / "plan.yaml").write_text(PLAN)
    variables = {
        "HOME": str(npm_home),
        "PATH": f"{wheel_environment / 'bin'}:/usr/bin:/bin:/usr/sbin",
        "TMPDIR": str(tmp_path),
    }
    python = wheel_environment / "bin" / "python"
    modules = "import launcher, infra; print(launcher.__file__, infra.__file__)"
    assert str(ROOT) not in run(python, "-P", "-c", modules, cwd=where, env=variables).stdout
    done = subprocess.run(
        [wheel_environment / "bin" / "slipway", "launch", "plan.yaml", "--sandbox", "--yes", "--json"],
        cwd=where,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "succeeded"
    folder = where / ".slipway" / "runs" / "away" / "latest"
    assert "trained somewhere" in (folder / "logs" / "attempt-1.log").read_text()
    assert {path.name for path in where.iterdir()} == {".slipway", "plan.yaml"}
    assert not list(tmp_path.glob("slw-*"))
