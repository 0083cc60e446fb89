"""HyperPod's requirements in an EKS cluster before its nodes: pinned files, and digests of derived files.

data/hyperpod_chart.toml    commit, addresses and digests, with their sources
"""

import tomllib
from functools import lru_cache

from launcher.catalog.tables import SNAPSHOT
from launcher.model.record import record

CHART, SUBCHART, LAYER = "chart", "subchart", "layer"


@record
class PinnedFile:
    """A public file: its name in the cache, its address, its SHA-256 if its publisher keeps the bytes stable.

    `role` is its purpose; `chart` the name of the chart in it, for subcharts.
    """

    role: str
    name: str
    url: str
    sha256: str | None
    chart: str | None


@record
class ChartPins:
    """The chart and the files that install it."""

    # The commit of the chart's repository.
    commit: str
    # The folder of the archive that contains the chart.
    folder: str
    # The subcharts that are used.
    subcharts: tuple[str, ...]
    # Of the packed chart.
    sha256: str
    files: tuple[PinnedFile, ...]
    # The wheel with helm, and the layer in it.
    layer_archive: str
    layer_member: str
    # Of the layer with helm.
    layer_sha256: str
    # The types whose devices the chart can expose.
    neuron_types: frozenset[str]

    def of(self, role: str) -> tuple[PinnedFile, ...]:
        """The files of a role."""
        return tuple(file for file in self.files if file.role == role)

    @property
    def chart_name(self) -> str:
        """The packed chart's name in an assembly."""
        return f"hyperpod-chart.{self.sha256}.zip"

    @property
    def layer_name(self) -> str:
        """The layer's name in an assembly."""
        return f"helm-layer.{self.layer_sha256}.zip"

    @property
    def charts(self) -> tuple[str, ...]:
        """The names of all installed subcharts."""
        return (*self.subcharts, *(str(pinned_file.chart) for pinned_file in self.of(SUBCHART)))


@lru_cache(maxsize=1)
def chart_pins() -> ChartPins:
    """The shipped pins."""
    document = tomllib.loads((SNAPSHOT / "hyperpod_chart.toml").read_text(encoding="utf-8"))
    chart, layer = document["chart"], document["layer"]
    return ChartPins(
        commit=chart["commit"],
        folder=chart["folder"],
        subcharts=tuple(chart["subcharts"]),
        sha256=chart["sha256"],
        files=tuple(
            PinnedFile(
                role=file["role"],
                name=file["name"],
                url=file["url"],
                sha256=file.get("sha256"),
                chart=file.get("chart"),
            )
            for file in document["file"]
        ),
        layer_archive=layer["archive"],
        layer_member=layer["member"],
        layer_sha256=layer["sha256"],
        neuron_types=frozenset(chart["neuron_types"]),
    )
