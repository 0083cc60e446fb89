"""Neuron's Python environment for the stack of a chip, as a script."""

from launcher.model.enums import OperatingSystem
from launcher.model.instance_type import InstanceType
from launcher.rendering.engine import render_template
from launcher.rendering.node import PYTHONS


def environment_script(facts: InstanceType, os: OperatingSystem) -> str | None:
    """The script that creates a type's Python environment; None if the user provides the environment."""
    stack = facts.chip.training_stack if facts.chip is not None else None
    if stack is None:
        return None
    return render_template(stack.template, stack=stack, python=PYTHONS[os])


def keeps_compiled_programs(facts: InstanceType) -> bool:
    """Whether a type's programs are compiled ahead and stored in a cache that jobs share."""
    stack = facts.chip.training_stack if facts.chip is not None else None
    return stack is not None and not stack.compiles_in_process
