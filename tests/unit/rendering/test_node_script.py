"""The nodes' set-up script, in a dry run below a folder that imitates a machine's root."""

import shutil
import subprocess

import pytest

from launcher.catalog.assets import asset
from launcher.rendering.node import NODE_SCRIPT

SCRIPT = asset(NODE_SCRIPT)
BASH = shutil.which("bash")
NEURON = ("aws-neuronx-dkms=2.31.7.0", "aws-neuronx-tools=2.33.38.0")


@pytest.fixture
def dry_run(tmp_path):
    """The commands the script would run on an operating system, and the files it wrote."""

    def start(release, *packages, **more):
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc/os-release").write_text(release, encoding="utf-8")
        environ = {"PATH": "/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(tmp_path), **more}
        answer = subprocess.run([BASH, SCRIPT, *packages], env=environ, capture_output=True, text=True, check=False)
        files = {
            path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*") if path.is_file()
        }
        return answer, files

    return start


def test_node_script_passes_shellcheck(shellcheck):
    assert shellcheck(SCRIPT) == ""


class TestUbuntu:
    RELEASE = "ID=ubuntu\nVERSION_CODENAME=noble\n"

    def test_neuron_packages_of_the_given_versions_come_from_the_neuron_repository(self, dry_run):
        answer, files = dry_run(self.RELEASE, *NEURON)
        assert answer.returncode == 0, answer.stderr
        assert "apt.repos.neuron.amazonaws.com noble main" in files["etc/apt/sources.list.d/neuron.list"]
        install = next(line for line in answer.stdout.splitlines() if " install " in line)
        assert "linux-headers-" in install
        assert install.endswith(r"aws-neuronx-dkms=2.31.7.0\* aws-neuronx-tools=2.33.38.0\*")
        assert answer.stdout.splitlines()[-1] == "+ modprobe neuron"

    def test_node_without_neuron_adds_no_repository(self, dry_run):
        answer, files = dry_run(self.RELEASE, "python3.11")
        assert answer.stdout.splitlines()[-1].endswith(" python3.11")
        assert set(files) == {"etc/os-release"}


@pytest.mark.parametrize("name", ["amzn", "rhel", "rocky"])
def test_red_hat_family_uses_a_signed_yum_repository(dry_run, name):
    answer, files = dry_run(f'ID="{name}"\n', "python3.11", *NEURON)
    assert answer.returncode == 0, answer.stderr
    repository = files["etc/yum.repos.d/neuron.repo"].splitlines()
    assert {"gpgcheck=1", "gpgkey=file:///etc/pki/rpm-gpg/neuron.asc"} <= set(repository)
    assert r"python3.11 aws-neuronx-dkms-2.31.7.0\* aws-neuronx-tools-2.33.38.0\*" in answer.stdout


FINGERPRINT = "00FA2C1079260870A76D2C285749CAD8646D9185"
MAINTAINERS = "Amazon AWS Neuron <neuron-maintainers@amazon.com>"


def gpg(home, *arguments):
    command = ["gpg", "--homedir", home, "--batch", "--quiet", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def package_repository(tmp_path):
    """Runs the script where the repository offers two keys in Neuron's name, as anybody can make them."""
    home, programs, root = tmp_path / "gnupg", tmp_path / "bin", tmp_path / "root"
    for folder in (home, programs, root / "etc"):
        folder.mkdir(parents=True, mode=0o700)
    for number in (1, 2):
        gpg(home, "--passphrase", "", "--quick-gen-key", f"{number} {MAINTAINERS}", "ed25519", "sign")
    gpg(home, "--armor", "--output", tmp_path / "key", "--export")
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True, capture_output=True)
    fetched = 'while [ "$1" != --output ]; do shift; done; cp "$(dirname "$0")/../key" "$2"'
    for name, does in {"curl": fetched, **dict.fromkeys(("apt-get", "dnf", "modprobe"), "touch installed")}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)

    def start(release, *, known):
        """`known`: the script's fingerprint is that of the second key."""
        (root / "etc/os-release").write_text(release)
        listed = gpg(home, "--with-colons", "--list-keys").splitlines()
        second = [line.split(":")[9] for line in listed if line.startswith("fpr:")][1]
        script = tmp_path / "node.sh"
        script.write_text(SCRIPT.read_text().replace(FINGERPRINT, second if known else FINGERPRINT))
        environ = {"PATH": f"{programs}:/usr/bin:/bin", "SLIPWAY_ROOT": str(root), "SLIPWAY_BAKE": "1"}
        command = [BASH, script, *NEURON]
        answer = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
        return answer, [*root.rglob("neuron.asc")], (tmp_path / "installed").exists()

    return start


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
@pytest.mark.parametrize("release", [TestUbuntu.RELEASE, "ID=amzn\n"])
class TestKey:
    def test_repository_key_with_another_fingerprint_is_refused_and_installs_no_package(
        self, package_repository, release
    ):
        answer, keys, installed = package_repository(release, known=False)
        assert (answer.returncode, keys, installed) == (1, [], False)
        assert f"its fingerprint is not {FINGERPRINT}" in answer.stderr

    def test_repository_key_of_the_fingerprint_is_selected_among_several(self, package_repository, release, tmp_path):
        answer, keys, installed = package_repository(release, known=True)
        assert (answer.returncode, len(keys), installed) == (0, 1, True), answer.stderr
        key_listing = gpg(tmp_path / "gnupg", "--show-keys", "--with-colons", keys[0])
        assert [line.split(":")[9] for line in key_listing.splitlines() if line.startswith("uid:")] == [
            f"2 {MAINTAINERS}"
        ]


