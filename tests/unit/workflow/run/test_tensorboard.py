"""The logs for TensorBoard that a job writes below its folder."""

import subprocess

import pytest

from launcher.workflow.run.on_nodes import tensorboard_folder


class Here:
    """A node whose commands run in a folder of this computer."""

    def __init__(self, folder, **variables):
        self.folder, self.variables = folder, variables

    def read(self, node, command):
        environment = {"PATH": "/usr/bin:/bin", **self.variables}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        ).stdout


@pytest.mark.parametrize("below", ["runs/Nov28_12-00-00_node", "out/lightning_logs/version_3"])
def test_tensorboard_folder_is_found_below_job_folder(tmp_path, below):
    logs = tmp_path / below
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.1764330000.node.1.0").touch()
    assert tensorboard_folder(Here(tmp_path), "n1") == f"./{below}"


def test_tensorboard_folder_of_pod_is_searched_from_root(tmp_path):
    logs = tmp_path / "job" / "logs"
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.1764330000.pod.1.0").touch()
    assert tensorboard_folder(Here("/", SLIPWAY_ROOT=str(tmp_path)), "n1") == str(logs)


def test_job_without_tensorboard_logs_has_no_folder(tmp_path):
    (tmp_path / "metrics.jsonl").touch()
    assert tensorboard_folder(Here(tmp_path), "n1") is None
