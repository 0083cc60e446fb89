"""Single files of the repository's root that ride in the wheel; an editable install uses them where they stand."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RootFiles(BuildHookInterface[Any]):
    """Adds them beside templates and examples, which pyproject.toml places."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Force them into a standard wheel."""
        if version == "standard":
            for name in ("cdk.json", "package.json", "package-lock.json"):
                build_data["force_include"][name] = f"launcher/_data/{name}"
