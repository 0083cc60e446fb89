"""An installed wheel does what a checkout does, from an empty folder."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plans import ROOT

IGNORE = ROOT / ".dockerignore"
ADDRESS = "https://github.com/acme/slipway"
pytestmark = pytest.mark.long


def copy_context(folder: Path) -> None:
    """Copy what .dockerignore leaves of the checkout: its first pattern excludes all, the others name parts."""
    takes, *patterns = [line for line in IGNORE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    if takes != "*":
        raise AssertionError(f"{IGNORE} must begin with *")
    without = shutil.ignore_patterns(*(line.removeprefix("**/") for line in patterns if not line.startswith("!")))
    folder.mkdir()
    for path in (ROOT / line[1:] for line in patterns if line.startswith("!")):
        if path.is_dir():
            shutil.copytree(path, folder / path.name, ignore=without)
        else:
            shutil.copy(path, folder)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's packages and nothing else of the project; it is built as in ci/Containerfile."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    copy_context(source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(source)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "PROJECT_URL": f"{ADDRESS}/"})
    wheel = next((folder / "dist").glob("slipway_aws-*.whl"))
    target = folder / "site"
    uv = Path(sys.executable).parent / "uv"  # installs a wheel in a tenth of pip's processor time
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--target", target, wheel]
    subprocess.run(install, check=True, capture_output=True)
    return target


def slipway(installed: Path, where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-P", "-m", "launcher", *arguments]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


def test_metadata_has_the_urls_of_whoever_publishes_the_wheel(installed: Path) -> None:
    (found,) = importlib.metadata.distributions(path=[str(installed)])
    urls = dict(line.split(", ") for line in found.metadata.get_all("Project-URL") or ())
    assert urls == {
        "Homepage": ADDRESS,
        "Documentation": f"{ADDRESS}/tree/main/docs",
        "Issues": f"{ADDRESS}/issues",
        "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
    }


def project_urls(address: str) -> subprocess.CompletedProcess[str]:
    """What the build writes of an address."""
    program = "import json, hatch_build as build; m = {}; build.ProjectUrls('.', {}).update(m); print(json.dumps(m))"
    environment = {**os.environ, "PROJECT_URL": address}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_metadata_without_an_address_has_no_urls() -> None:
    assert json.loads(project_urls("").stdout) == {"urls": {}}


def test_address_that_is_no_https_url_is_refused() -> None:
    refused = project_urls("acme/slipway")
    assert refused.returncode
    assert "PROJECT_URL: got 'acme/slipway'; it must begin with https://" in refused.stderr


def test_wheel_contains_the_data_read_by_the_launcher(installed: Path) -> None:
    data = installed / "launcher" / "_data"
    assert {"cdk.json", "package.json", "package-lock.json", "templates", "examples"} <= {
        path.name for path in data.iterdir()
    }


def test_installed_plan_quote_and_render_work_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import launcher; print(launcher.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(installed) in where.stdout
    assert slipway(installed, tmp_path, "init", "plan.yaml").returncode == 0
    planned = slipway(installed, tmp_path, "plan", "plan.yaml", "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["candidates"]
    quoted = slipway(installed, tmp_path, "quote", "plan.yaml", "--json")
    assert json.loads(quoted.stdout)["schema"] == "slipway.quote/1"
    rendered = slipway(installed, tmp_path, "render", "plan.yaml", "-o", "files")
    assert rendered.returncode == 0, rendered.stderr
    assert (tmp_path / "files" / "job.json").is_file()


def test_local_folder_named_infra_does_not_shadow_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "__init__.py").write_text("raise SystemExit('the wrong infra')\n")
    command = [sys.executable, "-P", "-m", "infra.app"]
    environment = {**os.environ, "PYTHONPATH": str(installed), "CDK_CONTEXT_JSON": "{}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "the wrong infra" not in done.stderr
    assert done.returncode == 2
    assert "names no plan file" in done.stderr


def in_python(installed: Path, where: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as a user's script, whose folder is first on Python's path."""
    (where / "app.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "app.py"]
    return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)


def test_slipway_aws_of_the_wheel_has_every_public_name(installed: Path, tmp_path: Path) -> None:
    program = "import slipway_aws as s\nprint(s.__file__)\nfor name in s.__all__: getattr(s, name)\n"
    done = in_python(installed, tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(installed / "slipway_aws"))
    assert (installed / "slipway_aws" / "py.typed").is_file()
    assert not (installed / "infra" / "public").exists()


@pytest.mark.parametrize("shadow", ["infra/__init__.py", "launcher/__init__.py", "infra.py"])
def test_local_module_shadowing_slipway_is_named_in_one_sentence(installed: Path, tmp_path: Path, shadow: str) -> None:
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("")
    done = in_python(installed, tmp_path, "import slipway_aws\n")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError: slipway_aws needs its own package ")
    assert str(tmp_path / shadow) in last
    assert "rename" in last
