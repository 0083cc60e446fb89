"""Driver versions of a node's accelerators, read from files in the format of real kernels."""

import pytest

from launcher.agent.node.drivers import drivers

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
SHORT = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81  Wed Aug 17 22:24:07 PDT 2016"
GCC = "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"


@pytest.fixture
def node_with_drivers(tmp_path):
    def write_versions(**files):
        for name, content in files.items():
            path = tmp_path / {"nvidia": "proc/driver/nvidia", "neuron": "sys/module/neuron"}[name] / "version"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write_versions


@pytest.mark.parametrize("line, version", [(OPEN, "580.95.05"), (CLOSED, "535.129.03"), (SHORT, "384.81")])
def test_nvidia_driver_version_is_read_from_the_first_line(node_with_drivers, line, version):
    assert drivers(node_with_drivers(nvidia=line + GCC if line.endswith("\n") else line)) == {"nvidia-driver": version}


def test_neuron_driver_version_is_the_whole_file(node_with_drivers):
    assert drivers(node_with_drivers(neuron="2.x.8072.0\n")) == {"neuron-driver": "2.x.8072.0"}


@pytest.mark.parametrize(
    "content", ["", "\n", GCC, b"\xff\xfe\x00", "x" * 10**6, "NVRM version: NVIDIA UNIX no number here\n", "a b"]
)
def test_driver_file_without_a_version_gives_none(node_with_drivers, content):
    assert drivers(node_with_drivers(nvidia=content, neuron=content if content != GCC else "")) == {}


def test_a_node_without_accelerators_has_none(node_with_drivers):
    assert drivers(node_with_drivers()) == {}
