"""The requirements of a sandbox on the computer and the installation, checked before anything starts."""

from importlib.util import find_spec

from launcher.model.distribution import install_hint
from launcher.model.errors import ImpossibleError
from launcher.sandbox import processes

PACKAGES = ("moto", "flask_cors", "jsonschema", "kubernetes_validate")
"""Packages of the extra `sandbox` (pyproject.toml), which an installation for AWS alone does not need."""


def refuse_unless_possible() -> None:
    """Refuse if a sandbox cannot run here.

    Raises:
        ImpossibleError: this system does not list processes, or the sandbox's packages are not installed.
    """
    if not processes.visible():
        hint = (
            "run it on Linux, or in a Linux container; plan, quote, render, deploy and launch into AWS need none of it"
        )
        raise ImpossibleError(
            "the sandbox finds its processes through /proc, which this system does not have", hint=hint
        )
    absent = [name for name in PACKAGES if find_spec(name) is None]
    if absent:
        message = f"the sandbox needs packages that are not installed: {', '.join(absent)}"
        raise ImpossibleError(message, hint=install_hint("sandbox"))
