"""Sources of HyperPod's chart: a named folder, the cache, its publishers; messages of failures."""

import json
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler

import pytest

from launcher.cdk.chart import NAMED, assembly_files, files_in
from launcher.cdk.commands import Assembly
from launcher.model.errors import ImpossibleError
from launcher.workflow.deploy import chart
from launcher.workflow.deploy.chart import cached_files, chart_and_layer, chart_cache
from tests.emulators.loopback import listening


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Nothing."""


@pytest.fixture
def publisher(tmp_path, content):
    """A server with the files, and the requests it received."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).write_bytes(text)
    with listening(partial(Quiet, directory=str(folder))) as address:
        yield address, folder


@pytest.fixture
def own_pins(publisher, pins, monkeypatch):
    """Pins whose files that server has."""
    files = tuple(replace(file, url=f"{publisher[0]}/{file.name}") for file in pins.files)
    local_pins = replace(pins, files=files)
    monkeypatch.setattr(chart, "chart_pins", lambda: local_pins)
    return local_pins


@pytest.fixture
def environment(tmp_path):
    return {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_chart_files_are_downloaded_once_and_cached(own_pins, environment, publisher):
    messages = []
    contents = chart_and_layer(environment, messages.append)
    assert set(contents) == {own_pins.chart_name, own_pins.layer_name}
    assert len(messages) == len(own_pins.files)
    for path in publisher[1].iterdir():
        path.unlink()
    assert chart_and_layer(environment, messages.append) == contents
    assert len(messages) == len(own_pins.files)
    assert cached_files(environment) == contents


def test_chart_file_other_than_the_pinned_one_is_refused_and_not_cached(own_pins, environment, publisher):
    (publisher[1] / "elsewhere-2.tgz").write_bytes(b"changed by its publisher")
    with pytest.raises(ImpossibleError, match="is not what this version installs"):
        chart_and_layer(environment, lambda _: None)
    assert cached_files(environment) is None
    assert not list(chart_cache(environment).glob("*.tgz"))


def test_unreachable_chart_files_are_refused_with_the_download_command(own_pins, environment, publisher):
    (publisher[1] / "helm.whl").unlink()
    with pytest.raises(ImpossibleError, match="nothing was deployed") as refused:
        chart_and_layer(environment, lambda _: None)
    assert "curl -fL" in refused.value.hint
    assert all(file.url in refused.value.hint for file in own_pins.files)
    assert NAMED in refused.value.hint


def test_named_chart_folder_is_used_without_a_download(own_pins, environment, publisher, tmp_path):
    named = {**environment, NAMED: str(publisher[1])}
    messages = []
    assert set(chart_and_layer(named, messages.append)) == {own_pins.chart_name, own_pins.layer_name}
    assert messages == []
    assert not chart_cache(environment).exists()
    with pytest.raises(ImpossibleError, match=r"lacks chart\.tar\.gz, elsewhere-2\.tgz, helm\.whl"):
        chart_and_layer({**environment, NAMED: str(tmp_path / "empty")}, messages.append)


class TestAssembly:
    """A synthesis names the files; they are laid beside its templates before they are deployed."""

    @pytest.fixture
    def folder(self, tmp_path):
        assembly = tmp_path / "assembly"
        assembly.mkdir()
        (assembly / "manifest.json").write_text(json.dumps({"artifacts": {}}))
        return assembly

    def test_assembly_reports_a_reference_to_the_chart(self, folder):
        from launcher.catalog.hyperpod_chart import chart_pins

        assert not Assembly.read(folder).names_chart
        files = {"files": {"x": {"source": {"path": chart_pins().chart_name}}}}
        (folder / "x.assets.json").write_text(json.dumps(files))
        assert Assembly.read(folder).names_chart

    def test_completed_assembly_seals_the_added_files(self, folder):
        whole = Assembly.read(folder).add_files({"chart.zip": b"chart"})
        assert (folder / "chart.zip").read_bytes() == b"chart"
        whole.refuse_if_changed()
        (folder / "chart.zip").write_bytes(b"another")
        with pytest.raises(ImpossibleError):
            whole.refuse_if_changed()

    def test_changed_assembly_refuses_added_files(self, folder):
        assembly = Assembly.read(folder)
        (folder / "more.json").write_text("{}")
        with pytest.raises(ImpossibleError):
            assembly.add_files({"chart.zip": b"chart"})
        assert not (folder / "chart.zip").exists()


def test_chart_files_of_a_folder_equal_the_downloaded_ones(own_pins, environment, publisher):
    assert assembly_files(own_pins, files_in(own_pins, publisher[1])) == chart_and_layer(environment, lambda _: None)


def test_folder_without_a_file_is_refused_with_the_command(own_pins, publisher):
    (publisher[1] / "helm.whl").unlink()
    with pytest.raises(ImpossibleError, match=r"lacks helm\.whl") as refused:
        files_in(own_pins, publisher[1], "cdk deploy")
    assert refused.value.hint.endswith("cdk deploy")
