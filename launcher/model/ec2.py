"""Plain instances for one job: names, images and limits shared by rules, templates, bill and sandbox.

Sources: botocore 1.44.5 (autoscaling, 2011-01-01; ec2, 2016-11-15), the EC2 Auto Scaling user guide (lifecycle hooks,
mixed instances groups), the Deep Learning AMI and Neuron DLAMI guides (Systems Manager parameters).
"""

import math
import re

from launcher.model import eks
from launcher.model.eks import Interface
from launcher.model.enums import EfaLayout
from launcher.model.instance_type import InstanceType

MAX_NODES = 8
"""Nodes of one job, this project's choice: public addresses cost less than a NAT gateway up to here (planning/nat.py),
and each node asks EC2 for the others every few seconds."""
NVIDIA_IMAGE = "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.12-ubuntu-24.04/latest/ami-id"
NEURON_IMAGE = "/aws/service/neuron/dlami/multi-framework/ubuntu-24.04/latest/image_id"
"""Name AWS's newest images for the chip: driver, EFA, Docker, the Systems Manager agent, PyTorch."""
GROUP_OUTPUT = "InstanceGroup"
"""The output of the stack that names the Auto Scaling group."""
ROOT_DEVICE = "/dev/sda1"
METADATA_HOPS = 2
"""Hop limit of instance metadata: a container of the job is one hop away."""
HOOK = "save"
"""The lifecycle hook that keeps an instance until its job has saved."""
SHORTEST_HOOK_S, LONGEST_HOOK_S = 30, 7200
"""Limits of HeartbeatTimeout (EC2 Auto Scaling API reference, LifecycleHookSpecification)."""
TO_THE_STORE_S = 120
"""Seconds after the grace time in which an instance stores its last files, this project's choice."""
ROOT = "/opt/slipway"
"""The folder of the job on an instance; checkpoints are below /scratch."""
SESSION_FILE = "session.sh"
"""Below ROOT: what a shell on the instance reads to be in the job's folder, with the job's programs."""
SCRATCH = "/scratch"
METADATA_KEY = re.compile(r"(?!\.{1,2}$|_index$)[A-Za-z0-9+=.,_:@-]+")
"""A tag's key that the metadata service can show (EC2 user guide, "Work with instance tags in instance metadata")."""
MAX_OVERRIDES = 40
"""Instance types of a mixed instances policy (EC2 Auto Scaling API reference, LaunchTemplate.Overrides)."""
FAILED_BOOTS = 3
"""Boots that may fail before the job has failed: each failed instance is replaced."""
LEAVE_TRIES = 12
"""Calls with which a failed instance ends the hook's wait, every five seconds: the group first has to terminate it."""


def image_parameter(facts: InstanceType) -> str | None:
    """The Systems Manager parameter of AWS's image for a type; None for a type without accelerators.

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> [image_parameter(types[name]).split("/")[3] for name in ("g6e.xlarge", "trn1.32xlarge")]
    ['deeplearning', 'neuron']
    >>> image_parameter(types["m6i.large"]) is None
    True
    """
    if facts.accelerator is None:
        return None
    return NEURON_IMAGE if facts.neuron else NVIDIA_IMAGE


def interfaces(facts: InstanceType, nodes: int, layout: EfaLayout) -> tuple[Interface, ...]:
    """The network interfaces of each node; empty for EC2's default interface.

    A job on one node does not use EFA. On types with one card, one interface has both EFA and the address: EC2 gives no
    public address to an instance that starts with several interfaces (EC2 user guide, public IPv4 addresses).

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> interfaces(types["p5.48xlarge"], 1, EfaLayout.AUTO), interfaces(types["g6e.8xlarge"], 2, EfaLayout.AUTO)
    ((), (Interface(card=0, device=0, kind='efa'),))
    """
    if nodes == 1:
        return ()
    return eks.interfaces(facts, EfaLayout.CLASSIC if facts.network_cards == 1 else layout)


def hook_s(grace_s: float, checkpoint_write_s: float = 0.0) -> int:
    """Seconds for which a terminating instance waits for its job: the grace time, and the time to store what it saved.

    >>> hook_s(20.0), hook_s(100_000.0)
    (140, 7200)
    """
    needed = math.ceil(grace_s + checkpoint_write_s) + TO_THE_STORE_S
    return min(LONGEST_HOOK_S, max(SHORTEST_HOOK_S, needed))
