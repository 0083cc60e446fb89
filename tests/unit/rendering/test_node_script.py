"""The nodes' set-up script, in a dry run below a folder that looks like a machine's root."""

import shutil
import subprocess

import pytest

from launcher.rendering.node import node_script

BASH = shutil.which("bash")
NEURON = ("aws-neuronx-dkms=2.31.7.0", "aws-neuronx-tools=2.33.38.0")


@pytest.fixture
def dry_run(tmp_path):
    """The commands the script would run on an operating system, and the files it wrote."""

    def start(release, *packages):
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc/os-release").write_text(release, encoding="utf-8")
        environ = {"PATH": "/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(tmp_path)}
        answer = subprocess.run(
            [BASH, node_script(), *packages], env=environ, capture_output=True, text=True, check=False
        )
        files = {
            path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*") if path.is_file()
        }
        return answer, files

    return start


def test_shellcheck_is_content(shellcheck):
    assert shellcheck(node_script()) == ""


class TestUbuntu:
    RELEASE = "ID=ubuntu\nVERSION_CODENAME=noble\n"

    def test_neuron_comes_from_its_own_repository_in_the_given_versions(self, dry_run):
        answer, files = dry_run(self.RELEASE, *NEURON)
        assert answer.returncode == 0, answer.stderr
        assert "apt.repos.neuron.amazonaws.com noble main" in files["etc/apt/sources.list.d/neuron.list"]
        install = next(line for line in answer.stdout.splitlines() if " install " in line)
        assert "linux-headers-" in install
        assert install.endswith(r"aws-neuronx-dkms=2.31.7.0\* aws-neuronx-tools=2.33.38.0\*")
        assert answer.stdout.splitlines()[-1] == "+ modprobe neuron"

    def test_without_neuron_there_is_no_repository(self, dry_run):
        answer, files = dry_run(self.RELEASE, "python3.11")
        assert answer.stdout.splitlines()[-1].endswith(" python3.11")
        assert set(files) == {"etc/os-release"}


@pytest.mark.parametrize("name", ["amzn", "rhel", "rocky"])
def test_the_red_hat_family(dry_run, name):
    answer, files = dry_run(f'ID="{name}"\n', "python3.11", *NEURON)
    assert answer.returncode == 0, answer.stderr
    assert "gpgcheck=1" in files["etc/yum.repos.d/neuron.repo"]
    assert r"python3.11 aws-neuronx-dkms-2.31.7.0\* aws-neuronx-tools-2.33.38.0\*" in answer.stdout


def test_another_operating_system_is_refused(dry_run):
    answer, _ = dry_run("ID=plan9\n", "python3.11")
    assert (answer.returncode, answer.stderr) == (1, "node.sh: no packages are known for plan9\n")


def test_a_dry_run_writes_nowhere_by_accident():
    environ = {"PATH": "/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1"}
    answer = subprocess.run(
        [BASH, node_script(), "python3.11"], env=environ, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
