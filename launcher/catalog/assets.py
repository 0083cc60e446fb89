"""Files that ship with the package: templates, examples, cdk.json and the CDK CLI's lock."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def asset(name: str) -> Path:
    """The path of a file or folder of the project, the same in a checkout and in an installed wheel.

    Args:
        name: its path from the checkout's root: "templates", "examples/tiny-gpt.yaml", "cdk.json", "package-lock.json".

    Raises:
        FileNotFoundError: the asset is missing; the installation is damaged, or the name is wrong.
    """
    path = root() / name
    if not path.exists():
        message = f"slipway's own {name} is missing: expected {path}; reinstall slipway"
        raise FileNotFoundError(message)
    return path


def root() -> Path:
    """The base folder of asset names: `launcher/_data` in a wheel, the repository in a checkout."""
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent
