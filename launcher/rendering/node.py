"""The additions to a compute node with ParallelCluster's own AMI: Python for the agent, Neuron's driver, a reporter."""

from pathlib import Path

from launcher.catalog.assets import asset
from launcher.model.enums import OperatingSystem
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import BOOTS_FOLDER, node_metrics

PYTHONS = {
    OperatingSystem.UBUNTU2404: "python3",
    OperatingSystem.UBUNTU2204: "python3",
    OperatingSystem.ALINUX2023: "python3.11",
    OperatingSystem.RHEL8: "python3.11",
    OperatingSystem.RHEL9: "python3.11",
    OperatingSystem.ROCKY8: "python3.11",
    OperatingSystem.ROCKY9: "python3.11",
}
"""The interpreter of the agent, which needs Python 3.10: 3.12 and 3.10 are the system's own on Ubuntu 24.04 and 22.04;
Amazon Linux 2023 and the Red Hat family have 3.9 or older and offer 3.11 as a package."""

OLD_KERNELS = frozenset({OperatingSystem.RHEL8, OperatingSystem.RHEL9, OperatingSystem.ROCKY8, OperatingSystem.ROCKY9})
"""Operating systems with a kernel older than 5.15: 4.18 on release 8, 5.14 on release 9."""

NODE_SCRIPT = "templates/parallelcluster/node.sh"
REPORT_BOOT = "templates/slurm/report_boot.sh"
METRICS_SCRIPT = "templates/parallelcluster/metrics.py"
"""Assets: the script that sets up a node, and the one that reports its accelerators and jobs to CloudWatch."""
_INCLUDED = f"# included: {REPORT_BOOT}\n"
_STILLNESS = Path(__file__).resolve().parents[1] / "agent" / "node" / "stillness.py"
_OWN_IMPORT = "from launcher.agent.node.stillness import Stillness\n"


def is_nvidia(facts: InstanceType) -> bool:
    """Whether a type has NVIDIA chips: every family with an accelerator other than Neuron's."""
    return is_measured(facts) and not facts.neuron


def is_measured(facts: InstanceType) -> bool:
    """Whether a node of a type has accelerators whose use it reports."""
    return bool(node_metrics(facts))


def node_packages(facts: InstanceType, os: OperatingSystem) -> tuple[str, ...]:
    """Packages, with versions, that a type's nodes lack with ParallelCluster's own image; empty if none.

    ParallelCluster's images include NVIDIA's driver and EFA, but nothing of Neuron.
    """
    packages = [] if PYTHONS[os] == "python3" else [PYTHONS[os]]
    stack = facts.chip.training_stack if facts.chip is not None else None
    return (*packages, *(stack.node_packages if stack is not None else ()))


def node_arguments(
    facts: InstanceType, os: OperatingSystem, *, baked: bool, cluster: str, metrics_uri: str | None
) -> tuple[str, ...]:
    """The arguments of templates/parallelcluster/node.sh for a type; empty if its nodes need nothing.

    `baked`: whether the image already has the packages; `metrics_uri`: the S3 URI of METRICS_SCRIPT, None to report
    nothing.
    """
    reporting: tuple[str, ...] = ()
    if metrics_uri is not None:
        reporting = (f"--metrics={metrics_uri}", *reporting_arguments(facts, cluster=cluster, python=PYTHONS[os]))
    return (*reporting, *(() if baked else node_packages(facts, os)))


def reporting_arguments(facts: InstanceType, *, cluster: str, python: str) -> tuple[str, ...]:
    """The arguments of that script for reports of a type's nodes to CloudWatch."""
    chips = (f"--chips={'nvidia' if is_nvidia(facts) else 'neuron'}",) if is_measured(facts) else ()
    return (f"--cluster={cluster}", *chips, f"--python={python}")


def script_text(name: str) -> str:
    """The text of a script among the assets."""
    return asset(name).read_text(encoding="utf-8")


def metrics_script() -> str:
    """The text of METRICS_SCRIPT, joined in one file with the agent's module that it detects idle nodes with."""
    before, separator, after = script_text(METRICS_SCRIPT).partition(_OWN_IMPORT)
    if not separator:
        message = f"{METRICS_SCRIPT} has no line {_OWN_IMPORT!r}"
        raise ValueError(message)
    return before + _STILLNESS.read_text(encoding="utf-8") + after


def node_script() -> str:
    """The text of NODE_SCRIPT with the function that reports its end to the guard."""
    return reporting(NODE_SCRIPT)


def reporting(name: str) -> str:
    """The text of a script among the assets with the function that reports its end to the guard."""
    before, separator, after = script_text(name).partition(_INCLUDED)
    if not separator:
        message = f"{name} has no line {_INCLUDED!r}"
        raise ValueError(message)
    return before + script_text(REPORT_BOOT) + after


def boots_uri(message_uri: str) -> str:
    """The place for reports of nodes' boots, below the folder of messages to the guard."""
    return f"{message_uri}/{BOOTS_FOLDER}"


def login_boots_uri(message_uri: str) -> str:
    """The place for reports of a login node's boots: the guard counts those of the nodes of jobs."""
    return f"{boots_uri(message_uri)}/login"


def boot_reports(message_uri: str | None) -> tuple[str, ...]:
    """The argument of the nodes' scripts for reports of their boots."""
    return () if message_uri is None else (f"--reports={boots_uri(message_uri)}",)


def report_boot() -> str:
    """The shell function that reports the end of a node's boot."""
    return script_text(REPORT_BOOT).rstrip("\n")


def efa_check() -> str:
    """The shell function that counts a node's EFA interfaces."""
    return script_text("templates/slurm/check_efa.sh").rstrip("\n")
