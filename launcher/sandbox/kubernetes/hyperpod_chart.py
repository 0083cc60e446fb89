"""HyperPod's chart in the sandbox: the real chart rendered by helm, or the sandbox's own small chart instead."""

import io
import platform
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.catalog import safe_yaml
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.model.eks import VERSION
from launcher.rendering.device_plugins import neuron_manifest, neuron_plugin, plugins_manifest

STAND_IN = "slipway-stand-in.yaml"
"""The file that identifies the sandbox's own chart."""
_SMALL_CHART = Path(__file__).with_name("hyperpod_chart.yaml")
_RENDERED_WITHIN_S = 120
_RUNS_ON = ("Linux", "x86_64")
"""The platform of the layer's helm: that of Lambda."""


def emulated_files() -> dict[str, bytes]:
    """Archives that replace the chart and the layer, by their names in an assembly."""
    pins, buffer = chart_pins(), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(STAND_IN, _SMALL_CHART.read_bytes())
    return {name: buffer.getvalue() for name in (pins.chart_name, pins.layer_name)}


def is_emulated(content: bytes) -> bool:
    """Whether an archive is the sandbox's own."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist() == [STAND_IN]


def runs_here() -> bool:
    """Whether the layer's helm runs on this computer."""
    return (platform.system(), platform.machine()) == _RUNS_ON


def own_objects(values: str) -> Iterator[dict[str, Any]]:
    """The objects of the sandbox's own chart: the constant ones, and the device plugins that the values enable."""
    yield from safe_yaml.documents(_SMALL_CHART.read_text(encoding="utf-8"))
    settings = safe_yaml.loads(values)
    efa = settings["aws-efa-k8s-device-plugin"]
    nvidia = settings["nvidia-device-plugin"]["devicePlugin"]["enabled"]
    neuron = settings["neuron-device-plugin"]["devicePlugin"]["enabled"]
    types, plugin = tuple(_types(settings)), neuron_plugin() if neuron else None
    texts = [
        plugins_manifest(nvidia=types if nvidia else (), efa=types if efa["devicePlugin"]["enabled"] else ()),
        None if plugin is None else neuron_manifest(plugin, types),
    ]
    for text in texts:
        yield from (document for document in safe_yaml.documents(text or "") if document)


def _types(settings: Mapping[str, Any]) -> Iterator[str]:
    for key, value in settings.items():
        if key == "values" and isinstance(value, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from _types(value)
        elif isinstance(value, list):
            for type_name in value:
                yield from _types(type_name if isinstance(type_name, Mapping) else {})


def rendered_by_helm(chart: bytes, layer: bytes, values: str, *, release: str, namespace: str) -> list[dict[str, Any]]:
    """The objects of the real chart."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, values_file, helm = (Path(scratch, name) for name in ("chart", "values.yaml", "helm"))
        with zipfile.ZipFile(io.BytesIO(chart)) as archive:
            archive.extractall(folder)
        with zipfile.ZipFile(io.BytesIO(layer)) as archive:
            helm.write_bytes(archive.read("helm/helm"))
        helm.chmod(0o700)
        values_file.write_text(values, encoding="utf-8")
        command = [str(helm), "template", release, str(folder), "--include-crds", "--namespace", namespace]
        command += ["--values", str(values_file), "--kube-version", f"{VERSION}.0"]
        environment = {f"HELM_{purpose}_HOME": str(Path(scratch, purpose)) for purpose in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_RENDERED_WITHIN_S
        )
    if done.returncode != 0:
        raise RuntimeError(f"helm template: {done.stderr.strip()[-2000:]}")
    return [document for document in safe_yaml.documents(done.stdout) if document]