def test_unknown_operating_system_is_refused(dry_run):
    answer, _ = dry_run("ID=plan9\n", "python3.11")
    assert (answer.returncode, answer.stderr) == (1, "node.sh: no packages are known for plan9\n")


def test_dry_run_of_node_script_without_root_folder_is_refused():
    environ = {"PATH": "/usr/bin:/bin", "SLIPWAY_DRY_RUN": "1"}
    answer = subprocess.run([BASH, SCRIPT, "python3.11"], env=environ, capture_output=True, text=True, check=False)
    assert answer.returncode == 2


class TestMetrics:
    RELEASE = TestUbuntu.RELEASE
    WORDS = ("--metrics=s3://assets/metrics.py", "--cluster=tiny", "--chips=neuron", "--python=python3.11")

    def test_metrics_service_reports_the_accelerators(self, dry_run):
        answer, files = dry_run(self.RELEASE, *self.WORDS)
        assert answer.returncode == 0, answer.stderr
        unit = files["etc/systemd/system/slipway-metrics.service"]
        assert "ExecStart=/usr/bin/env python3.11 /opt/slipway/metrics.py --cluster tiny --chips neuron\n" in unit
        assert "Restart=always" in unit
        fetch, *services = answer.stdout.splitlines()
        assert fetch.startswith("+ aws s3 cp --only-show-errors s3://assets/metrics.py ")
        assert services[1::2] == [
            f"+ systemctl enable --now slipway-{service}.service" for service in ("node-jobs", "metrics")
        ]

    def test_metrics_service_reports_jobs_on_nodes_without_accelerators(self, dry_run):
        answer, files = dry_run(self.RELEASE, *(word for word in self.WORDS if "chips" not in word))
        assert answer.returncode == 0, answer.stderr
        (unit,) = [text for name, text in files.items() if name.endswith(".service")]
        assert "ExecStart=/usr/bin/env python3.11 /opt/slipway/metrics.py --cluster tiny --jobs\n" in unit

    def test_no_packages_are_installed_without_missing_ones(self, dry_run):
        answer, _ = dry_run("ID=plan9\n", *self.WORDS)
        assert answer.returncode == 0
        assert "apt-get" not in answer.stdout

    def test_node_with_failing_metrics_is_still_made(self, dry_run, tmp_path):
        (tmp_path / "opt").mkdir()
        (tmp_path / "opt/slipway").write_text("a file where the folder should be")
        answer, _ = dry_run(self.RELEASE, *self.WORDS)
        assert answer.returncode == 0
        assert "accelerators and jobs are not reported" in answer.stderr


def test_image_build_does_not_load_the_driver(dry_run):
    answer, files = dry_run(TestUbuntu.RELEASE, *NEURON, SLIPWAY_BAKE="1")
    assert answer.returncode == 0, answer.stderr
    assert "modprobe" not in answer.stdout
    assert "etc/profile.d/neuron.sh" in files


def test_unknown_option_of_node_script_is_refused(dry_run):
    answer, _ = dry_run(TestUbuntu.RELEASE, "--metric=s3://x")
    assert (answer.returncode, answer.stderr) == (2, "node.sh: unknown option --metric=s3://x\n")
