"""How a node reports the end of its boot: the real scripts in bash, with a program `aws` that keeps its input."""

import os
import re
import subprocess
from email import message_from_string

import pytest
import yaml

from launcher.catalog.assets import asset
from launcher.rendering.node import REPORT_BOOT, node_script, reporting
from launcher.targets.eks.files import JOINED, user_data
from launcher.targets.pcs.files import instance_script

URI = "s3://store/jobs/.guard/8131d980/messages/boots"
AWS = '#!/bin/bash\n[[ "${AWS_FAILS:-}" ]] && exit 1\ncp "$4" "$KEPT/${5##*/}"\necho "$5" >>"$KEPT/uris"\n'
RUN = 'set -euo pipefail\nrun() { "$@"; }\n. "$REPORT_BOOT"\nreport_boot "$@"\n'


@pytest.fixture
def boot(tmp_path):
    """Boot a node with a script; the process, and the names and texts of what it reported."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/aws").write_text(AWS)
    (tmp_path / "bin/aws").chmod(0o755)
    (tmp_path / "root/sys/devices/virtual/dmi/id").mkdir(parents=True)
    (tmp_path / "root/sys/devices/virtual/dmi/id/board_asset_tag").write_text("i-0123456789abcdef0\n")
    kept = tmp_path / "kept"
    kept.mkdir()

    def run(script, *arguments, wrapper=RUN, **variables):
        path = tmp_path / "script.sh"
        path.write_text(script)
        environment = {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "KEPT": str(kept),
            "REPORT_BOOT": str(asset(REPORT_BOOT)),
            "SLIPWAY_ROOT": str(tmp_path / "root"),
            **variables,
        }
        words = ["bash", "-c", wrapper, "boot", URI, str(path)] if wrapper else ["bash", str(path)]
        done = subprocess.run([*words, *arguments], check=False, capture_output=True, text=True, env=environment)
        return done, {file.name: file.read_text() for file in kept.glob("2*")}

    return run


def test_failed_boot_reports_the_last_lines_and_keeps_the_exit_code(boot):
    done, reported = boot('for n in $(seq 30); do echo "line $n"; done\necho "no disk" >&2\nexit 3\n')
    ((name, text),) = reported.items()
    assert done.returncode == 3
    assert re.fullmatch(r"\d{8}T\d{6}Z-i-0123456789abcdef0-failed\.txt", name)
    assert text.splitlines() == [*(f"line {n}" for n in range(12, 31)), "no disk"]


@pytest.mark.parametrize("code, outcome", [(0, "ready"), (28, "failed")])
def test_boot_on_a_full_disk_reports_its_own_end_and_last_lines(boot, tmp_path, code, outcome):
    # No temporary folder can be made, and what the boot prints goes to a log on the full disk, as cloud-init's does.
    wrapper = RUN.replace('report_boot "$@"', 'report_boot "$@" >/dev/full')
    script = f"echo 'E: No space left on device'\nexit {code}\n"
    done, reported = boot(script, wrapper=wrapper, TMPDIR=str(tmp_path / "full"))
    ((name, text),) = reported.items()
    assert (done.returncode, name.rpartition("-")[2]) == (code, f"{outcome}.txt")
    assert text == "E: No space left on device\n"


def test_successful_boot_is_reported_as_ready(boot):
    done, reported = boot('echo "$1 $2"\n', "a b", "c")
    assert (done.returncode, done.stdout) == (0, "a b c\n")
    assert [name.rpartition("-")[2] for name in reported] == ["ready.txt"]


def test_boot_of_an_older_instance_type_is_reported_with_cloud_inits_id(boot, tmp_path):
    (tmp_path / "root/sys/devices/virtual/dmi/id/board_asset_tag").write_text("Not Specified\n")
    (tmp_path / "root/var/lib/cloud/data").mkdir(parents=True)
    (tmp_path / "root/var/lib/cloud/data/instance-id").write_text("i-0fedcba9876543210\n")
    _, reported = boot("exit 1\n")
    assert [name.partition("-")[2] for name in reported] == ["i-0fedcba9876543210-failed.txt"]


def test_boot_ended_by_an_unhandled_error_is_reported(boot):
    done, reported = boot("set -euo pipefail\necho begun\nfalse\necho never\n")
    assert done.returncode == 1
    assert list(reported.values()) == ["begun\n"]


def test_unreachable_report_store_does_not_change_the_boot(boot):
    for script, code in (("true\n", 0), ("exit 7\n", 7)):
        done, reported = boot(script, AWS_FAILS="1")
        assert (done.returncode, reported) == (code, {})
        assert "was not reported to s3://store" in done.stderr


def test_long_line_of_a_boot_report_is_cut_to_the_limit_of_the_guard(boot):
    _, reported = boot("head -c 100000 /dev/zero | tr '\\0' x\nexit 1\n")
    assert [len(text) for text in reported.values()] == [3000]


def test_pcs_node_with_missing_accelerators_reports_the_reason(boot):
    arguments = ("--lustre=fs", "--mount-name=abc", "--chips=nvidia:8", "--type=p5.48xlarge", f"--reports={URI}")
    dry = {"SLIPWAY_DRY_RUN": "1", "SLIPWAY_TRIES": "1"}
    done, _ = boot(instance_script(), *arguments, wrapper="", **dry)
    assert done.returncode == 1
    # It has no Slurm, which is checked before the accelerators.
    assert "machine.sh: " in done.stdout
    assert re.search(
        rf"^\+ timeout 60 aws s3 cp --only-show-errors \S+ {URI}/\S+-failed\.txt$", done.stdout, re.MULTILINE
    )


def test_parallelcluster_node_with_failed_packages_reports_the_reason(boot):
    done, _ = boot(node_script(), f"--reports={URI}", "python3.11", wrapper="", SLIPWAY_DRY_RUN="1")
    assert done.returncode != 0
    assert re.search(rf"{URI}/\S+-failed\.txt$", done.stdout, re.MULTILINE)


@pytest.fixture
def join(boot, tmp_path):
    """Boot an EKS node whose journal is given; what it reported, by the end of its name."""

    def run(journal):
        program = tmp_path / "bin/journalctl"
        program.write_text(f"#!/bin/bash\ncat <<'JOURNAL'\n{journal}\nJOURNAL\n")
        program.chmod(0o755)
        place = tmp_path / "reports"
        place.write_text(f"{URI}\n")
        done, reported = boot(reporting(JOINED), str(place), wrapper="", SLIPWAY_TRIES="2", SLIPWAY_PAUSE_S="0")
        return done.returncode, {name.rpartition("-")[2]: text for name, text in reported.items()}

    return run


@pytest.mark.parametrize("words", ["Successfully registered node", "Node was previously registered"])
def test_joined_eks_node_is_reported_as_ready(join, words):
    code, reported = join(f'I0101 kubelet_node_status.go:79] "{words}" node="ip-10-0-0-1"')
    assert (code, list(reported)) == (0, ["ready.txt"])
    assert "has joined its cluster" in reported["ready.txt"]


def test_eks_node_with_a_long_journal_is_reported_as_ready(join):
    lines = ["x" * 100 for _ in range(20_000)]
    assert join("\n".join(["Successfully registered node", *lines]))[0] == 0


@pytest.mark.parametrize("words", ["Unable to register node with API server: Unauthorized", ""])
def test_eks_node_not_joining_in_time_reports_the_journal(join, words):
    code, reported = join(words)
    assert (code, list(reported)) == (1, ["failed.txt"])
    assert words in reported["failed.txt"]
    assert "has not joined its cluster in time" in reported["failed.txt"]


def test_user_data_of_eks_installs_the_join_script_unchanged(tmp_path):
    data = message_from_string(user_data(local_storage=True, reports=URI))
    config, script = list(data.walk())[1:]
    assert config.get_content_type() == "application/node.eks.aws"
    assert yaml.safe_load(config.get_payload())["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
    assert script.get_content_type() == "text/x-shellscript"
    text = script.get_payload()
    for folder in ("/opt/slipway", "/etc/systemd/system"):
        text = text.replace(folder, f"{tmp_path}{folder}")
        (tmp_path / folder[1:]).mkdir(parents=True)
    text = text.replace("systemctl", "echo systemctl")
    done = subprocess.run(["bash", "-c", text], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "systemctl start --no-block slipway-joined.service"
    assert (tmp_path / "opt/slipway/joined.sh").read_text() == reporting(JOINED)
    assert (tmp_path / "opt/slipway/reports").read_text() == f"{URI}\n"
    assert "After=nodeadm-run.service" in (tmp_path / "etc/systemd/system/slipway-joined.service").read_text()
    # EC2 user guide: 16 KB before base64.
    assert len(data.as_bytes()) < 16 * 1024


def test_user_data_of_eks_without_disks_and_reports_is_absent():
    assert user_data(local_storage=False, reports=None) is None
    assert "x-shellscript" not in user_data(local_storage=True, reports=None)


def test_scripts_of_eks_nodes_pass_shellcheck(tmp_path, shellcheck):
    script = list(message_from_string(user_data(local_storage=False, reports=URI)).walk())[1].get_payload()
    for name, text in (("joined.sh", reporting(JOINED)), ("user-data.sh", script)):
        (tmp_path / name).write_text(text)
        assert shellcheck(tmp_path / name) == "", name
