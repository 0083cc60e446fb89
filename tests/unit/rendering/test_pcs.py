"""The boot scripts of PCS nodes, in a dry run: commands are printed, files are written below a folder."""

import os
import shutil
import subprocess

import pytest

from launcher.targets.pcs.files import instance_script

MOUNTED = "fs@tcp:/abc /fsx lustre rw 0 0\n/fsx/ubuntu /home/ubuntu none rw,bind 0 0\nlvm /opt/dlami/nvme ext4 rw 0 0\n"
LUSTRE = ("--lustre=fs-0.fsx.us-east-2.amazonaws.com", "--mount-name=abc")


@pytest.fixture
def root(tmp_path):
    """A machine with eight accelerators, two EFA interfaces and Slurm, nothing mounted."""
    root_folder = tmp_path / "root"
    for folder in ("dev", "proc", "home/ubuntu", "opt/aws/pcs/scheduler/slurm-25.11/bin", "opt/dlami/nvme"):
        (root_folder / folder).mkdir(parents=True)
    (root_folder / "proc/mounts").write_text("rootfs / ext4 rw 0 0\n")
    for number in range(8):
        (root_folder / f"dev/nvidia{number}").touch()
    for name in ("sbatch", "squeue"):
        (root_folder / "opt/aws/pcs/scheduler/slurm-25.11/bin" / name).touch()
    for number in range(2):
        device = root_folder / f"sys/class/infiniband/rdmap{number}/device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to("/sys/bus/pci/drivers/efa")
    return root_folder


@pytest.fixture
def run_machine_script(tmp_path, root):
    script = tmp_path / "machine.sh"
    script.write_text(instance_script())

    def run(*arguments, **more):
        variables = {"SLIPWAY_DRY_RUN": "1", "SLIPWAY_ROOT": str(root), "SLIPWAY_TRIES": "1", **more}
        environment = {"PATH": os.environ["PATH"], **variables}
        return subprocess.run(
            ["bash", str(script), *arguments], check=False, capture_output=True, text=True, env=environment
        )

    return run


def test_pcs_machine_mounts_lustre_shares_home_and_links_slurm(run_machine_script, root):
    done = run_machine_script(*LUSTRE)
    assert done.returncode == 0, done.stderr
    assert (
        r"+ mount -t lustre -o noatime\,flock\,lazystatfs fs-0.fsx.us-east-2.amazonaws.com@tcp:/abc /fsx" in done.stdout
    )
    assert "+ mount --bind /fsx/ubuntu /home/ubuntu" in done.stdout
    assert (root / "usr/local/bin/sbatch").readlink().as_posix() == "/opt/aws/pcs/scheduler/slurm-25.11/bin/sbatch"


def test_mounted_file_system_is_not_mounted_again(run_machine_script, root):
    (root / "proc/mounts").write_text(MOUNTED)
    assert "+ mount" not in run_machine_script(*LUSTRE).stdout


def test_pcs_node_with_all_devices_of_the_type_is_accepted(run_machine_script, root):
    (root / "proc/mounts").write_text(MOUNTED)
    done = run_machine_script(*LUSTRE, "--chips=nvidia:8", "--efa=2", "--nvme", "--type=p5.48xlarge")
    assert done.returncode == 0, done.stderr
    assert (root / "scratch").is_symlink()


@pytest.mark.parametrize(
    "words, message",
    [
        (("--chips=nvidia:16", "--type=p5.48xlarge"), "an accelerator is missing"),
        (("--efa=32", "--type=p5.48xlarge"), "an EFA interface is missing"),
        (("--bogus",), "unknown option --bogus"),
    ],
)
def test_pcs_node_with_missing_devices_is_refused(run_machine_script, words, message):
    done = run_machine_script(*LUSTRE, *words)
    assert done.returncode != 0
    assert message in done.stderr


def test_pcs_image_without_slurm_is_refused(run_machine_script, root):
    shutil.rmtree(root / "opt/aws")
    assert "the image is not for it" in run_machine_script(*LUSTRE).stderr


def test_pcs_machine_script_without_file_system_options_is_refused(run_machine_script):
    assert "--lustre and --mount-name are needed" in run_machine_script().stderr


def test_pcs_machine_script_passes_shellcheck(tmp_path, shellcheck):
    path = tmp_path / "machine.sh"
    path.write_text(instance_script())
    assert shellcheck(path) == ""
