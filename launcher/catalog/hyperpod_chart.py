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
    """The chart and the files that install it.

    `folder` of the chart's archive contains it at `commit`, from which `subcharts` are used. `sha256` is that of the
    packed chart, `layer_sha256` that of the layer with helm, which is `layer_member` of `layer_archive` in its wheel.
    `neuron_types` are the types whose devices the chart can expose.
    """

    commit: str
    folder: str
    subcharts: tuple[str, ...]
    sha256: str
    files: tuple[PinnedFile, ...]
    layer_archive: str
    layer_member: str
    layer_sha256: str
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
