"""What pyproject.toml cannot say: single files of the root in the wheel, and the address of whoever publishes it."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Homepage": "",
    "Documentation": "/tree/main/docs",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
}


class RootFiles(BuildHookInterface[Any]):
    """Adds them beside templates and examples, which pyproject.toml places; an editable install uses them in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Force them into a standard wheel."""
        if version == "standard":
            for name in ("cdk.json", "package.json", "package-lock.json"):
                build_data["force_include"][name] = f"launcher/_data/{name}"


class ProjectUrls(MetadataHookInterface):
    """The project's URLs below the repository that PROJECT_URL names: `make dist PROJECT_URL=https://github.com/...`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set them; without an address the metadata has none, for the project cannot know who publishes it."""
        address = os.environ.get("PROJECT_URL", "").rstrip("/")
        if address and not address.startswith("https://"):
            raise ValueError(f"PROJECT_URL: got {address!r}; it must begin with https://")
        metadata["urls"] = {name: f"{address}{page}" for name, page in PAGES.items()} if address else {}
