"""An AMI with the software that nodes would install at every start: the files for `pcluster build-image`."""

from collections.abc import Mapping

from launcher.model.enums import OperatingSystem
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.networks import subnet_id
from launcher.rendering.engine import render_template
from launcher.rendering.node import node_packages, node_script

PARALLELCLUSTER_VERSION = "3.16.1"
"""The release of the deployed provider and of the schema for the configuration."""

BUILD_INSTANCE = "m6i.2xlarge"
"""The build instance: drivers are compiled there and loaded elsewhere, so it needs no accelerator. Slipway's choice."""
PARENTS = {
    OperatingSystem.UBUNTU2404: "ubuntu-server-24-lts-x86",
    OperatingSystem.UBUNTU2204: "ubuntu-server-22-lts-x86",
    OperatingSystem.ALINUX2023: "amazon-linux-2023-x86",
    OperatingSystem.RHEL8: "red-hat-enterprise-linux-8-x86",
    OperatingSystem.RHEL9: "red-hat-enterprise-linux-9-x86",
}
"""Images that EC2 Image Builder manages (its user guide, 2026; the one of Ubuntu 24.04 follows the others' pattern, not
confirmed). Image Builder has none of Rocky Linux."""
_INDENT = 14 * " "
"""The indentation of the script in the component."""


def image_files(plan: Plan, instances: Mapping[str, InstanceType]) -> dict[str, str]:
    """The text of the image's configuration and of its component, by file name.

    Empty if the nodes need no packages or already have a baked image, if two types of the cluster need different
    packages, or if Image Builder has no image of the operating system.
    """
    target = plan.request.target
    types = [instances[type_name] for type_name in (plan.place.instance_type, *target.fallback_types)]
    needed = {packages for type_ in types if (packages := node_packages(type_, target.os))}
    if target.ami is not None or len(needed) != 1 or target.os not in PARENTS:
        return {}
    (packages,) = needed
    region, name = plan.place.region, f"slipway-{plan.cluster_name}"
    configuration = render_template(
        "parallelcluster/image.yaml.j2",
        plan=plan,
        component=name,
        component_arn=f"arn:aws:imagebuilder:{region}:ACCOUNT:component/{name}/1.0.0/1",
        version=PARALLELCLUSTER_VERSION,
        instance_type=BUILD_INSTANCE,
        native_torch=_compiles_in_process(types[0]),
        parent_image=f"arn:aws:imagebuilder:{region}:aws:image/{PARENTS[target.os]}/x.x.x",
        subnet_id=subnet_id(plan),
    )
    script = [f"{_INDENT}{line}".rstrip() for line in node_script().splitlines()[1:]]
    component = render_template(
        "parallelcluster/image-component.yaml.j2", component=name, packages=packages, script=script
    )
    return {"image.yaml": configuration, "image-component.yaml": component}


def _compiles_in_process(facts: InstanceType) -> bool:
    """Whether the type's training uses PyTorch's native backend for its chip."""
    stack = facts.chip.training_stack if facts.chip is not None else None
    return stack is not None and stack.compiles_in_process
